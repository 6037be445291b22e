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

export type LogRequest = (line: RequestLine) => void;

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
    if (logger)
      return new Log(logger, requests ? (line) => logger.info(line, "request") : undefined, undefined, limits);
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

/** Writes the line as pino would, in a fifth of the time: this is the one that is written for every request. */
function requestWriter(buffer: LineBuffer, world: Pick<World, "now">): LogRequest {
  const route = quoter();
  const project = quoter();
  return (line) => {
    const ofProject = line.project === undefined ? "" : `,"project":${project(line.project)}`;
    const end = line.end === undefined ? "" : `,"end":"${line.end}"`;
    buffer.add(
      `{"level":"info","time":${world.now()},"id":"${line.id}","method":"${line.method}","route":${route(line.route)}` +
        `${ofProject},"status":${line.status},"ms":${line.ms}${end},"msg":"request"}\n`,
    );
  };
}

/** JSON of a text that is mostly the same as the last time. */
function quoter(): (text: string) => string {
  let last = "";
  let quoted = '""';
  return (text) => {
    if (text !== last) {
      last = text;
      quoted = JSON.stringify(text);
    }
    return quoted;
  };
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
