/**
 * What is stored of a stream besides its log, and what follows from it. One entity per stream, kind "stream".
 *
 *     meta      ""            configuration, closure, life
 *     seq       ""            the last Stream-Seq
 *     marks     ""            where retention may cut
 *     holds     ""            which holder needs the messages after which position
 *     producer  Producer-Id   epoch and last sequence, committed with the data they cover
 *     fork      fork's id     the forks that read this log
 */
import type { Position } from "@sluice/protocol";
import { memoOfNames } from "../core/memo.ts";
import { isSessionPath, SESSION_PREFIX } from "../core/reserved.ts";
import { type Entity, entity, type Head } from "../engine/contract.ts";
import { jsonTable } from "../engine/table.ts";

export const STREAM = "stream";
/**
 * Inboxes are read as streams, but are entities of their own kind. No listing includes them, and sessions sweep them.
 */
export const SESSION = "session";
export const DEFAULT_CONTENT_TYPE = "application/octet-stream";

/** The session whose inbox a path is; undefined for every other path. */
export function sessionOf(path: string): string | undefined {
  return isSessionPath(path) ? path.slice(SESSION_PREFIX.length) : undefined;
}

/** Sessions are too many to know one again. */
export function streamEntity(project: string, path: string): Entity {
  return isSessionPath(path) ? entity(project, SESSION, path) : entityLately(project, path);
}

const entityLately = memoOfNames((project, path) => entity(project, STREAM, path));

export interface Retention {
  readonly maxMessages?: number | undefined;
  readonly maxBytes?: number | undefined;
  readonly maxAgeMs?: number | undefined;
}

/** What a PUT asks for and a later PUT is compared with. */
export interface StreamConfig {
  readonly contentType: string;
  readonly ttlSeconds?: number | undefined;
  /** Epoch ms. */
  readonly expiresAt?: number | undefined;
  readonly retention?: Retention | undefined;
  /** Makes it a sharded topic of this many streams. */
  readonly shards?: number | undefined;
}

/** One ancestor whose messages, up to and including `through`, a fork reads as its own. */
export interface Ancestor {
  readonly path: string;
  readonly through: Position;
}

export interface ForkOrigin {
  readonly source: string;
  /** As the PUT sent it, so that a repeated PUT can be compared. */
  readonly askedOffset?: string | undefined;
  readonly askedSubOffset: number;
  /** Ties the fork to its row in the source, so that a later stream at the same path is not taken for it. */
  readonly id: string;
  /** Oldest first; the last one is the source itself. */
  readonly lineage: readonly Ancestor[];
}

/** Makes a stream a sharded topic, which has no messages of its own. */
export interface Topic {
  /** Ties the shards to this topic, so that shards of an earlier topic at the same path are not taken for its own. */
  readonly id: string;
  /**
   * The step that some shards have not completed; any request that meets it completes it. `ending`: the TTL is over and
   * the unused shards are dropped. If a client used a shard meanwhile, the topic stays.
   */
  readonly step?: "making" | "closing" | "ending" | undefined;
}

export interface Producer {
  readonly epoch: number;
  readonly seq: number;
}

export interface ProducerTriple extends Producer {
  readonly id: string;
}

export interface Meta {
  readonly config: StreamConfig;
  readonly createdAt: number;
  /** The last use that slides the TTL. The time of the last append is in the head instead. */
  readonly touchedAt: number;
  readonly closed: boolean;
  /** The producer request that closed it, so that its retry is recognized. */
  readonly closedBy?: ProducerTriple | undefined;
  /** Deleted, but kept for its forks. */
  readonly deleted?: boolean | undefined;
  readonly origin?: ForkOrigin | undefined;
  readonly topic?: Topic | undefined;
  /** Of a shard: the id of its topic. */
  readonly shardOf?: string | undefined;
  /**
   * Of a session: whether it has an inbox. Copying into an inbox does not count as use, and a deleted session is
   * absent. "none": the session has no subscription by copy, so it has no content type and no messages.
   */
  readonly inbox?: true | "none" | undefined;
  /** The features that follow the log, each under a name of its own. An append notifies them. */
  readonly follows?: Follows | undefined;
  /** The older form of `follows`, from when only fan-out could follow; read it through `followsOf`. */
  readonly follow?: string | undefined;
  /** How many forks read this log, and the position after which they need it. */
  readonly forks?: { readonly count: number; readonly needAfter: Position } | undefined;
}

