/**
 * The log: JSON lines on standard error by pino, or a logger that the embedding program brings, or nothing. Opened by compose;
 * the request observer and compose write to it.
 *
 * What must stay true: nothing that a client sent gets into it but a request id of harmless letters; of a fault only its name,
 * message, code and stack are written, because faults may carry tokens and claims in other fields; writing never waits.
 */
import pino from "pino";
import { counter, type Metric } from "../core/metric.ts";
import type { World } from "../core/world.ts";
import { LOG_LIMITS, type LogLimits } from "./limits.ts";
import { LineBuffer } from "./line-buffer.ts";
import { flushAtExit, forgetAtExit, stderrOutlet } from "./stderr.ts";

export type LogLevel = "fatal" | "error" | "warn" | "info" | "debug" | "trace" | "silent";

/** What an embedding program may bring instead of ours; a pino logger is one. */
export interface Logger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

type Some<T> = { readonly [K in keyof T]?: T[K] | undefined };

export interface LogOptions extends Some<LogLimits> {
  readonly level?: LogLevel | undefined;
  /** One line per request, at `info`. */
  readonly requests?: boolean | undefined;
  readonly logger?: Logger | undefined;
}

/** One line per request. */
export interface RequestLine {
  readonly id: string;
  readonly method: string;
  readonly route: string;
  readonly project: string | undefined;
  readonly status: number;
  readonly ms: number;
  /** Why it ended, where that is not plain. */
  readonly end: string | undefined;
}

/** Takes the fields one by one, because an object per request is more than the line needs. `ms` is as fine as it was measured. */
export type LogRequest = (
  id: string,
  method: string,
  route: string,
  project: string | undefined,
  status: number,
  ms: number,
  end: string | undefined,
) => void;

export class Log {
  private constructor(
    private readonly logger: Logger | undefined,
    /** Undefined when nobody wants to hear of requests. */
    readonly request: LogRequest | undefined,
    private readonly buffer: LineBuffer | undefined,
    private readonly limits: LogLimits = LOG_LIMITS,
  ) {}

  static open(options: LogOptions | false, world: Pick<World, "after" | "now">): Log {
    if (options === false) return new Log(undefined, undefined, undefined);
    const { level = "info", requests = true, logger, ...given } = options;
    const limits = { ...LOG_LIMITS, ...given } as LogLimits;
    if (logger) return new Log(logger, requests ? requestsTo(logger) : undefined, undefined, limits);
    const dropped = (count: number) =>
      `{"level":"warn","time":${world.now()},"dropped":${count},"msg":"log lines were dropped"}\n`;
    const buffer = new LineBuffer(stderrOutlet(), world, dropped, limits);
    flushAtExit(buffer);
    const settings = { level, base: null, formatters: { level: (label: string) => ({ level: label }) } };
    const lines = pino(settings, { write: (line) => buffer.add(line) });
    const wantsRequests = requests && lines.isLevelEnabled("info");
    return new Log(lines, wantsRequests ? requestWriter(buffer, world) : undefined, buffer, limits);
  }

  info(message: string, fields: object = {}): void {
    this.logger?.info(fields, message);
  }

  warn(message: string, fields: object = {}): void {
    this.logger?.warn(fields, message);
  }

  /** What went wrong on our side; `id` is the request's, when there was one. */
  fault(what: string, fault: unknown, id?: string): void {
    this.logger?.error({ ...(id === undefined ? {} : { id }), err: describeFault(fault, this.limits) }, what);
  }

  /** The last words of a process: written before this returns, as far as the outlet takes them. */
  lastWords(what: string, fault: unknown): void {
    this.fault(what, fault);
    this.buffer?.flushNow();
  }

  metrics(): readonly Metric[] {
    const read = () => this.buffer?.dropped ?? 0;
    return [counter("sluice_log_lines_dropped_total", "Log lines that standard error did not take in time.", read)];
  }

  async close(): Promise<void> {
    if (this.buffer === undefined) return;
    await this.buffer.close(this.limits.closeMs);
    forgetAtExit(this.buffer);
  }
}

function requestsTo(logger: Logger): LogRequest {
  return (id, method, route, project, status, ms, end) => {
    const line: RequestLine = { id, method, route, project, status, ms: Math.round(ms * 1_000) / 1_000, end };
    logger.info(line, "request");
  };
}

/**
 * Writes the line as pino would, in a fraction of the time: this is the one that is written for every request. What is mostly the
 * same as in the line before is kept as text: the time, and everything between the id and the duration.
 */
function requestWriter(buffer: LineBuffer, world: Pick<World, "now">): LogRequest {
  const time = kept((now: number) => `{"level":"info","time":${now},"id":"`);
  let last = { method: "", route: "", project: undefined as string | undefined, status: 0, text: "" };
  return (id, method, route, project, status, ms, end) => {
    if (status !== last.status || route !== last.route || method !== last.method || project !== last.project) {
      const ofProject = project === undefined ? "" : `,"project":${JSON.stringify(project)}`;
      const text = `","method":"${method}","route":${JSON.stringify(route)}${ofProject},"status":${status},"ms":`;
      last = { method, route, project, status, text };
    }
    const why = end === undefined ? PLAIN_END : `,"end":"${end}"${PLAIN_END}`;
    buffer.add(time(world.now()) + id + last.text + milliseconds(ms) + why);
  };
}

const PLAIN_END = ',"msg":"request"}\n';

/** The text of a value that is mostly the same as the last time. */
function kept(textOf: (value: number) => string): (value: number) => string {
  let last = Number.NaN;
  let text = "";
  return (value) => {
    if (value !== last) {
      last = value;
      text = textOf(value);
    }
    return text;
  };
}

const THOUSANDTHS = Array.from({ length: 1_000 }, (_, i) => `.${String(i).padStart(3, "0")}`);

/** With three digits behind the point, of whole numbers alone, because fractions are slow to write. */
function milliseconds(ms: number): string {
  const micros = Math.round(ms * 1_000);
  const whole = Math.floor(micros / 1_000);
  return whole + THOUSANDTHS[micros - whole * 1_000]!;
}

interface FaultFields {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: FaultFields;
}

export function describeFault(fault: unknown, limits: LogLimits = LOG_LIMITS, depth = 0): FaultFields {
  const { faultChars } = limits;
  if (!(fault instanceof Error)) return { type: typeof fault, message: String(fault).slice(0, faultChars) };
  const { name, message, stack, cause } = fault;
  const { code } = fault as { code?: unknown };
  return {
    type: name,
    message: message.slice(0, faultChars),
    ...(typeof code === "string" ? { code } : {}),
    ...(stack === undefined ? {} : { stack: stack.slice(0, faultChars) }),
    ...(cause === undefined || depth >= limits.causes ? {} : { cause: describeFault(cause, limits, depth + 1) }),
  };
}
