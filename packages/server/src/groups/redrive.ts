/**
 * Puts the dead letters of a queue back into the streams that they came from. The service calls it for the redrive route.
 *
 * Invariants: a letter goes back once, also after a crash and beside another redrive of the group: it is appended under a producer
 * of the group whose epoch is the letter's number, so a stream refuses a letter that it has. Each shard of a sharded dead-letter
 * stream has a producer of its own, because letters of two shards have equal numbers. A letter whose stream does not take
 * it stays, and does not hold up the others. Letters of other groups are left alone.
 */
import type { Position } from "@sluice/protocol";
import { shardPaths, topicOfShard } from "../core/shard-path.ts";
import { matchesFilter } from "../core/topic.ts";
import type { Entity, LoggedMessage } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import type { Streams } from "../streams/service.ts";
import { beginRedriveRule, redrivenRule } from "./group-rules.ts";
import { redriveTable } from "./state.ts";
import { filterOf, groupOfId } from "./topic.ts";

/** The attributes of a dead letter, beyond those of its message. */
export const DEAD = {
  stream: "dead-stream",
  offset: "dead-offset",
  reason: "dead-reason",
  attempts: "dead-attempts",
  group: "dead-group",
} as const;
const DEAD_NAMES: ReadonlySet<string> = new Set(Object.values(DEAD));

export interface RedriveParts {
  /** Names the producer of a dead-letter stream, or of one of its shards, at its first redrive. */
  readonly newName: () => string;
  readonly keepers: Pick<Keepers, "submit">;
  readonly streams: Pick<Streams, "describe" | "peek" | "append">;
  readonly readBytes: number;
}

export interface Redriven {
  readonly redriven: number;
  /** Letters whose stream is gone or closed: they are in the dead-letter stream only. */
  readonly stayed: number;
  /** Further letters are left: the request did as many as one may. */
  readonly more: boolean;
}

/** Letters of one request. */
const MAX_LETTERS = 10_000;

export async function redrive(parts: RedriveParts, group: Entity, deadLetter: string): Promise<Redriven> {
  const described = await parts.streams.describe(group.project, deadLetter);
  const shards = described.kind === "live" ? described.meta.config.shards : undefined;
  const places = shards === undefined ? [{ path: deadLetter, key: "" }] : shardPaths(deadLetter, shards).map(asPlace);
  const sum = { redriven: 0, stayed: 0 };
  for (const place of places) {
    if (!(await redriveFrom(parts, group, place, sum))) return { ...sum, more: true };
  }
  return { ...sum, more: false };
}

interface Place {
  readonly path: string;
  /** Of its row in the group. */
  readonly key: string;
}

const asPlace = (path: string): Place => ({ path, key: path });

/** Adds to the sum; false if letters are left because the request has done as many as one may. */
async function redriveFrom(
  { keepers, streams, readBytes, newName }: RedriveParts,
  group: Entity,
  { path, key }: Place,
  sum: { redriven: number; stayed: number },
): Promise<boolean> {
  const name = newName();
  const row = [redriveTable.at(key)];
  const begun = await keepers.submit(group, row, (view) => beginRedriveRule(view, key, name));
  let after: Position = begun.through;
  for (;;) {
    const page = await streams.peek(group.project, path, after, readBytes);
    if (page.kind === "trimmed" || page.kind === "lost") {
      after = page.kind === "trimmed" ? page.earliest : page.survived;
      continue;
    }
    if (page.kind !== "page" || page.messages.length === 0) return true;
    if (sum.redriven + sum.stayed >= MAX_LETTERS) return false;
    for (const letter of page.messages) {
      const outcome = await putBack(streams, group, letter, page.meta.config.contentType, begun.producer);
      if (outcome === "redriven" || outcome === "stayed") sum[outcome]++;
    }
    after = page.next;
    const through = after;
    await keepers.submit(group, row, (view) => redrivenRule(view, key, through));
    if (page.atTail) return true;
  }
}

async function putBack(
  streams: RedriveParts["streams"],
  group: Entity,
  { position, payload, id, key, attributes = {} }: LoggedMessage,
  contentType: string,
  producer: string,
): Promise<"redriven" | "repeated" | "stayed" | "foreign"> {
  const path = attributes[DEAD.stream];
  if (path === undefined || attributes[DEAD.group] !== group.id) return "foreign";
  // Clients may append to the dead-letter stream too, and a group never reaches beyond its filter.
  if (!matchesFilter(filterOf(groupOfId(group.id)), topicOfShard(path) ?? path)) return "foreign";
  const own = Object.entries(attributes).filter(([name]) => !DEAD_NAMES.has(name));
  const { kind } = await streams.append(group.project, path, {
    payloads: [payload],
    contentType,
    close: false,
    producer: { id: `redrive:${producer}:${position.generation}`, epoch: position.seq, seq: 0 },
    messageId: id,
    messageKey: key,
    attributes: own.length === 0 ? undefined : Object.fromEntries(own),
  });
  if (kind === "duplicate" || kind === "producer-fenced") return "repeated";
  return kind === "appended" ? "redriven" : "stayed";
}
