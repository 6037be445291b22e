/**
 * A steady load on several nodes of one service, and its result. Producers append to shared streams: some with producer numbers,
 * which repeat a message until it is acknowledged, and some without, which never repeat. A follower per stream reads meanwhile.
 * `findings` compares everything with the logs at the end.
 */
import { onTestFinished } from "vitest";
import { AwakeClock } from "../support/awake-clock.ts";
import { sleep } from "../support/eventually.ts";

export interface Sent {
  readonly stream: string;
  readonly producer: string;
  readonly number: number;
  isAcknowledged: boolean;
}

export interface LoadOptions {
  /** Base URLs of the nodes. Each producer stays with one. */
  readonly urls: readonly string[];
  readonly streams: number;
  readonly prefix: string;
  /** Whether a tail may be lost, so that a report of the loss is no fault. */
  readonly isLossExpected?: boolean;
}

/** A request that is not answered by then has hung, whatever the server promises. */
const HUNG_MS = 20_000;
/** Between two appends of a producer. Dozens of producers keep requests in flight all the time without filling the processors. */
const PAUSE_MS = 25;

export class Load {
  readonly sent: Sent[] = [];
  /** The messages that each follower received, per stream. */
  readonly shown = new Map<string, string[]>();
  readonly refusals = new Map<number | string, number>();
  /** Requests that are answered at once, and polls that wait for a message. */
  readonly slowestMs = { request: 0, poll: 0 };
  /** The time of the last acknowledged append, per stream. */
  readonly lastAcknowledged = new Map<string, number>();
  private readonly clock = new AwakeClock();
  private isOver = false;
  /** Ends the polls that wait when the load ends: no append may follow that would answer them. */
  private readonly followers = new AbortController();
  private running: Promise<unknown> = Promise.resolve();
  private readonly faults: unknown[] = [];

  constructor(private readonly options: LoadOptions) {}

  get streams(): string[] {
    return Array.from({ length: this.options.streams }, (_, i) => `${this.options.prefix}-${i}`);
  }

  get acknowledged(): number {
    return this.sent.filter(({ isAcknowledged }) => isAcknowledged).length;
  }

  /** The load ends with the test, also when the test fails, so that it does not slow down those after it. */
  async start(): Promise<void> {
    onTestFinished(() => {
      this.end();
      this.clock.stop();
    });
    const { urls } = this.options;
    for (const stream of this.streams) {
      const response = await this.request(`${urls[0]}/v1/stream/${stream}`, { method: "PUT", headers: TEXT });
      if (response?.status !== 201) throw new Error(`creating ${stream}: ${response?.status}`);
      this.shown.set(stream, []);
    }
    const tasks: Promise<void>[] = [];
    for (const [i, stream] of this.streams.entries()) {
      for (const [n, url] of urls.entries()) {
        tasks.push(this.produce(url, stream, `sure-${n}`, true));
        tasks.push(this.produce(url, stream, `once-${n}`, false));
      }
      tasks.push(this.follow(urls[i % urls.length]!, stream));
    }
    this.running = Promise.all(tasks.map((task) => task.catch((fault) => this.faults.push(fault))));
  }

  /** Waits until every stream has acknowledged an append after this moment. */
  async progress(withinMs = 30_000): Promise<void> {
    const fromMs = Date.now();
    const isBehind = (stream: string) => (this.lastAcknowledged.get(stream) ?? 0) <= fromMs;
    while (this.streams.some(isBehind)) {
      if (Date.now() > fromMs + withinMs) {
        const stuck = this.streams.filter(isBehind).length;
        throw new Error(
          `${stuck} of ${this.streams.length} streams take nothing; refused: ${JSON.stringify([...this.refusals])}`,
        );
      }
      await sleep(20);
    }
  }

  /** Ends the load and returns the faults found; a test expects an empty list. */
  async findings(): Promise<string[]> {
    this.end();
    await this.running;
    const found = this.faults.map((fault) => `the load itself failed: ${(fault as Error).stack ?? fault}`);
    for (const stream of this.streams) found.push(...(await this.examine(stream)));
    return found.slice(0, 20);
  }

  /** The whole log of a stream, as a fresh reader sees it. */
  async log(stream: string): Promise<string[]> {
    const lines: string[] = [];
    for (let offset = "-1"; ; ) {
      const response = await this.insist(`${this.options.urls[0]}/v1/stream/${stream}?offset=${offset}`);
      if (response.status !== 200) throw new Error(`reading ${stream} at ${offset}: ${response.status}`);
      lines.push(...linesOf(await response.text()));
      offset = response.headers.get("stream-next-offset")!;
      if (response.headers.has("stream-up-to-date")) return lines;
    }
  }

