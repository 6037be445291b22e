/**
 * What is stored of a channel besides its log. One entity per channel, kind "channel".
 *
 *     meta   ""        its life: start, end, next reminder; which sequences the log holds; whether it is to stop
 *     marks  ""        where the log may be trimmed; `engine/trimming.ts`
 *     ids    a slot    the message ids of one stretch of the log, in a ring of slots
 *
 * A plain DELTA changes none of these rows, because its sequence follows from its place in the log.
 */
import type { Position } from "@sluice/protocol";
import { type Entity, entity } from "../engine/contract.ts";
import { jsonTable, type Table } from "../engine/table.ts";

export const CHANNEL = "channel";

export function channelEntity(project: string, id: string): Entity {
  return entity(project, CHANNEL, id);
}

export type Phase = "START" | "DELTA" | "END" | "ERROR";

/**
 * Messages that are consecutive in the log and in sequence: the message at position (generation, seq + i) has the
 * sequence from + i. A run ends where the next one begins; the last run ends at the end of the log.
 */
export interface Run {
  readonly from: number;
  readonly seq: number;
  readonly generation: number;
  /** The entry before the run is the request to stop, which has no sequence. */
  readonly afterStop?: true | undefined;
}

export interface Meta {
  /** The generation that the channel began with. It tells its rows from those of an earlier channel of this id. */
  readonly born: number;
  readonly startedAt: number;
  readonly endedAt?: number | undefined;
  /** The time of the current reminder. */
  readonly remindAt: number;
  /** Oldest first, at least one. */
  readonly runs: readonly Run[];
  /** The request to stop, and the place of its entry in the log. */
  readonly stop?: { readonly reason?: string | undefined; readonly at: Position } | undefined;
}

/** The ids of the messages with numbers from `segment * step` on, and their sequences. */
export interface IdSlot {
  readonly born: number;
  readonly segment: number;
  readonly ids: ReadonlyMap<string, number>;
}

export const metaTable = jsonTable<Meta>("meta");
export const META = metaTable.at("");
export { MARKS } from "../engine/trimming.ts";

const stored = jsonTable<readonly [born: number, segment: number, ids: readonly (readonly [string, number])[]]>("ids");
export const idTable: Table<IdSlot> = {
  name: stored.name,
  encode: ({ born, segment, ids }) => stored.encode([born, segment, [...ids]]),
  decode: (bytes) => {
    const [born, segment, ids] = stored.decode(bytes);
    return { born, segment, ids: new Map(ids) };
  },
  at: (key) => ({ table: stored.name, key, of: idTable }),
};

/** When the channel expires; undefined before its END. */
export function expiresAt({ endedAt }: Meta, ttlMs: number): number | undefined {
  return endedAt === undefined ? undefined : endedAt + ttlMs;
}

/** The channel, unless it has expired and the sweep has not removed it yet. */
export function alive(meta: Meta | undefined, ttlMs: number, now: number): Meta | undefined {
  if (meta === undefined) return undefined;
  const end = expiresAt(meta, ttlMs);
  return end === undefined || now < end ? meta : undefined;
}
