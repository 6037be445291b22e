/**
 * The leader of a group, as a state machine: it tracks members and streams, gives streams or messages to borrowers, takes their
 * progress and asks for it to be stored. The leader process drives it with messages, streams, outcomes of commits, and the time.
 *
 * Invariants: a step depends on nothing but the state, the event and the time, and changes nothing but the state, in place,
 * because a copy of 100,000 streams would cost more than any event. What is confirmed to a borrower is durable.
 */
import type { GroupTimers } from "./defaults.ts";
import type { Leader, LeaderEffect, LeaderEvent } from "./leader-state.ts";
import { QueueTurn } from "./queue-turn.ts";
import { ShareTurn } from "./share-turn.ts";

/** How far the leases that run out are looked for; a tick comes more often. */
const LOOK_AHEAD_MS = 1_000;

export function leaderStep(
  leader: Leader,
  event: LeaderEvent,
  now: number,
  timers: GroupTimers,
): readonly LeaderEffect[] {
  if (leader.isReleased) return [];
  const queue = leader.queue === undefined ? undefined : new QueueTurn(leader, now, timers);
  const step = queue ?? new ShareTurn(leader, now, timers);
  switch (event.type) {
    case "told":
      step.told(event.from, event.message);
      break;
    case "found":
      for (const found of event.streams) step.found(found);
      break;
    case "lost":
      for (const path of event.paths) step.lost(path);
      break;
    case "read":
      queue?.read(event.path, event.positions, event.isDry);
      break;
    case "trimmed":
      queue?.trimmed(event.path, event.through);
      break;
    case "woken":
      queue?.woken(event.path);
      break;
    case "buried":
      queue?.buried(event.path, event.position);
      break;
    case "stored":
      step.stored();
      break;
    case "store_failed":
      step.storeFailed();
      break;
    case "tick":
      step.tick();
  }
  return step.finished();
}

/** When the leader needs its next tick. */
export function leaderDueMs({ tickAtMs, reassignAtMs, storeAtMs, storing, queue }: Leader): number {
  const storeMs = storing === undefined ? storeAtMs : undefined;
  const wheelMs = queue?.wheel.nextMs(LOOK_AHEAD_MS);
  return Math.min(tickAtMs, reassignAtMs ?? tickAtMs, storeMs ?? tickAtMs, wheelMs ?? tickAtMs);
}
