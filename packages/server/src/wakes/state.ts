/**
 * What is stored of a wake subscription, and what follows from it. One entity per subscription, kind "wake".
 *
 *     meta   ""             configuration and incarnation, written once
 *     state  ""             generation, the wake in progress, retries; the reminder always follows from it
 *     link   stream's path  the acknowledged offset of the stream, and why it is linked
 *
 * Invariants: every decision follows from these rows. Timers and the in-memory index are hints and can be rebuilt from
 * here.
 */
import { BEGINNING, comparePositions, formatOffset, type Position, parseOffset, ZERO } from "@sluice/protocol";
import { ownTopic } from "../core/action.ts";
import { type Entity, entity } from "../engine/contract.ts";
import { jsonTable } from "../engine/table.ts";

export const WAKE = "wake";

export function wakeEntity(project: string, id: string): Entity {
  return entity(project, WAKE, id);
}

/** A repeated PUT is the same subscription if all of these are equal. */
export interface Config {
  readonly type: "webhook" | "pull-wake";
  readonly pattern?: string | undefined;
  /** The streams of the PUT, sorted and without duplicates. The current links are in the link table. */
  readonly streams: readonly string[];
  readonly webhookUrl?: string | undefined;
  readonly wakeStream?: string | undefined;
  readonly leaseMs: number;
  readonly description?: string | undefined;
}

/** Whether wake events are written there. If the wake stream is a topic, they go into its shards. */
export function isWakeStream({ wakeStream }: Config, path: string): boolean {
  return wakeStream !== undefined && (path === wakeStream || ownTopic(path) === wakeStream);
}

export interface Meta {
  readonly config: Config;
  readonly createdAt: number;
  /** Random; fences requests that belong to an earlier subscription of this id. */
  readonly incarnation: string;
  /** The public URL of the project's streams as the creator wrote it, for callbacks. */
  readonly base: string;
}

/**
 * The notification of a wake: a POST to the webhook, or an event in the wake stream. Present until it has got through.
 */
export interface Attempt {
  readonly number: number;
  /** When to retry: after a failure, or because the last attempt returned no result. */
  readonly nextAt: number;
}

export interface Wake {
  readonly id: string;
  readonly generation: number;
  /** The stream that caused it. */
  readonly trigger: string;
  readonly attempt?: Attempt | undefined;
  /** The secret that callbacks and workers must send; a pull-wake gets it with its claim. */
  readonly secret?: string | undefined;
  readonly tokenUntil?: number | undefined;
  readonly holder?: string | undefined;
  /**
   * The wake ends at this time. The lease starts with delivery or claim, and every request of the holder extends it.
   */
  readonly leaseUntil?: number | undefined;
}

export interface State {
  readonly generation: number;
  readonly links: number;
  readonly status: "active" | "failed";
  /** Consecutive failed attempts. */
  readonly failures: number;
  readonly wake?: Wake | undefined;
}

export interface Link {
  /** An offset, or "-1": before the first message. */
  readonly acked: string;
  readonly explicit: boolean;
  readonly glob: boolean;
  /**
   * How far the wake of this generation reaches; `done` acknowledges up to here. Snapshots of other generations are
   * ignored.
   */
  readonly snapshot?: { readonly generation: number; readonly offset: string } | undefined;
}

export const metaTable = jsonTable<Meta>("meta");
export const stateTable = jsonTable<State>("state");
export const linkTable = jsonTable<Link>("link");

export const META = metaTable.at("");
export const STATE = stateTable.at("");

export const FRESH: State = { generation: 0, links: 0, status: "active", failures: 0 };

/** When the subscription must be checked although no request arrives. */
export function nextDue({ wake }: State): number | undefined {
  if (wake === undefined) return undefined;
  const { attempt, leaseUntil } = wake;
  if (attempt === undefined) return leaseUntil;
  return leaseUntil === undefined ? attempt.nextAt : Math.min(attempt.nextAt, leaseUntil);
}

/** The wake in progress. A wake whose lease has ended is over, even if no step has noticed yet. */
export function wakeAt({ wake }: State, now: number): Wake | undefined {
  return wake?.leaseUntil !== undefined && wake.leaseUntil <= now ? undefined : wake;
}

/** The acknowledged offset as a position. */
export function ackedPosition({ acked }: Link): Position {
  return acked === BEGINNING ? ZERO : parseOffset(acked)!;
}

/** Whether unacknowledged messages exist. A stream without messages never has work, whatever its generation. */
export function isPending(link: Link, tail: Position): boolean {
  return tail.seq > 0 && comparePositions(tail, ackedPosition(link)) > 0;
}

/** A stream and its tail at some moment. The tail of a stream that does not exist is zero. */
export interface Tail {
  readonly path: string;
  readonly tail: Position;
}

/** One linked stream in a payload or a listing. */
export interface LinkInfo extends Tail {
  readonly link: Link;
}

export function describeLink({ path, link, tail }: LinkInfo) {
  return {
    path,
    link_type: linkType(link),
    acked_offset: link.acked,
    tail_offset: formatOffset(tail),
    has_pending: isPending(link, tail),
  };
}

export function linkType(link: Link): "explicit" | "glob" {
  return link.explicit ? "explicit" : "glob";
}
