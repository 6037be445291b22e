/**
 * The handle of a session: the streams it follows, its lifetime, and its inbox. Made by the client.
 *
 * Invariants: every call is idempotent, so each is retried; subscribing twice has the effect of subscribing once.
 */
import { header } from "@sluice/protocol";
import type { Connection } from "./connection.ts";
import type { CallOptions, Stream } from "./stream.ts";
import type { Gap, PageOptions, ReadOptions, StreamItem, StreamPage } from "./stream-reader.ts";

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

export interface SessionInfo {
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

export class Session<Output = unknown> {
  constructor(
    readonly id: string,
    private readonly connection: Connection,
    private readonly inbox: Stream<Output>,
  ) {}

  /** Lets the session follow a stream; creates the session when it does not exist. */
  async subscribe(path: string, { format, from, signal }: SubscribeOptions = {}): Promise<Subscribed> {
    const start = from === "beginning" ? "-1" : from;
    return this.ask("POST", "subscribe", signal, { format, from: start === "now" ? undefined : start, streamId: path });
  }

  /** Succeeds also when the session did not follow the stream. Copies already in the inbox stay. */
  async unsubscribe(path: string, { signal }: CallOptions = {}): Promise<void> {
    await this.ask("DELETE", "unsubscribe", signal, { streamId: path });
  }

  info({ signal }: CallOptions = {}): Promise<SessionInfo> {
    return this.ask("GET", `session/${this.id}`, signal);
  }

  /** Extends the lifetime of the session, as reading its inbox does. */
  touch({ signal }: CallOptions = {}): Promise<Pick<SessionInfo, "sessionId" | "expiresAt">> {
    return this.ask("POST", `session/${this.id}/touch`, signal);
  }

  /** Deletes the session with its inbox and every subscription; the streams stay. */
  async delete({ signal }: CallOptions = {}): Promise<void> {
    await this.ask("DELETE", `session/${this.id}`, signal);
  }

  /** Reads the inbox: every copy once and in order. Ends with `stream-not-found` when the session is over. */
  read(options?: ReadOptions): AsyncGenerator<StreamItem<Output>, void, undefined> {
    return this.inbox.read(options);
  }

  /** Reads the inbox as bytes. */
  pages(options?: PageOptions): AsyncGenerator<StreamPage | Gap, void, undefined> {
    return this.inbox.pages(options);
  }

  private async ask<T>(method: string, path: string, signal: AbortSignal | undefined, body?: object): Promise<T> {
    const { text } = await this.connection.call({
      method,
      path,
      signal,
      headers: body && { [header.contentType]: "application/json" },
      body: body && JSON.stringify({ sessionId: this.id, ...body }),
    });
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }
}
