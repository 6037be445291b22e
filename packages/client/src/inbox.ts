/**
 * The handle of an inbox: one session of the server, the streams it follows, its lifetime, and the copies in it. Made by the
 * client.
 *
 * Invariants: every call is idempotent, so each is retried; subscribing twice has the effect of subscribing once.
 */
import { header } from "@sluice/protocol";
import type { CallOptions, Connection } from "./connection.ts";
import type { Gap, Mark, MarkedReadOptions, PageOptions, ReadOptions, StreamItem, StreamPage } from "./read-options.ts";
import type { Deleted, Stream } from "./stream.ts";

export interface SubscribeOptions extends CallOptions {
  /** `envelope`: each copy names its stream, and streams of any type can be followed together. */
  readonly format?: "raw" | "envelope" | undefined;
  /** `now` (the default), `beginning`, or the offset of the stream after which to start. */
  readonly from?: "beginning" | "now" | (string & {}) | undefined;
}

export interface Subscribed {
  readonly sessionId: string;
  readonly streamId: string;
  readonly sessionStreamPath: string;
  /** In epoch milliseconds. */
  readonly expiresAt: number;
  readonly isNewSession: boolean;
}

export interface InboxInfo {
  readonly sessionId: string;
  readonly sessionStreamPath: string;
  readonly expiresAt: number;
  readonly subscriptions: readonly {
    readonly streamId: string;
    readonly subscribedAt: number;
    readonly format: "raw" | "envelope";
    /** Retention trimmed these messages before they were copied. */
    readonly missed?: { readonly after: string; readonly through: string } | undefined;
  }[];
}

export class Inbox<Output = unknown> {
  constructor(
    /** The id of the session, as the server spells it. */
    readonly id: string,
    private readonly connection: Connection,
    private readonly stream: Stream<Output>,
  ) {}

  /** Lets the inbox follow a stream; creates the session when it does not exist. */
  subscribe(path: string, { format, from, ...options }: SubscribeOptions = {}): Promise<Subscribed> {
    const start = from === "beginning" ? "-1" : from;
    const body = { format, from: start === "now" ? undefined : start };
    return this.ask("POST", "subscribe", options, this.bodyOf(path, body));
  }

  /** Succeeds also when the inbox did not follow the stream. Copies that it holds stay. */
  async unsubscribe(path: string, options: CallOptions = {}): Promise<void> {
    await this.connection.call({ ...this.callTo("DELETE", "unsubscribe", this.bodyOf(path)), ...options });
  }

  info(options: CallOptions = {}): Promise<InboxInfo> {
    return this.ask("GET", `session/${this.id}`, options);
  }

  /** Extends the lifetime of the session, as reading the inbox does. */
  touch(options: CallOptions = {}): Promise<Pick<InboxInfo, "sessionId" | "expiresAt">> {
    return this.ask("POST", `session/${this.id}/touch`, options);
  }

  /** Deletes the session with its copies and every subscription; the streams stay. */
  delete(options: CallOptions = {}): Promise<Deleted> {
    return this.connection.delete({ ...options, path: `session/${this.id}` });
  }

  /** Yields every copy once and in order. Ends with `stream-not-found` when the session is over. */
  read(options: MarkedReadOptions): AsyncGenerator<StreamItem<Output> | Mark, void, undefined>;
  read(options?: ReadOptions): AsyncGenerator<StreamItem<Output>, void, undefined>;
  read(options?: ReadOptions): AsyncGenerator<StreamItem<Output> | Mark, void, undefined> {
    return this.stream.read(options);
  }

  /** Yields the copies that the inbox holds, and then new ones as they arrive. */
  live(options: Omit<MarkedReadOptions, "live">): AsyncGenerator<StreamItem<Output> | Mark, void, undefined>;
  live(options?: Omit<ReadOptions, "live">): AsyncGenerator<StreamItem<Output>, void, undefined>;
  live(options?: Omit<ReadOptions, "live">): AsyncGenerator<StreamItem<Output> | Mark, void, undefined> {
    return this.stream.read({ ...options, live: true });
  }

  /** Yields the copies as bytes. */
  pages(options?: PageOptions): AsyncGenerator<StreamPage | Gap, void, undefined> {
    return this.stream.pages(options);
  }

  private ask<T extends { sessionId: string }>(method: string, path: string, options: CallOptions, body?: string) {
    const call = { ...this.callTo(method, path, body), ...options };
    return this.connection.json<T>(call, "sessionId", (id) => typeof id === "string");
  }

  private bodyOf(streamId: string, more: object = {}): string {
    return JSON.stringify({ sessionId: this.id, streamId, ...more });
  }

  private callTo(method: string, path: string, body?: string) {
    return {
      method,
      path,
      body,
      headers: body === undefined ? undefined : { [header.contentType]: "application/json" },
    };
  }
}
