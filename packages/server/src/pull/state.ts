/**
 * What is stored of pull. A subscription is an entity of kind "puller"; its dispatcher claims it and commits under that ownership.
 * A snapshot is one of kind "snapshot", what a stream does not know of a topic one of kind "topic",
 * and a schema one of kind "schema".
 *
 *     puller    meta   ""                        topic, options, edition, term of the last dispatcher
 *               log    stream's path             how far everything is acknowledged
 *               block  path, edition and number  acknowledgements, attempts and delays above it (`leases/block-row.ts`)
 *     snapshot  meta   ""                        topic and time
 *               log, block                       as of the subscription, of edition 0
 *     topic     meta   ""                        labels and what doors keep
 *     schema    meta   ""                        type and revisions
 *
 * Leases are stored nowhere: after a crash every message that is not acknowledged is delivered again.
 *
 * Invariants: a row of an earlier edition counts as none, so that a seek is one commit. A topic has one log, or one per shard.
 */
import type { Position } from "@sluice/protocol";
import { shardPaths } from "../core/shard-path.ts";
import { type Entity, entity } from "../engine/contract.ts";
import { jsonTable } from "../engine/table.ts";
import type { Schema, SnapshotSettings, SubscriptionOptions, TopicSettings } from "./contract.ts";

export const PULLER = "puller";
export const SNAPSHOT = "snapshot";
export const TOPIC = "topic";
export const SCHEMA = "schema";

export function pullerEntity(project: string, name: string): Entity {
  return entity(project, PULLER, name);
}

export function snapshotEntity(project: string, name: string): Entity {
  return entity(project, SNAPSHOT, name);
}

export function topicEntity(project: string, name: string): Entity {
  return entity(project, TOPIC, name);
}

export function schemaEntity(project: string, name: string): Entity {
  return entity(project, SCHEMA, name);
}

/** A topic as a subscription remembers it, so that a later one of the same name is told from it. */
export interface TopicRef {
  readonly path: string;
  readonly id: string;
  /** Undefined for a plain stream. */
  readonly shards?: number | undefined;
}

export function logPaths({ path, shards }: TopicRef): readonly string[] {
  return shards === undefined ? [path] : shardPaths(path, shards);
}

export interface PullerMeta {
  readonly topic: TopicRef;
  readonly createdAt: number;
  readonly options: SubscriptionOptions;
  /** Grows with every seek. */
  readonly edition: number;
  /** Grows with every dispatcher. */
  readonly term: number;
  /** The node of the last dispatcher. */
  readonly node?: string | undefined;
  /** Grows with every change that a dispatcher must notice. */
  readonly revision: number;
  readonly isTopicDeleted: boolean;
  readonly isDetached: boolean;
  /** When the subscription was last used; moved by a tenth of `expiresAfterMs` at least. */
  readonly usedAt: number;
  /** How far the letters of the present dead-letter topic were published again. */
  readonly redrivenTo?: Position | undefined;
}

export interface LogRow {
  readonly edition: number;
  /** Everything up to and including this message is acknowledged. */
  readonly at: Position;
  /**
   * The last message that a dispatcher has read. What is stored of numbers up to this one is void if a later generation has a message
   * of such a number, because the log has lost its end.
   */
  readonly marked?: Position | undefined;
}

export interface SnapshotMeta extends SnapshotSettings {
  readonly topic: TopicRef;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export type SchemaMeta = Omit<Schema, "name">;

export const metaTable = jsonTable<PullerMeta>("meta");
export const logTable = jsonTable<LogRow>("log");
export const META = metaTable.at("");

export const snapshotTable = jsonTable<SnapshotMeta>("meta");
export const SNAPSHOT_META = snapshotTable.at("");

export const schemaTable = jsonTable<SchemaMeta>("meta");
export const SCHEMA_META = schemaTable.at("");

export const topicTable = jsonTable<TopicSettings>("meta");
export const TOPIC_META = topicTable.at("");