/** By follower: its name for this stream. A later stream at the same path is followed under another name. */
export type Follows = Readonly<Record<string, string>>;

/** The follower that copies into inboxes. */
export const FANOUT_FOLLOWER = "fanout";

export function followsOf({ follows, follow }: Meta): Follows | undefined {
  return follows ?? (follow === undefined ? undefined : { [FANOUT_FOLLOWER]: follow });
}

export interface ForkRow {
  readonly path: string;
  readonly since: number;
}

export const metaTable = jsonTable<Meta>("meta");
export const seqTable = jsonTable<string>("seq");
export const holdsTable = jsonTable<Readonly<Record<string, Position>>>("holds");
export const producerTable = jsonTable<Producer>("producer");
export const forkTable = jsonTable<ForkRow>("fork");

export const META = metaTable.at("");
export const SEQ = seqTable.at("");
export { MARKS } from "../engine/trimming.ts";
export const HOLDS = holdsTable.at("");

/**
 * A TTL slides on use, and a use is stored only when it moves the end by more than a tenth. So the stored time may be
 * that much too old, and the end is put that much later: late, never early.
 */
const SLIDE_PART = 10;

/** When the stream ends; undefined if it is kept. A shard without an expiry of its own goes with its topic. */
export function endsAt(meta: Meta, head: Head): number | undefined {
  const { ttlSeconds, expiresAt } = meta.config;
  if (expiresAt !== undefined) return expiresAt;
  if (ttlSeconds === undefined || meta.shardOf !== undefined) return undefined;
  return idleAt(meta, head);
}

/** When the TTL ends unless a client uses the stream before; 0 without a TTL. */
export function idleAt(meta: Meta, head: Head): number {
  const { ttlSeconds } = meta.config;
  return ttlSeconds === undefined ? 0 : lastUse(meta, head) + ttlSeconds * (1_000 + 1_000 / SLIDE_PART);
}

/** Whether a use now is worth storing. */
export function slides(meta: Meta, head: Head, now: number): boolean {
  const { ttlSeconds } = meta.config;
  return ttlSeconds !== undefined && now - lastUse(meta, head) > (ttlSeconds * 1_000) / SLIDE_PART;
}

export function lastUse(meta: Meta, head: Head): number {
  return meta.inbox ? meta.touchedAt : Math.max(meta.touchedAt, head.at);
}

/** `absent`: it does not exist or has expired. `gone`: it was deleted or has expired, but forks still read it. */
export type Life = "absent" | "gone" | "live";

export function lifeOf(meta: Meta | undefined, head: Head, now: number): Life {
  if (meta === undefined) return "absent";
  if (meta.deleted) return meta.inbox || meta.topic ? "absent" : "gone";
  const end = endsAt(meta, head);
  if (end === undefined || now < end) return "live";
  // A use of a shard counts for its topic, which is not told. The sweep asks all shards before it ends the topic.
  if (meta.topic && meta.config.expiresAt === undefined) return "live";
  return hasForks(meta) ? "gone" : "absent";
}

export function hasForks(meta: Meta): boolean {
  return meta.forks !== undefined && meta.forks.count > 0;
}

/** Type and subtype in lower case. Parameters are ignored when types are compared. */
export function mediaType(contentType: string): string {
  const end = contentType.indexOf(";");
  return (end < 0 ? contentType : contentType.slice(0, end)).trim().toLowerCase();
}

export function isSameType(a: string, b: string): boolean {
  return a === b || mediaType(a) === mediaType(b);
}

/** The content type that was looked at last, and what came of it: most messages are of the type of the one before. */
let lastType = "";
let isLastJson = false;

export function isJson(contentType: string): boolean {
  if (contentType !== lastType) {
    const type = mediaType(contentType);
    isLastJson = type === "application/json" || type.endsWith("+json");
    lastType = contentType;
  }
  return isLastJson;
}

export function isText(contentType: string): boolean {
  return mediaType(contentType).startsWith("text/");
}
