/**
 * The client: the server's address, the token, and the handles of streams, sessions and channels. Programs create one; it
 * owns the parts that handles share: the connection, the appenders, and the last requests of a page.
 *
 * Invariants: a name that an address cannot express is refused with a TypeError before any request is sent.
 */
import type { ListedStream } from "@sluice/protocol";
import { APPEND_LIMITS, Appender, type AppendLimits } from "./appender.ts";
import { type RetryOptions, retryPolicy } from "./backoff.ts";
import { Channel } from "./channel.ts";
import { Connection } from "./connection.ts";
import { SluiceError } from "./error.ts";
import { PageExit } from "./page-exit.ts";
import { randomId } from "./random-id.ts";
import { Session } from "./session.ts";
import { type CallOptions, Stream, type StreamOptions } from "./stream.ts";
import type { TokenSource } from "./token.ts";

export interface SluiceOptions {
  /** The address of the server, like `https://streams.example.com`. */
  readonly url: string | URL;
  /** The project; `default` by default. */
  readonly project?: string | undefined;
  /**
   * A token, or a function that gets one: called for the first request, and again when the server refuses the last token.
   */
  readonly token?: TokenSource | undefined;
  readonly fetch?: typeof fetch | undefined;
  readonly retries?: RetryOptions | undefined;
  /** How long the server may take to start its answer, and to send each further piece of it. */
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

/** How many idle appenders are remembered. */
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
      // Bound, because a browser's fetch refuses to be called as a method of another object.
      fetch: options.fetch ?? globalThis.fetch.bind(globalThis),
      timeoutMs,
      retries: retryPolicy(retries),
    });
  }

  stream<Input = unknown, Output = Input>(
    path: string,
    options: StreamOptions<Input, Output> = {},
  ): Stream<Input, Output> {
    const levels = levelsOf(path);
    const key = JSON.stringify([levels, options.producer]);
    return new Stream(
      path,
      `stream/${levels}`,
      {
        connection: this.connection,
        appender: () => this.appender(key, levels, options.producer),
        busyAppender: () => this.appenders.get(key),
        sourceOf: (source) => `/v1/${this.project}/stream/${levelsOf(source)}`,
      },
      options,
    );
  }

  /**
   * Takes the session's id, a UUID. `crypto.randomUUID()` makes a new one; the first `subscribe` then creates the session.
   */
  session<Output = unknown>(id: string): Session<Output> {
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) {
      throw new TypeError(`the id of a session is a UUID, not ${JSON.stringify(id)}`);
    }
    const own = id.toLowerCase();
    return new Session(own, this.connection, this.stream<Output>(`session:${own}`));
  }

  channel(id: string): Channel {
    if (id === "") throw new TypeError("the id of a channel must not be empty");
    if (isDots(id)) throw new TypeError(`the id of a channel must not be ${id}, which an address cannot express`);
    return new Channel(id, `channels/${encodeURIComponent(id)}`, this.connection, this.exit);
  }

  /** Yields the streams of the project, in the order of their paths. */
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

  /** Resolves when every append to any stream is acknowledged; rejects with the first failure. */
  async flush(): Promise<void> {
    const outcomes = await Promise.allSettled([...this.appenders.values()].map((appender) => appender.flush()));
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }

  /** Refuses further appends, and flushes. */
  async close(): Promise<void> {
    this.isClosed = true;
    await this.flush();
  }

  /** The only appender of a stream, so that appends keep their order across handles. */
  private appender(key: string, path: string, producer: string | false | undefined): Appender {
    if (this.isClosed) throw new SluiceError("closed", "the client was closed");
    let appender = this.appenders.get(key);
    if (appender !== undefined) return appender;
    this.forgetIdle();
    appender = new Appender({
      connection: this.connection,
      exit: this.exit,
      path,
      producerId: producer === false ? undefined : (producer ?? this.producerId),
      isShared: typeof producer === "string",
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
   * The epoch: the time, so that a producer that restarts under its name is newer; plus a little randomness, so that two
   * producers that start in the same millisecond differ. Always greater than before. Below 2^53 until the year 2255.
   */
  private readonly nextEpoch = (): number => {
    const microseconds = Date.now() * 1_000 + Math.floor(Math.random() * 1_000);
    this.epoch = Math.max(microseconds, this.epoch + 1);
    return this.epoch;
  };
}

function levelsOf(path: string): string {
  if (path === "") throw new TypeError("the path of a stream must not be empty");
  const levels = path.split("/");
  if (levels.some(isDots)) {
    throw new TypeError(`the path ${path} has a level of dots, which an address cannot express`);
  }
  return levels.map(encodeURIComponent).join("/");
}

/** A URL parser treats these levels as a step up or down. */
function isDots(level: string): boolean {
  return level === "." || level === "..";
}
