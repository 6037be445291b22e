/**
 * What is stored of a wake subscription, and what can be read off it. One entity per subscription, kind "wake".
 *
 *   meta   ""             configuration and incarnation, written once
 *   state  ""             generation, the wake in progress, retries; the reminder always follows from it
 *   link   stream's path  how far the stream is acknowledged, and why it is linked
 *
 * What must stay true: nothing that decides lives outside these rows. Timers and the in-memory index are hints and can be
 * built again from here.
 */
import { BEGINNING, comparePositions, formatOffset, type Position, parseOffset, ZERO } from "@sluice/protocol";
import { ownTopic } from "../core/action.ts";
import { type Entity, entity } from "../engine/contract.ts";
import { jsonTable } from "../engine/table.ts";

export const WAKE = "wake";

export function wakeEntity(project: string, id: string): Entity {
  return entity(project, WAKE, id);
}

/** A PUT and a later PUT of the same id are the same when these are equal. */
export interface Config {
  readonly type: "webhook" | "pull-wake";
  readonly pattern?: string | undefined;
  /** Asked for by the PUT; sorted, each once. What is linked today is in the link table. */
  readonly streams: readonly string[];
  readonly webhookUrl?: string | undefined;
  readonly wakeStream?: string | undefined;
  readonly leaseMs: number;
  readonly description?: string | undefined;
}

/** Whether wakes are written there; when that is a topic, into its shards. */
export function isWakeStream({ wakeStream }: Config, path: string): boolean {
  return wakeStream !== undefined && (path === wakeStream || ownTopic(path) === wakeStream);
}

export interface Meta {
  readonly config: Config;
  readonly createdAt: number;
  /** Random; fences everything that was meant for an earlier subscription of this id. */
  readonly incarnation: string;
  /** The address of the project's streams as the creator wrote it, for links back to us. */
  readonly base: string;
}

/** The notification of a wake: a POST to the webhook, or an event in the wake stream. Present until it has got through. */
export interface Attempt {
  readonly number: number;
  /** When to try again: after a failure, or because no word of the last attempt came back. */
  readonly nextAt: number;
}

export interface Wake {
  readonly id: string;
  readonly generation: number;
  /** The stream that caused it. */
  readonly trigger: string;
  readonly attempt?: Attempt | undefined;
  /** What callbacks and workers must show; a pull-wake has it from its claim on. */
  readonly secret?: string | undefined;
  readonly tokenUntil?: number | undefined;
  readonly holder?: string | undefined;
  /** The wake is over at this time. Runs from delivery or claim on, extended by every word of the holder. */
  readonly leaseUntil?: number | undefined;
}

export interface State {
  readonly generation: number;
  readonly links: number;
  readonly status: "active" | "failed";
  /** Failed attempts in a row. */
  readonly failures: number;
  readonly wake?: Wake | undefined;
}

export interface Link {
  /** An offset, or "-1": before the first message. */
  readonly acked: string;
  readonly explicit: boolean;
  readonly glob: boolean;
  /** How far the wake of this generation reaches: what `done` acknowledges. Other generations are of no meaning. */
  readonly snapshot?: { readonly generation: number; readonly offset: string } | undefined;
}

export const metaTable = jsonTable<Meta>("meta");
export const stateTable = jsonTable<State>("state");
export const linkTable = jsonTable<Link>("link");

export const META = metaTable.at("");
export const STATE = stateTable.at("");

export const FRESH: State = { generation: 0, links: 0, status: "active", failures: 0 };

/** When the subscription needs a look although nobody calls. */
export function nextDue({ wake }: State): number | undefined {
  if (wake === undefined) return undefined;
  const { attempt, leaseUntil } = wake;
  if (attempt === undefined) return leaseUntil;
  return leaseUntil === undefined ? attempt.nextAt : Math.min(attempt.nextAt, leaseUntil);
}

/** The wake in progress; one whose lease has ended is none, whether or not anybody has noticed yet. */
export function wakeAt({ wake }: State, now: number): Wake | undefined {
  return wake?.leaseUntil !== undefined && wake.leaseUntil <= now ? undefined : wake;
}

/** Where a link stands, as a position. */
export function ackedPosition({ acked }: Link): Position {
  return acked === BEGINNING ? ZERO : parseOffset(acked)!;
}

/** Whether messages lie after what is acknowledged. A stream without any message never has work, whatever its generation. */
export function isPending(link: Link, tail: Position): boolean {
  return tail.seq > 0 && comparePositions(tail, ackedPosition(link)) > 0;
}

/** A stream and its tail at some moment; the tail of a stream that does not exist is before everything. */
export interface Tail {
  readonly path: string;
  readonly tail: Position;
}

/** What a payload or a listing says of one linked stream. */
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
