/**
 * The client: the server's address, the token, and the handles of streams, inboxes, channels and live sessions. Programs
 * create one; it owns the parts that handles share: the connection, the appenders, and the last requests of a page.
 *
 * Invariants: a wrong option, and a name that an address cannot express, is refused with a TypeError before any request is
 * sent.
 */
import type { ListedStream } from "@sluice/protocol";
import { Appender, type AppendLimits, appendLimits } from "./appender.ts";
import { NoProgress, type RetryOptions, retryPolicy } from "./backoff.ts";
import { Channel } from "./channel.ts";
import { type CallOptions, Connection, type HeaderSource } from "./connection.ts";
import { SluiceError } from "./error.ts";
import { Group } from "./group.ts";
import { type GroupOptions, groupSettings } from "./group-options.ts";
import type { ListedGroup } from "./groups/admin.ts";
import type { Closable, GroupPart } from "./groups/group-part.ts";
import { Inbox } from "./inbox.ts";
import type { LiveSession } from "./live/live-session.ts";
import { countOption, numberOption, projectOption, tokenOption, urlOption, wrong } from "./options.ts";
import { PageExit } from "./page-exit.ts";
import { EXPRESSIBLE, isDots, levelsOf } from "./path.ts";
import { Producer, type StreamProducer } from "./producer.ts";
import { randomId } from "./random-id.ts";
import { type SessionOptions, type SessionSettings, sessionSettings } from "./session-options.ts";
import { Stream, type StreamOptions } from "./stream.ts";
import type { TokenSource } from "./token.ts";

export interface SluiceOptions {
  /** The address of the server, like `https://streams.example.com`. */
  readonly url: string | URL;
  /** The project; `default` by default. */
  readonly project?: string | undefined;
  /**
   * A token, or a function that gets one: called for the first request, again shortly before the token expires, and when the
   * server refuses it.
   */
  readonly token?: TokenSource | undefined;
  /** Headers for every request, or a function that returns them. Those of the protocol win over a header of the same name. */
  readonly headers?: HeaderSource | undefined;
  /** Query parameters for every request. Those of the protocol win over a parameter of the same name. */
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly fetch?: typeof fetch | undefined;
  readonly retries?: RetryOptions | undefined;
  /** How long the server may take to start its answer, and to send each further piece of it; 30,000 by default. */
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
  /** The address with the project; it tells the sessions of two clients of one page apart. */
  private readonly origin: string;
  private readonly sessions = new Map<string, Promise<LiveSession>>();
  private readonly members = new Set<Closable>();
  private readonly limits: AppendLimits;
  private readonly exit = new PageExit();
  private readonly appenders = new Map<string, Appender>();
  private readonly producerId = randomId();
  private epoch = 0;
  private isClosed = false;

