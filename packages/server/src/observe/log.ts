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
import { LineBuffer } from "./line-buffer.ts";
import { flushAtExit, forgetAtExit, stderrOutlet } from "./stderr.ts";

export type LogLevel = "fatal" | "error" | "warn" | "info" | "debug" | "trace" | "silent";

/** What an embedding program may bring instead of ours; a pino logger is one. */
export interface Logger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface LogOptions {
  readonly level?: LogLevel | undefined;
  /** One line per request, at `info`. */
  readonly requests?: boolean | undefined;
  readonly logger?: Logger | undefined;
}

const CLOSE_MS = 500;
const MAX_STACK_CHARS = 8 * 1_024;
const MAX_CAUSES = 3;

export class Log {
  private constructor(
    private readonly logger: Logger | undefined,
    /** Where request lines go; undefined when nobody wants them. */
    readonly requests: Logger | undefined,
    private readonly buffer: LineBuffer | undefined,
  ) {}

  static open(options: LogOptions | false, world: Pick<World, "after" | "now">): Log {
    if (options === false) return new Log(undefined, undefined, undefined);
    const { level = "info", requests = true, logger } = options;
    if (logger) return new Log(logger, requests ? logger : undefined, undefined);
    const dropped = (count: number) =>
      `{"level":"warn","time":${world.now()},"dropped":${count},"msg":"log lines were dropped"}\n`;
    const buffer = new LineBuffer(stderrOutlet(), world, dropped);
    flushAtExit(buffer);
    const settings = { level, base: null, formatters: { level: (label: string) => ({ level: label }) } };
    const lines = pino(settings, { write: (line) => buffer.add(line) });
    return new Log(lines, requests && lines.isLevelEnabled("info") ? lines : undefined, buffer);
  }

  info(message: string, fields: object = {}): void {
    this.logger?.info(fields, message);
  }

  warn(message: string, fields: object = {}): void {
    this.logger?.warn(fields, message);
  }

  /** What went wrong on our side; `id` is the request's, when there was one. */
  fault(what: string, fault: unknown, id?: string): void {
    this.logger?.error({ ...(id === undefined ? {} : { id }), err: describeFault(fault) }, what);
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
    await this.buffer.close(CLOSE_MS);
    forgetAtExit(this.buffer);
  }
}

interface FaultFields {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: FaultFields;
}

export function describeFault(fault: unknown, depth = 0): FaultFields {
  if (!(fault instanceof Error)) return { type: typeof fault, message: String(fault).slice(0, MAX_STACK_CHARS) };
  const { name, message, stack, cause } = fault;
  const { code } = fault as { code?: unknown };
  return {
    type: name,
    message: message.slice(0, MAX_STACK_CHARS),
    ...(typeof code === "string" ? { code } : {}),
    ...(stack === undefined ? {} : { stack: stack.slice(0, MAX_STACK_CHARS) }),
    ...(cause === undefined || depth >= MAX_CAUSES ? {} : { cause: describeFault(cause, depth + 1) }),
  };
}
