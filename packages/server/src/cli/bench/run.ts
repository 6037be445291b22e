/**
 * One measurement: its duration, its counts, its progress display, and its result as a table or CSV. The bench commands
 * run their work in it.
 */
import { createHistogram } from "node:perf_hooks";
import type { Stream } from "@sluice/client";
import { type Command, Option } from "commander";
import { parseCount } from "../duration.ts";
import { CliError, EXIT } from "../exit.ts";
import { addRemoteOptions, type Remote, type RemoteOptions } from "../remote.ts";
import { bytesText, line, table } from "../terminal.ts";

export interface RunOptions extends RemoteOptions {
  readonly seconds: string;
  readonly count?: string;
  readonly bytes: string;
  readonly csv?: boolean;
  readonly keep?: boolean;
}

const PROGRESS_EVERY_MS = 500;
const PERCENTILES = [50, 90, 99, 99.9];

export function addRunOptions(command: Command, unit: string): Command {
  command
    .option("--seconds <N>", "how long to measure", "10")
    .option("--count <N>", `end after this many ${unit}, if that comes first`)
    .option("--bytes <N>", "the size of a message", "256")
    .addOption(new Option("--csv", "the result as CSV, with a heading"))
    .option("--keep", "leave the streams of the measurement in place");
  return addRemoteOptions(command);
}

export class Run {
  private readonly latencies = createHistogram({ figures: 3 });
  private readonly startedAt = performance.now();
  private readonly endsAt: number;
  private readonly limit: number;
  private readonly ending = new AbortController();
  private readonly progress: NodeJS.Timeout | undefined;
  private readonly timer: NodeJS.Timeout;
  private stoppedAt = 0;
  private started = 0;
  done = 0;
  bytes = 0;
  failures = 0;
  private lastFailure = "";

  constructor(
    private readonly name: string,
    private readonly unit: string,
    private readonly options: RunOptions,
  ) {
    const seconds = parseCount("--seconds", options.seconds, 86_400);
    this.limit = options.count === undefined ? Number.POSITIVE_INFINITY : parseCount("--count", options.count);
    this.endsAt = this.startedAt + seconds * 1_000;
    this.timer = setTimeout(() => this.stop(), seconds * 1_000);
    if (process.stderr.isTTY) this.progress = setInterval(() => this.showProgress(), PROGRESS_EVERY_MS);
    process.once("SIGINT", this.stop);
    process.once("SIGTERM", this.stop);
  }

  readonly stop = (): void => {
    if (this.stoppedAt === 0) this.stoppedAt = performance.now();
    this.ending.abort();
  };

  get signal(): AbortSignal {
    return this.ending.signal;
  }

  get isOver(): boolean {
    return this.ending.signal.aborted || performance.now() >= this.endsAt || this.done >= this.limit;
  }

  /** Whether one more operation may start within the limit. */
  begin(): boolean {
    if (this.isOver || this.started >= this.limit) return false;
    this.started++;
    return true;
  }

  succeeded(ms: number, bytes: number): void {
    this.done++;
    this.bytes += bytes;
    // In microseconds; the histogram takes whole numbers from 1.
    this.latencies.record(Math.max(1, Math.round(ms * 1_000)));
    if (this.done >= this.limit) this.stop();
  }

  failed(why: string): void {
    this.failures++;
    this.lastFailure = why;
    // A server that refuses everything is not worth measuring to the end.
    if (this.failures >= 100 && this.done === 0) this.stop();
  }

  private showProgress(): void {
    const seconds = (performance.now() - this.startedAt) / 1_000;
    const rate = Math.round(this.done / seconds).toLocaleString("en");
    const p99 = (this.latencies.percentile(99) / 1_000).toFixed(1);
    const text = `${seconds.toFixed(1)} s  ${this.done.toLocaleString("en")} ${this.unit}  ${rate}/s  p99 ${p99} ms`;
    process.stderr.write(`\r${text.padEnd(70)}`);
  }

  /** Stops the clock and prints the result. A run without any success is a failure. */
  async finish(): Promise<void> {
    this.stop();
    clearTimeout(this.timer);
    clearInterval(this.progress);
    process.off("SIGINT", this.stop);
    process.off("SIGTERM", this.stop);
    if (this.progress !== undefined) process.stderr.write(`\r${" ".repeat(70)}\r`);
    if (this.done === 0) {
      const why = this.lastFailure === "" ? "nothing came back in time" : this.lastFailure;
      throw new CliError(EXIT.failure, `there is nothing to report: ${why}`);
    }
    await line(this.options.csv ? this.csv() : this.text());
  }

  private csv(): string {
    const { seconds, latencies } = this.figures();
    const head = "name,seconds,count,bytes,failures,per_second,bytes_per_second,p50_ms,p90_ms,p99_ms,p99_9_ms,max_ms";
    const values = [seconds.toFixed(3), this.done, this.bytes, this.failures, ...this.rates(seconds), ...latencies];
    return `${head}\n${[this.name, ...values].join(",")}`;
  }

  private text(): string {
    const { seconds, latencies } = this.figures();
    const [rate, byteRate] = this.rates(seconds) as [number, number];
    const [p50, p90, p99, p999, max] = latencies;
    return table([
      [this.unit, this.done.toLocaleString("en")],
      ["seconds", seconds.toFixed(2)],
      ["per second", rate.toLocaleString("en")],
      ["throughput", `${bytesText(byteRate)}/s`],
      ["latency", `p50 ${p50} ms, p90 ${p90} ms, p99 ${p99} ms, p99.9 ${p999} ms, max ${max} ms`],
      ["failures", this.failures === 0 ? "0" : `${this.failures}; the last: ${this.lastFailure}`],
    ]);
  }

  private rates(seconds: number): number[] {
    return [Math.round(this.done / seconds), Math.round(this.bytes / seconds)];
  }

  private figures(): { seconds: number; latencies: string[] } {
    const seconds = Math.max(0.001, (this.stoppedAt - this.startedAt) / 1_000);
    const inMs = (us: number) => (us / 1_000).toFixed(3);
    const latencies = [...PERCENTILES.map((p) => inMs(this.latencies.percentile(p))), inMs(this.latencies.max)];
    return { seconds, latencies };
  }
}

/** Creates streams for the measurement and deletes them afterwards, unless they are to be kept. */
export async function withStreams<T>(
  remote: Remote,
  count: number,
  type: string,
  keep: boolean | undefined,
  work: (streams: readonly Stream[]) => Promise<T>,
): Promise<T> {
  const name = `bench/${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
  const options = { contentType: type, producer: false } as const;
  const streams = Array.from({ length: count }, (_, i) => remote.stream(`${name}/${i}`, options));
  try {
    for (const stream of streams) await stream.create();
    return await work(streams);
  } finally {
    if (!keep) for (const stream of streams) await stream.delete().catch(() => undefined);
  }
}
