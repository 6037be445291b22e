/**
 * What is stored of a channel besides its log. One entity per channel, kind "channel".
 *
 *   meta   ""        its life: started, ended, where the sweep looks next; which sequences the log holds
 *   marks  ""        where the log may be trimmed; `engine/trimming.ts`
 *   ids    a slot    the message ids of one stretch of the log, in a ring of slots
 *
 * A plain DELTA changes none of these rows: its sequence follows from its place in the log.
 */
import { type Entity, entity } from "../engine/contract.ts";
import { jsonTable, type Table } from "../engine/table.ts";

export const CHANNEL = "channel";

export function channelEntity(project: string, id: string): Entity {
  return entity(project, CHANNEL, id);
}

export type Phase = "START" | "DELTA" | "END" | "ERROR";

/**
 * Messages that follow each other in the log and in sequence: the one at position (generation, seq + i) has the sequence
 * from + i. It ends where the next run begins, the last one at the end of the log.
 */
export interface Run {
  readonly from: number;
  readonly seq: number;
  readonly generation: number;
}

export interface Meta {
  /** The generation that the channel began with: tells rows of an earlier channel of this id from its own. */
  readonly born: number;
  readonly startedAt: number;
  readonly endedAt?: number | undefined;
  /** The reminder that stands. */
  readonly remindAt: number;
  /** Oldest first, at least one. */
  readonly runs: readonly Run[];
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

/** When the channel is over by itself; undefined before its END. */
export function expiresAt({ endedAt }: Meta, ttlMs: number): number | undefined {
  return endedAt === undefined ? undefined : endedAt + ttlMs;
}

/** The channel that is here, unless its time is over and the sweep has just not come yet. */
export function alive(meta: Meta | undefined, ttlMs: number, now: number): Meta | undefined {
  if (meta === undefined) return undefined;
  const end = expiresAt(meta, ttlMs);
  return end === undefined || now < end ? meta : undefined;
}
