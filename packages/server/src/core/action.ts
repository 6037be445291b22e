/**
 * What a caller wants to do, in terms of the product: an action on a project, a stream, a subscription, a channel. Every door
 * parses its own addresses into this. Auth decides on nothing else, so no spelling of a path gets around it.
 *
 * Invariants: an action carries its need. Features define actions; neither core nor auth lists their names.
 */
import { isSessionPath } from "./reserved.ts";
import { topicOfShard } from "./shard-path.ts";

/** `none`: open to every caller. `own-proof`: the request carries a token of its own kind, which the feature checks. */
export type Need = "none" | "own-proof" | "read" | "write" | "read-or-write" | "read-and-write" | "metrics" | "admin";

/** What can be asked for: its name, which logs and metrics show too, and what it needs. */
export interface Permission {
  readonly action: string;
  readonly need: Need;
  /** Set where a caller may always act on the stream that is named, because its access was checked before. */
  readonly isUnconfined?: true;
  /**
   * What the short-lived token of a session suffices for. `session`: to act on that session. `subscribed`: to read the streams
   * that the session subscribes to.
   */
  readonly bySession?: "session" | "subscribed" | undefined;
}

export interface Action extends Permission {
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

/** Whether a caller needs to be identified at all. */
export function isOpen({ need }: Pick<Permission, "need">): boolean {
  return need === "none" || need === "own-proof";
}

/**
 * The topic that confines an action: the one that a token's `streams` must match. Undefined when the action names none, and for
 * a session's inbox: its owner is checked separately, and access to its streams was checked when the session subscribed.
 */
export function topicOf({ stream, channel, isUnconfined }: Action): string | undefined {
  if (isUnconfined) return undefined;
  if (channel !== undefined) return `channels/${channel}`;
  return stream === undefined || isSessionPath(stream) ? undefined : ownTopic(stream);
}

/** The topic through which callers reach a stream: for a shard, the topic that it is a part of. */
export function ownTopic(stream: string): string {
  return topicOfShard(stream) ?? stream;
}

/** Levels are `*` for any one, `**` for any number of them, and literal ones with `=` in front. */
export interface StreamPattern {
  readonly text: string;
  readonly levels: readonly string[];
}

/** The part of a caller's permissions that a token of its session carries. */
export interface Grant {
  /** Words separated by spaces; never `admin`, because the token travels in URLs. */
  readonly scope: string;
  /** The topic filters that the caller is confined to; undefined for all streams. */
  readonly streams: readonly string[] | undefined;
  /** When the credentials that this comes from end; undefined if they do not. Epoch ms. */
  readonly untilMs: number | undefined;
}

/** A caller: who it is and what it may do. Made by auth from credentials; services ask it about every name they are given. */
export interface Access {
  /** The subject of the caller's token; undefined when the caller is anonymous. */
  readonly subject: string | undefined;
  /** Whether the caller may use what belongs to other subjects. */
  readonly isAdmin: boolean;
  /** Whether the caller sees only a part of the project's streams. */
  readonly isConfined: boolean;
  /** When the caller's token ends, so that a connection ends too; undefined if it does not. Epoch ms. */
  readonly untilMs?: number | undefined;
  readonly grant: Grant;
  /** Every path that the caller sees starts with one of these; undefined when it sees all. */
  readonly prefixes: readonly string[] | undefined;
  /** Throws, or rejects with, a Refusal unless the caller may do this. */
  demand(action: Action): void | Promise<void>;
  sees(stream: string): boolean;
  seesAll(pattern: StreamPattern): boolean;
}

/** The access of every caller while auth is off, and of the server's own work. */
export const FULL_ACCESS: Access = {
  subject: undefined,
  isAdmin: true,
  isConfined: false,
  prefixes: undefined,
  grant: { scope: "read write", streams: undefined, untilMs: undefined },
  demand: () => undefined,
  sees: () => true,
  seesAll: () => true,
};
