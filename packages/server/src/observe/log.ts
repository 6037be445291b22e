/**
 * The log: lines on standard error, or the logger of the embedding program, or nothing. Lines are JSON, or for people on a
 * terminal. Watch opens it; the request observer and compose write to it.
 *
 * Invariants: writing never waits. Nothing that a client sent is logged except a request id of harmless characters. Of
 * a fault only name, message, code, stack and causes are logged, because other fields may carry tokens and claims.
 */
import { counter, type Metric } from "../core/metric.ts";
import type { World } from "../core/world.ts";
import { EngineError } from "../engine/contract.ts";
import { LOG_LIMITS, type LogLimits } from "./defaults.ts";
import { LineBuffer } from "./line-buffer.ts";
import { type LineText, prettyLines } from "./pretty-line.ts";
import type { Identified, RequestIds } from "./request-ids.ts";
import { RequestWriter } from "./request-writer.ts";
import { flushAtExit, forgetAtExit, stderrOutlet, stderrTerminal } from "./stderr.ts";

/**
 * From the most verbose to none. The server writes at info, warn and error; the other levels only set the threshold.
 */
const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

export type LogLevel = (typeof LEVELS)[number];

export type LogFormat = "auto" | "json" | "pretty";

/** The logger that an embedding program may provide instead; a pino logger fits. */
export interface Logger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

type Some<T> = { readonly [K in keyof T]?: T[K] | undefined };

export interface LogOptions extends Some<LogLimits> {
  readonly level?: LogLevel | undefined;
  /** `auto`: for people if standard error is a terminal, else JSON. */
  readonly format?: LogFormat | undefined;
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
  /** Why a live response ended, or that its client left; undefined for an ordinary response. */
  readonly end: string | undefined;
}

/** Takes the fields one by one, to spare the hot path an object per request. `ms` has fractions. */
export type LogRequest = (
  request: Identified,
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
    /** Undefined if requests are not logged. */
    readonly request: LogRequest | undefined,
    private readonly buffer: LineBuffer | undefined,
    private readonly limits: LogLimits = LOG_LIMITS,
  ) {}

  static open(options: LogOptions | false, world: Pick<World, "after" | "now">, ids: RequestIds): Log {
    if (options === false) return new Log(undefined, undefined, undefined);
    const { level = "info", format = "auto", requests = true, logger, ...given } = options;
    const limits = { ...LOG_LIMITS, ...given } as LogLimits;
    if (logger) return new Log(logger, requests ? requestsTo(logger, ids) : undefined, undefined, limits);
    const text = lineText(format);
    const dropped = (count: number) => text("warn", world.now(), { dropped: count }, "log lines were dropped");
    const buffer = new LineBuffer(stderrOutlet(), world, dropped, limits);
    flushAtExit(buffer);
    const wantsRequests = requests && includes(level, "info");
    const lines = linesTo(buffer, level, world, text);
    const anyRequest = requestsTo(lines, ids);
    const requestLines =
      text === lineOf ? plainRequestsTo(new RequestWriter(buffer, world, ids), anyRequest) : anyRequest;
    return new Log(lines, wantsRequests ? requestLines : undefined, buffer, limits);
  }

  info(message: string, fields: object = {}): void {
    this.logger?.info(fields, message);
  }

  warn(message: string, fields: object = {}): void {
    this.logger?.warn(fields, message);
  }

  /** Logs a fault of the server; `id` names the request, if the fault belongs to one. */
  fault(what: string, fault: unknown, id?: string): void {
    this.logger?.error({ ...(id === undefined ? {} : { id }), err: describeFault(fault, this.limits) }, what);
  }

  /**
   * Logs the fault that ends the process. The line is written before this returns, as far as standard error accepts it.
   */
  lastWords(what: string, fault: unknown): void {
    this.fault(what, fault);
    this.buffer?.flushNow();
  }

  metrics(): readonly Metric[] {
    const read = () => this.buffer?.dropped ?? 0;
    return [counter("sluice_log_lines_dropped_total", "Log lines that standard error did not accept in time.", read)];
  }

  async close(): Promise<void> {
    if (this.buffer === undefined) return;
    await this.buffer.close(this.limits.closeMs);
    forgetAtExit(this.buffer);
  }
}

function includes(threshold: LogLevel, level: LogLevel): boolean {
  return LEVELS.indexOf(level) >= LEVELS.indexOf(threshold);
}

function lineText(format: LogFormat): LineText {
  const { isTerminal, hasColors } = stderrTerminal();
  return format === "pretty" || (format === "auto" && isTerminal) ? prettyLines(hasColors) : lineOf;
}

function linesTo(buffer: LineBuffer, threshold: LogLevel, world: Pick<World, "now">, text: LineText): Logger {
  const writerAt = (level: LogLevel) => (fields: object, message: string) => {
    if (includes(threshold, level)) buffer.add(text(level, world.now(), fields, message));
  };
  return { info: writerAt("info"), warn: writerAt("warn"), error: writerAt("error") };
}

function lineOf(level: LogLevel, time: number, fields: object, msg: string): string {
  return `${JSON.stringify({ level, time, ...fields, msg })}\n`;
}

function requestsTo(logger: Logger, ids: RequestIds): LogRequest {
  return (request, method, route, project, status, ms, end) => {
    const id = ids.of(request);
    const line: RequestLine = { id, method, route, project, status, ms: Math.round(ms * 1_000) / 1_000, end };
    logger.info(line, "request");
  };
}

/** Nearly all requests end with a plain response, and those go to the faster writer. */
function plainRequestsTo(writer: RequestWriter, other: LogRequest): LogRequest {
  return (request, method, route, project, status, ms, end) => {
    if (end === undefined) writer.write(request, method, route, project, status, ms);
    else other(request, method, route, project, status, ms, end);
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
  const { name, stack, cause } = fault;
  const { code } = fault as { code?: unknown };
  const message = fault instanceof EngineError ? fault.explanation : fault.message;
  return {
    type: name,
    message: message.slice(0, faultChars),
    ...(typeof code === "string" ? { code } : {}),
    ...(stack === undefined ? {} : { stack: stack.slice(0, faultChars) }),
    ...(cause === undefined || depth >= limits.causes ? {} : { cause: describeFault(cause, limits, depth + 1) }),
  };
}
