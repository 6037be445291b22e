/**
 * What a caller wants to do, in terms of the product: an action on a project, a stream, a subscription, a channel. Every door parses its
 * own addresses into this, and auth decides on nothing else, so that no spelling of a path gets around it.
 */
import { topicOfShard } from "./shard-path.ts";

/** What an address can ask for. The HTTP routes carry the same names, in logs and metrics too. */
export type RouteName =
  | "stream.create"
  | "stream.append"
  | "stream.read"
  | "stream.head"
  | "stream.delete"
  | "streams.list"
  | "ds.subscription.put"
  | "ds.subscription.get"
  | "ds.subscription.delete"
  | "ds.subscription.streams.add"
  | "ds.subscription.streams.remove"
  | "ds.subscription.claim"
  | "ds.subscription.ack"
  | "ds.subscription.release"
  | "ds.subscription.callback"
  | "ds.keys"
  | "subscribe"
  | "unsubscribe"
  | "publish"
  | "session.get"
  | "session.touch"
  | "session.delete"
  | "channel.publish"
  | "channel.events"
  | "health"
  | "ready"
  | "metrics"
  | "openapi";

/** `ds.subscription.link`: a header or body names a stream, or a pattern of streams, that a subscription is to follow. */
export type ActionName = RouteName | "ds.subscription.link";

export interface Action {
  readonly action: ActionName;
  /** Undefined for what concerns the whole server. */
  readonly project: string | undefined;
  readonly stream?: string | undefined;
  /** Several streams, present and future. */
  readonly pattern?: StreamPattern | undefined;
  readonly subscription?: string | undefined;
  readonly channel?: string | undefined;
  readonly session?: string | undefined;
  readonly group?: string | undefined;
}

/** The topic by which a caller that is confined to some topics reaches what the action names; undefined when it names none. */
export function topicOf({ action, stream, channel, session }: Action): string | undefined {
  // Whose a session is, is another question, and what is in it was asked about when it was subscribed to.
  if (session !== undefined && action !== "subscribe") return undefined;
  if (channel !== undefined) return `channels/${channel}`;
  return stream === undefined ? undefined : ownTopic(stream);
}

/** What a stream is reached by: a shard by the path of what it is a part of. */
export function ownTopic(stream: string): string {
  return topicOfShard(stream) ?? stream;
}

/** Levels are `*` for any one, `**` for any number of them, and literal ones with `=` in front. */
export interface StreamPattern {
  readonly text: string;
  readonly levels: readonly string[];
}

/** What the caller of a request may do besides what the address names. Routes ask it about names in headers and bodies. */
export interface Access {
  /** Who it is, if it is anybody in particular. */
  readonly subject: string | undefined;
  /** Whether what is another's is open to it. */
  readonly isAdmin: boolean;
  /** Whether it sees a part of the project's streams only. */
  readonly isConfined: boolean;
  /** What every path that it sees starts with one of; undefined when it sees all. */
  readonly prefixes: readonly string[] | undefined;
  /** Throws a Refusal unless the caller may do this too. */
  demand(action: Action): void | Promise<void>;
  sees(stream: string): boolean;
  seesAll(pattern: StreamPattern): boolean;
}
