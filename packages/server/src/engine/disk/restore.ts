/**
 * Takes the commits that an earlier process's journal has, and the store lacks, into the overlay. The disk engine calls it while
 * it opens. So a start writes none of them to the store, whose size would decide how long that takes; the applier does it while
 * the engine serves.
 *
 * Invariants: afterwards the overlay is as it was when these commits became durable. `flushLast` has run before, because the
 * journal proves a frame flushed only by the next frame, and from now on commits rest on the last one.
 */
import {
  blockFlags,
  blockHead,
  blockLength,
  blockName,
  blockNumber,
  blockReminder,
  CREATED,
  decodeCommit,
} from "./commit-block.ts";
import type { EntityState } from "./entity-state.ts";
import type { Files } from "./files.ts";
import { readName } from "./head-row.ts";
import { headKey } from "./keys.ts";
import type { Overlay } from "./overlay.ts";
import type { OwedFrame } from "./recovery.ts";
import { damaged } from "./sealed.ts";
import { segmentName } from "./segments.ts";
import { ABSENT, type Viewer } from "./view.ts";

/** Writes the last frame once more, in place. A crash may have left it in the operating system's memory alone. */
export async function flushLast(files: Files, dir: string, owed: readonly OwedFrame[]): Promise<void> {
  const last = owed.at(-1);
  if (last === undefined) return;
  const file = await files.open(`${dir}/${segmentName(last.segment)}`, "durable");
  try {
    await file.write(last.bytes, last.from);
  } finally {
    await file.close();
  }
}

/** Returns the greatest number of an entity in these commits, or 0. */
export function restore(owed: readonly OwedFrame[], overlay: Overlay, viewer: Viewer): number {
  const restoring = new Restoring(overlay, viewer);
  for (const { payload, firstLsn, count } of owed) {
    let at = 0;
    for (let lsn = firstLsn; lsn < firstLsn + count; lsn++) {
      const end = at + blockLength(payload, at);
      // A copy, because a large message stays in the tail cache and must not keep its whole segment in memory.
      restoring.commit(lsn, Buffer.from(payload.subarray(at, end)));
      at = end;
    }
  }
  return restoring.lastNumber;
}

class Restoring {
  lastNumber = 0;
  private readonly states = new Map<number, EntityState>();

  constructor(
    private readonly overlay: Overlay,
    private readonly viewer: Viewer,
  ) {}

  commit(lsn: number, block: Buffer): void {
    const number = blockNumber(block);
    const flags = blockFlags(block);
    const state = this.states.get(number) ?? (flags & CREATED ? this.created(block) : this.stored(number));
    this.states.set(number, state);
    this.lastNumber = Math.max(this.lastNumber, number);
    const outcome = { number, head: blockHead(block), remindAtMs: blockReminder(block), flags };
    this.overlay.add({ lsn, state, encoded: decodeCommit(block), outcome });
  }

  /** Before this commit there was no such entity. If the store has an earlier one, an owed commit destroyed that. */
  private created(block: Buffer): EntityState {
    const e = readName(blockName(block), 0);
    return this.overlay.states.get(e.key) ?? this.overlay.hold(e, ABSENT);
  }

  private stored(number: number): EntityState {
    const row = this.viewer.headRow(number);
    if (row === undefined) throw damaged(`the head of entity ${number} is missing`, headKey(number));
    return this.overlay.hold(row.entity, { ...row, number });
  }
}
