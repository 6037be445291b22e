/** Counters of Live: plain numbers that the service, the hub and the rolls raise. `metrics.ts` reads them. */
import { SECONDS, Tally } from "../core/tally.ts";
import type { ByeCode } from "./events.ts";

export class LiveMeter {
  opened = 0;
  /** Connections of sessions that had one before. */
  reconnects = 0;
  /** From the publish of a message to its push, once per page and wire. */
  readonly pushSeconds = new Tally(SECONDS);
  /** By the code of the `bye`. A client that left by itself is not counted. */
  readonly byes: Record<ByeCode, number> = {
    displaced: 0,
    "session-not-found": 0,
    "token-expired": 0,
    draining: 0,
    time: 0,
    "slow-reader": 0,
    unavailable: 0,
  };
  parked = 0;
  readonly heartbeats = { moved: 0, idle: 0, refused: 0 };
  pointersMoved = 0;
  readonly removals = { inline: 0, queued: 0, reconciled: 0 };
  /** From the end of a stream to the removal of its last subscription. */
  readonly removalSeconds = new Tally(SECONDS);
}
