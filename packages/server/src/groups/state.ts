/**
 * What is stored of a group. One entity per group, kind "group"; its leader claims it and commits under that ownership.
 *
 *     meta    ""             where the group began, its settings, the term of its last leader
 *     stream  stream's path  how far the group has processed it, and the member that held it last
 *     block   path, edition and number   of a queue: acknowledgements above that place (`leases/block-row.ts`)
 *     redrive ""             up to which dead letter the group has put letters back, and under which producer
 *
 * Members, assignments and leases are stored nowhere: a new leader learns of members when they connect again.
 *
 * Invariants: a stream without a row is consumed from where the group began. A row of an earlier edition counts as none, so that
 * a seek is one commit for any number of streams.
 */
import type { Position } from "@sluice/protocol";
import { type Entity, entity } from "../engine/contract.ts";
import { jsonTable } from "../engine/table.ts";
import type { StreamRow } from "./leader-state.ts";
import { type GroupName, groupId } from "./topic.ts";

export const GROUP = "group";

export function groupEntity(project: string, name: GroupName): Entity {
  return entity(project, GROUP, groupId(name));
}

/**
 * Where a group begins in a stream that it has no row of: at its earliest message, after a position, or at the messages that
 * were published at or after a time. "Latest" is stored as the time of that request, so that a stream born later is consumed
 * from its beginning.
 */
export type Start =
  | { readonly kind: "earliest" }
  | { readonly kind: "position"; readonly position: Position }
  | { readonly kind: "time"; readonly atMs: number };

/** What a PUT may set. */
export interface GroupConfig {
  readonly leaseMs?: number | undefined;
  readonly maxAttempts?: number | undefined;
  readonly deadLetter?: string | undefined;
}

export interface GroupMeta {
  readonly createdAt: number;
  readonly config: GroupConfig;
  readonly start: Start;
  /** Grows with every seek. */
  readonly edition: number;
  /** Grows with every leader. */
  readonly term: number;
  /** Whether the last leader ended without members, so that no borrower of it can be left. */
  readonly isClean: boolean;
  /** The node of the last leader; undefined once that leader has released the group. A hint. */
  readonly leader?: string | undefined;
}

export interface StoredStream extends Omit<StreamRow, "blocks"> {
  readonly edition: number;
}

export const metaTable = jsonTable<GroupMeta>("meta");
export const streamTable = jsonTable<StoredStream>("stream");

export const META = metaTable.at("");

export interface Redrive {
  /** Up to here the letters of the dead-letter stream were put back, or stayed. */
  readonly through: Position;
  /** The name of the producer that appends them; unique to the row. */
  readonly producer: string;
}

/** One row for the dead-letter stream, under the empty key; if that is a sharded topic, one under the path of each shard. */
export const redriveTable = jsonTable<Redrive>("redrive");
