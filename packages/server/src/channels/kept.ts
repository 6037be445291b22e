/**
 * What is kept of a channel: where its log is cut, and the ids by which a repeated message is known. Both go by segments, a
 * twentieth of the messages kept: a mark ends one, a slot holds the ids of one. Pure; the publish rule calls it.
 *
 * What must stay true: at least what was asked for is kept and at most a segment more; an id is known as long as its message
 * is kept; a message writes one slot, not all of them.
 */
import type { Head, Message } from "../engine/contract.ts";
import { type Change, put } from "../engine/draft.ts";
import type { View } from "../engine/keeper.ts";
import { type IdSlot, idTable, type Mark, marksTable } from "./state.ts";

const SEGMENTS = 20;
/** The segments kept, the one that is begun, and one that a cut may just have left. */
const SLOTS = SEGMENTS + 3;

const slotKey = (segment: number): string => String(segment % SLOTS);

/** Every slot, for whoever looks for an id. */
export const ID_SLOTS = Array.from({ length: SLOTS }, (_, i) => idTable.at(String(i)));

function segmentSize(maxMessages: number): number {
  return Math.max(1, Math.floor(maxMessages / SEGMENTS));
}

/** The changes that follow from appending `messages` after `head`; `marks` are those of the same log. */
export function cutAfter(
  head: Head,
  marks: readonly Mark[],
  messages: readonly Message[],
  maxMessages: number,
): readonly Change[] {
  const step = segmentSize(maxMessages);
  let all: Mark[] | undefined;
  let { bytes } = head;
  let { seq } = head.last;
  for (const { payload } of messages) {
    seq++;
    bytes += payload.length;
    if (seq % step !== 0) continue;
    all ??= [...marks];
    all.push({ position: { generation: head.generation, seq }, bytes });
  }
  if (all === undefined) return [];
  const at = all.findLastIndex(({ position }) => seq - position.seq >= maxMessages);
  const changes: Change[] = [put(marksTable, "", all.slice(at + 1))];
  const mark = all[at];
  if (mark !== undefined) changes.push({ op: "trim", through: mark.position, bytes: mark.bytes });
  return changes;
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

  /** The sequence of the message that had this id; undefined when there is none that is remembered. */
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

  /** What an earlier channel of this name has left is none of ours. */
  private stored(key: string): IdSlot | undefined {
    const slot = this.view.get(idTable, key);
    return slot?.born === this.born ? slot : undefined;
  }
}
