/**
 * Computes the head after a commit's effects: message numbers and byte sums, as a pure function.
 *
 * Invariants: engines call it before they change anything, so a defective commit is rejected whole.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { type Effect, type Head, type Message, NO_HEAD } from "./contract.ts";

/** The head after all of these effects. Throws on effects that no correct caller sends. */
export function headAfter(head: Head, effects: readonly Effect[]): Head {
  let next = head;
  for (let i = 0; i < effects.length; i++) {
    const effect = effects[i]!;
    if (effect.op === "destroy" && i < effects.length - 1)
      throw new Error("destroy must be the last effect of its commit");
    next = headStep(next, effect);
  }
  return next;
}

/** The head after one effect. Effects on rows do not change it. */
export function headStep(head: Head, effect: Effect): Head {
  switch (effect.op) {
    case "begin":
      return begun(head, effect.generation, effect.at);
    case "append":
      return appended(head, effect.messages);
    case "trim":
      return trimmed(head, effect.through, effect.bytes);
    case "destroy":
      return NO_HEAD;
    default:
      return head;
  }
}

function begun(head: Head, generation: number, at: Position): Head {
  if (generation <= head.generation || generation < at.generation) {
    throw new Error(`generation ${generation} cannot follow ${head.generation} at ${at.generation}_${at.seq}`);
  }
  return { generation, last: at, bytes: 0, at: 0, start: at, startBytes: 0 };
}

function appended(head: Head, messages: readonly Message[]): Head {
  const newest = messages.at(-1);
  if (newest === undefined) return head;
  // Without a generation of its own, a log would reuse offsets after a destroy.
  if (head.generation === 0) throw new Error("append to a log that was never begun");
  let { bytes } = head;
  for (const { payload } of messages) bytes += payload.length;
  const last = { generation: head.generation, seq: head.last.seq + messages.length };
  // Written out, because a spread costs several times as much and this runs twice per append.
  const { generation, start, startBytes } = head;
  return { generation, last, bytes, at: newest.at, start, startBytes };
}

/** A trim of an already trimmed range changes nothing. */
function trimmed(head: Head, through: Position, bytes: number): Head {
  if (comparePositions(through, head.start) <= 0) return head;
  if (comparePositions(through, head.last) > 0) throw new Error("trim beyond the last message");
  return { ...head, start: through, startBytes: bytes };
}