  private end(): void {
    this.isOver = true;
    this.followers.abort();
  }

  private async examine(stream: string): Promise<string[]> {
    const log = await this.log(stream);
    const at = new Map<string, number>();
    const found: string[] = [];
    for (const [i, line] of log.entries()) {
      if (at.has(line)) found.push(`${stream}: ${line} is there twice, at ${at.get(line)} and ${i}`);
      at.set(line, i);
    }
    const lastAt = new Map<string, number>();
    for (const message of this.sent) {
      if (message.stream !== stream) continue;
      const line = lineOf(message);
      const index = at.get(line);
      if (index === undefined) {
        if (message.isAcknowledged) found.push(`${stream}: ${line} was acknowledged and is lost`);
        continue;
      }
      if (index < (lastAt.get(message.producer) ?? -1)) found.push(`${stream}: ${line} is out of order`);
      lastAt.set(message.producer, index);
    }
    const shown = this.shown.get(stream)!;
    const differs = shown.findIndex((line, i) => line !== log[i]);
    if (differs >= 0)
      found.push(`${stream}: a reader was shown ${shown[differs]} at ${differs}, the log has ${log[differs]}`);
    return found;
  }

  private async produce(url: string, stream: string, producer: string, repeats: boolean): Promise<void> {
    for (let number = 0; !this.isOver; number++) {
      const message: Sent = { stream, producer, number, isAcknowledged: false };
      this.sent.push(message);
      const headers: Record<string, string> = repeats
        ? { ...TEXT, "Producer-Id": producer, "Producer-Epoch": "0", "Producer-Seq": String(number) }
        : TEXT;
      do {
        const body = `${lineOf(message)}\n`;
        const init = { method: "POST", headers, body };
        const response = await this.request(`${url}/v1/stream/${stream}`, init);
        if (response?.ok) {
          message.isAcknowledged = true;
          this.lastAcknowledged.set(stream, Date.now());
        } else await sleep(50);
      } while (repeats && !message.isAcknowledged && !this.isOver);
      await sleep(PAUSE_MS);
    }
  }

  private async follow(url: string, stream: string): Promise<void> {
    const shown = this.shown.get(stream)!;
    for (let offset = "-1"; !this.isOver; ) {
      const response = await this.request(`${url}/v1/stream/${stream}?offset=${offset}&live=long-poll`, {
        signal: this.followers.signal,
      });
      if (response === undefined || (response.status !== 200 && response.status !== 204)) {
        await sleep(50);
        continue;
      }
      const text = await response.text().catch((fault) => {
        if (this.isOver) return "";
        throw fault;
      });
      shown.push(...linesOf(text));
      offset = response.headers.get("stream-next-offset") ?? offset;
    }
  }

  private async insist(url: string): Promise<Response> {
    for (const endMs = Date.now() + 60_000; ; ) {
      const response = await this.request(url, {});
      if (response !== undefined && response.status !== 503) return response;
      if (Date.now() > endMs) throw new Error(`${url} is never answered`);
      await sleep(50);
    }
  }

  /** Undefined if the connection broke or no answer came. Every failure is counted. */
  private async request(url: string, init: RequestInit): Promise<Response | undefined> {
    const startMs = this.clock.now();
    let outcome: number | string;
    try {
      const signals = [AbortSignal.timeout(HUNG_MS), ...(init.signal ? [init.signal] : [])];
      const response = await fetch(url, { ...init, signal: AbortSignal.any(signals) });
      outcome = response.status;
      if (response.status === 503 && !response.headers.has("retry-after"))
        this.faults.push("a 503 without Retry-After");
      if (response.ok) return response;
      if (response.status !== 503 && !this.options.isLossExpected)
        this.faults.push(`${init.method ?? "GET"} ${url}: ${response.status} ${await response.text()}`);
    } catch (fault) {
      outcome = (fault as Error).name;
      if (outcome === "TimeoutError") this.faults.push(`${url} hung`);
    } finally {
      const kind = url.includes("live=") ? "poll" : "request";
      this.slowestMs[kind] = Math.max(this.slowestMs[kind], this.clock.now() - startMs);
    }
    this.refusals.set(outcome, (this.refusals.get(outcome) ?? 0) + 1);
    return undefined;
  }
}

const TEXT = { "Content-Type": "text/plain" };

function lineOf({ producer, number }: Sent): string {
  return `${producer}.${number}`;
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}
