/**
 * The holds of a subscription on the logs of its topic: from where retention keeps messages for it. The dispatcher moves them after
 * commits of acknowledgements, and a seek moves them.
 *
 * Invariants: a hold rises only after the commit that makes its position true, so that a crash before it loses no message. The
 * writer of a hold looks at the subscription afterwards, because a node that ends it or seeks back writes its own hold only once.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Engine, Entity } from "../engine/contract.ts";
import type { Streams } from "../streams/service.ts";
import { logTable, META, metaTable, type PullerMeta } from "./state.ts";

export interface HoldingParts {
  readonly engine: Engine;
  readonly streams: Streams;
}

/** The holder's name on a stream. */
export function holderOf({ id }: Entity): string {
  return `pull:${id}`;
}

/** Holds the messages after this position. Another node may end the subscription meanwhile, or move it back. */
export async function holdLog(parts: HoldingParts, puller: Entity, path: string, at: Position): Promise<void> {
  await parts.streams.hold(puller.project, path, holderOf(puller), at);
  const { rows } = await parts.engine.load(puller, [META, logTable.at(path)]);
  const meta = rows[0] && metaTable.decode(rows[0]);
  const log = rows[1] && logTable.decode(rows[1]);
  if (meta === undefined || meta.isDetached) await releaseLogs(parts, puller, [path]);
  else if (log !== undefined && comparePositions(log.at, at) < 0) await holdLog(parts, puller, path, log.at);
}

export async function releaseLogs(
  { streams }: Pick<HoldingParts, "streams">,
  puller: Entity,
  paths: readonly string[],
): Promise<void> {
  for (const path of paths) await streams.hold(puller.project, path, holderOf(puller), undefined);
}

/** Where the hold belongs if everything up to `floor` is acknowledged. A subscription may want to seek back beyond that. */
export async function heldFrom(
  { engine, streams }: HoldingParts,
  puller: Entity,
  path: string,
  floor: Position,
  { retainsAcked, retentionMs }: PullerMeta["options"],
): Promise<Position> {
  if (!retainsAcked) return floor;
  const sinceMs = retentionMs === undefined ? 0 : engine.now() - retentionMs;
  const located = await streams.positionAt(puller.project, path, sinceMs);
  if (located.kind !== "position") return floor;
  return located.position.seq < floor.seq ? located.position : floor;
}
