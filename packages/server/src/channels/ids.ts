/**
 * The message ids by which a channel recognizes a repeated message, in a ring of slots. A slot holds the ids of one
 * segment, a twentieth of the messages kept. Pure; called by the publish rule.
 *
 * Invariants: an id is known as long as its message is kept. A message writes one slot, not all of them.
 */
import { type Change, put } from "../engine/draft.ts";
import type { View } from "../engine/keeper.ts";
import { type IdSlot, idTable } from "./state.ts";

const SEGMENTS = 20;
/** The segments kept, the one in progress, and two that a trim may have left, because trims follow their own marks. */
const SLOTS = SEGMENTS + 3;

const slotKey = (segment: number): string => String(segment % SLOTS);

/** Every slot, because an id may be in any of them. */
export const ID_SLOTS = Array.from({ length: SLOTS }, (_, i) => idTable.at(String(i)));

/** Rounded up, because smaller segments would need more slots than there are. */
function segmentSize(maxMessages: number): number {
  return Math.ceil(maxMessages / SEGMENTS);
}

/** The ids of one channel as one commit sees and changes them. */
export class Ids {
  private readonly changed = new Map<number, Map<string, number>>();
  private readonly step: number;

  constructor(
    private readonly view: View,
    private readonly born: number,
    maxMessages: number,
  ) {
    this.step = segmentSize(maxMessages);
  }

  /** The sequence of the message with this id; undefined if the channel does not remember it. */
  sequenceOf(id: string): number | undefined {
    for (const { ids } of this.slots()) {
      const sequence = ids.get(id);
      if (sequence !== undefined) return sequence;
    }
    return undefined;
  }

  /** The id of the message with this sequence. */
  idOf(sequence: number): string | undefined {
    for (const { ids } of this.slots()) for (const [id, one] of ids) if (one === sequence) return id;
    return undefined;
  }

  note(id: string, sequence: number, seq: number): void {
    const segment = Math.floor(seq / this.step);
    let ids = this.changed.get(segment);
    if (ids === undefined) {
      const slot = this.stored(slotKey(segment));
      ids = new Map(slot?.segment === segment ? slot.ids : []);
      this.changed.set(segment, ids);
    }
    ids.set(id, sequence);
  }

  changes(): Change[] {
    return [...this.changed].map(([segment, ids]) => put(idTable, slotKey(segment), { born: this.born, segment, ids }));
  }

  private *slots(): Generator<Pick<IdSlot, "ids">> {
    const replaced = new Set<string>();
    for (const [segment, ids] of this.changed) {
      replaced.add(slotKey(segment));
      yield { ids };
    }
    for (const { key } of ID_SLOTS) {
      const slot = replaced.has(key) ? undefined : this.stored(key);
      if (slot !== undefined) yield slot;
    }
  }

  /** Ignores slots that an earlier channel of this id has left. */
  private stored(key: string): IdSlot | undefined {
    const slot = this.view.get(idTable, key);
    return slot?.born === this.born ? slot : undefined;
  }
}
