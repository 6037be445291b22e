/**
 * The client: where the server is, as whom we come, and the handles of streams and channels. Owns what handles share: the
 * connection, the appenders, what is to be said when the page ends.
 */
import type { ListedStream } from "@sluice/protocol";
import { APPEND_LIMITS, Appender, type AppendLimits } from "./appender.ts";
import { type RetryOptions, retryPolicy } from "./backoff.ts";
import { Channel } from "./channel.ts";
import { Connection } from "./connection.ts";
import { SluiceError } from "./error.ts";
import { PageExit } from "./page-exit.ts";
import { randomId } from "./random-id.ts";
import { type CallOptions, Stream, type StreamOptions } from "./stream.ts";
import type { TokenSource } from "./token.ts";

export interface SluiceOptions {
  /** Of the server, like `https://streams.example.com`. */
  readonly url: string | URL;
  /** `default` by default. */
  readonly project?: string | undefined;
  /** A token, or a function that gets one: called for the first request, and again when the server refuses the last one. */
  readonly token?: TokenSource | undefined;
  readonly fetch?: typeof fetch | undefined;
  readonly retries?: RetryOptions | undefined;
  /** How long the server may take to begin its answer, or to go on with it. */
  readonly timeoutMs?: number | undefined;
  readonly append?: Partial<AppendLimits> | undefined;
}

export interface ListOptions extends CallOptions {
  readonly prefix?: string | undefined;
  /** A topic filter, with `+` and `#`. */
  readonly filter?: string | undefined;
  /** Streams per request. */
  readonly pageSize?: number | undefined;
}

export type { ListedStream } from "@sluice/protocol";

/** Streams whose appender is remembered although nothing is queued. */
const KEPT_APPENDERS = 1_000;

export class Sluice {
  private readonly connection: Connection;
  private readonly project: string;
  private readonly limits: AppendLimits;
  private readonly exit = new PageExit();
  private readonly appenders = new Map<string, Appender>();
  private readonly producerId = randomId();
  private epoch = 0;
  private isClosed = false;

  constructor(options: SluiceOptions) {
    const { url, project = "default", token, retries = {}, timeoutMs = 30_000, append = {} } = options;
    if (!/^[a-zA-Z0-9_-]{1,128}$/.test(project)) throw new TypeError(`${project} is not the name of a project`);
    this.project = project;
    this.limits = { ...APPEND_LIMITS, ...append };
    this.connection = new Connection({
      url: String(url).replace(/\/+$/, ""),
      project,
      token,
      // Bound, because a browser's fetch refuses to be a method of anything else.
      fetch: options.fetch ?? globalThis.fetch.bind(globalThis),
      timeoutMs,
      retries: retryPolicy(retries),
    });
  }

  stream<Input = unknown, Output = Input>(
    path: string,
    options: StreamOptions<Input, Output> = {},
  ): Stream<Input, Output> {
    const address = addressOf(path);
    const key = JSON.stringify([address, options.producer]);
    return new Stream(
      path,
      address,
      {
        connection: this.connection,
        appender: () => this.appender(key, address, options.producer),
        busyAppender: () => this.appenders.get(key),
        sourceOf: (source) => `/v1/${this.project}/${addressOf(source)}`,
      },
      options,
    );
  }

  channel(id: string): Channel {
    if (id === "") throw new TypeError("the id of a channel must not be empty");
    return new Channel(id, `channels/${encodeURIComponent(id)}`, this.connection, this.exit);
  }

  /** The streams of the project, in the order of their paths. */
  async *list({ prefix, filter, pageSize, signal }: ListOptions = {}): AsyncGenerator<ListedStream, void, undefined> {
    const limit = pageSize === undefined ? undefined : String(pageSize);
    for (let after: string | undefined; ; ) {
      const query = { prefix, filter, limit, after };
      const { text } = await this.connection.call({ method: "GET", path: "streams", query, signal });
      const page = JSON.parse(text) as { streams: ListedStream[]; next?: string };
      yield* page.streams;
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  /** Resolves when everything that was appended to any stream is acknowledged; rejects with the first failure. */
  async flush(): Promise<void> {
    const outcomes = await Promise.allSettled([...this.appenders.values()].map((appender) => appender.flush()));
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }

  /** Takes no further appends, and flushes. */
  async close(): Promise<void> {
    this.isClosed = true;
    await this.flush();
  }

  /** The one appender of a stream, so that whatever handle was used, what is appended keeps its order. */
  private appender(key: string, address: string, producer: string | undefined): Appender {
    if (this.isClosed) throw new SluiceError("closed", "the client was closed");
    let appender = this.appenders.get(key);
    if (appender !== undefined) return appender;
    this.forgetIdle();
    appender = new Appender({
      connection: this.connection,
      exit: this.exit,
      path: address,
      producerId: producer ?? this.producerId,
      isShared: producer !== undefined,
      nextEpoch: this.nextEpoch,
      limits: this.limits,
    });
    this.appenders.set(key, appender);
    return appender;
  }

  private forgetIdle(): void {
    if (this.appenders.size < KEPT_APPENDERS) return;
    for (const [key, appender] of this.appenders) if (appender.isIdle) this.appenders.delete(key);
  }

  /**
   * The time, so that a producer that comes back under its name is newer; a little chance, so that two that start in the same
   * millisecond are not the same; and always more than before. Below 2^53 until the year 2255.
   */
  private readonly nextEpoch = (): number => {
    const microseconds = Date.now() * 1_000 + Math.floor(Math.random() * 1_000);
    this.epoch = Math.max(microseconds, this.epoch + 1);
    return this.epoch;
  };
}

function addressOf(path: string): string {
  const levels = path.split("/");
  if (path === "" || levels.some((level) => level === "." || level === "..")) {
    throw new TypeError(`${JSON.stringify(path)} is not the path of a stream`);
  }
  return `stream/${levels.map(encodeURIComponent).join("/")}`;
}