  constructor(options: SluiceOptions) {
    if (typeof options !== "object" || options === null)
      throw wrong("the options", 'an object like { url: "…" }', options);
    const { url, headers, query, retries, timeoutMs, append } = options;
    const { fetch = globalThis.fetch } = options;
    const project = projectOption(options.project);
    const token = tokenOption(options.token);
    if (typeof fetch !== "function") throw wrong("fetch", "a function", fetch);
    const address = urlOption(url);
    this.project = project;
    this.origin = `${address}/v1/${project}`;
    this.limits = appendLimits(append ?? {});
    this.connection = new Connection({
      url: address,
      project,
      token,
      headers,
      query,
      // Bound, because a browser's fetch refuses to be called as a method of another object.
      fetch: options.fetch ?? fetch.bind(globalThis),
      timeoutMs: numberOption("timeoutMs", timeoutMs, 30_000, 1),
      retries: retryPolicy(retries ?? {}),
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
   * The inbox of a session, which follows many streams. Takes the id of the session, a UUID. `crypto.randomUUID()` makes a new
   * one; the first `subscribe` then creates the session.
   */
  inbox<Output = unknown>(id: string): Inbox<Output> {
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) throw wrong("the id of a session", "a UUID", id);
    const own = id.toLowerCase();
    return new Inbox(own, this.connection, this.stream<Output>(`session:${own}`));
  }

  /**
   * The live session of this tab: one connection that follows any number of streams. It survives a reload. Called again, it returns
   * the same session until that is closed; the options of the first call count. Rejects when the server refuses, or cannot be
   * reached for `retries.giveUpMs`.
   */
  session(options: SessionOptions = {}): Promise<LiveSession> {
    const settings = sessionSettings(options);
    if (this.isClosed) return Promise.reject(new SluiceError("closed", "the client was closed"));
    const known = this.sessions.get(settings.name);
    if (known !== undefined) return known;
    const opening = this.openSession(settings);
    this.sessions.set(settings.name, opening);
    // The caller gets the error; the next call tries again.
    opening.catch(() => this.sessions.delete(settings.name));
    return opening;
  }

  private async openSession(settings: SessionSettings): Promise<LiveSession> {
    const { connection, exit, origin } = this;
    // Loaded on demand, because many pages follow no stream live.
    const { openSession } = await import("./live/open-session.ts");
    const closed = () => void this.sessions.delete(settings.name);
    return openSession({ connection, exit, settings, origin, closed, addressOf: (path) => `stream/${levelsOf(path)}` });
  }

  channel(id: string): Channel {
    if (id === "" || isDots(id)) throw wrong("the id of a channel", EXPRESSIBLE, id);
    return new Channel(id, `channels/${encodeURIComponent(id)}`, this.connection, this.exit);
  }

  /**
   * A group: members share the streams of a topic filter, like `orders/#`. Each handle is one member. A handle that only looks after
   * a group needs no filter, unless several groups have the name.
   */
  group<T = unknown>(name: string, filter?: string, options: GroupOptions = {}): Group<T> {
    const settings = groupSettings(name, filter, options);
    let part: Promise<GroupPart<T>> | undefined;
    return new Group(() => {
      // Loaded on demand, because many pages consume no group.
      part ??= import("./groups/group-part.ts").then(
        (groups) => new groups.GroupPart<T>(this.connection, settings, this.members),
      );
      return part;
    });
  }

  /** Yields the groups of the project. */
  groups({ pageSize, ...options }: Omit<ListOptions, "prefix" | "filter"> = {}) {
    return this.listed<ListedGroup>("groups", pageSize, options);
  }

  /** Yields the streams of the project, in the order of their paths. */
  list({ pageSize, ...options }: ListOptions = {}): AsyncGenerator<ListedStream, void, undefined> {
    return this.listed("streams", pageSize, options);
  }

  private listed<T>(path: "streams" | "groups", pageSize: number | undefined, options: ListOptions) {
    const limit = pageSize === undefined ? undefined : String(countOption("pageSize", pageSize, 0, 1));
    return this.pages<T>(path, limit, options);
  }

  private async *pages<T>(path: string, limit: string | undefined, { prefix, filter, signal, giveUpMs }: ListOptions) {
    for (let after: string | undefined; ; ) {
      const query = { prefix, filter, limit, after };
      const call = { method: "GET", path, query, signal, giveUpMs };
      const page = await this.connection.json<{ [path]: T[] } & { next?: string }>(call, path, Array.isArray);
      yield* page[path]!;
      if (!page.next) return;
      if (page.next === after) throw new NoProgress(`the server returns the same page of ${path} again`);
      after = page.next;
    }
  }

  /** Resolves when every append to any stream is acknowledged; rejects with the first failure. */
  async flush(): Promise<void> {
    const outcomes = await Promise.allSettled([...this.appenders.values()].map((appender) => appender.flush()));
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }

  /** Refuses further appends, closes the live sessions and the members of groups, and flushes. */
  async close(): Promise<void> {
    this.isClosed = true;
    // A session that could not be opened has told its own caller.
    const closing = [...this.sessions.values()].map((opening) =>
      opening.then((session) => session.close()).catch(() => {}),
    );
    await Promise.all([this.flush(), ...closing, ...[...this.members].map((member) => member.close())]);
  }

  /** The only appender of a stream, so that appends keep their order across handles. */
  private appender(key: string, path: string, producer: StreamProducer | undefined): Appender {
    if (this.isClosed) throw new SluiceError("closed", "the client was closed");
    let appender = this.appenders.get(key);
    if (appender !== undefined) return appender;
    this.forgetIdle();
    appender = new Appender({
      connection: this.connection,
      exit: this.exit,
      path,
      producer: Producer.of(producer, this.producerId, this.nextEpoch),
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
