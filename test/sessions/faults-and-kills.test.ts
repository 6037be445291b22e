/** Fan-out, sessions and cleanup with faults, through a server process that is killed in the middle of them, on every engine that keeps data. */
import { expect } from "vitest";
import { describeOnDisk } from "../e2e/server.ts";
import { inline } from "./api.ts";
import { deferred, followed, have, logOf } from "./fault-rows.ts";
import { BREAKER_ROWS } from "./fault-rows-breaker.ts";
import { CLEANUP_ROWS } from "./fault-rows-cleanup.ts";
import { FANOUT_ROWS } from "./fault-rows-fanout.ts";
import { POINT_ROWS } from "./fault-rows-points.ts";
import { SESSION_ROWS } from "./fault-rows-sessions.ts";
import { acrossKills, type Chapter, faultRow } from "./faulty-process.ts";
import { subscribers } from "./stage.ts";

const HALF_HOUR_MS = 1_800_000;

const DEFAULT_ROWS = [
  faultRow(
    "a session lives for 1,800 seconds by default, and the expiry that the client was told survives a kill",
    async (on) => {
      const before = Date.now();
      const { sessions } = await followed(on, "ttl", 1);
      const { expiresAt } = (await on.api.session(sessions[0]!)).body;
      // The engine's clock may be another machine's, and differ a little.
      expect(expiresAt).toBeGreaterThan(before + HALF_HOUR_MS - 1_000);
      expect(expiresAt).toBeLessThan(Date.now() + HALF_HOUR_MS + 1_000);
      return { session: sessions[0]!, expiresAt };
    },
    async ({ api }, { session, expiresAt }) => expect((await api.session(session)).body.expiresAt).toBe(expiresAt),
  ),
  faultRow(
    "copies to 200 sessions are inline and to 201 queued, 50 per queue message, and a kill while they are queued loses none",
    async (on) => {
      const { stream, sessions } = await followed(on, "crowd", 200);
      expect(await on.api.published(stream, "0")).toEqual(inline(200));
      const last = await subscribers(on.api, stream, 1);
      await on.server.copies(stream, "stuck");
      expect(await on.api.published(stream, "1")).toEqual(deferred(201, "queued"));
      // Two messages are worked on at a time.
      await on.server.underWay(stream, 100);
      expect((await on.server.seen(stream)).sent).toEqual([[50, 50, 50, 50, 1]]);
      return { stream, sessions, last };
    },
    async (on, { stream, sessions, last }) => {
      await have(on, sessions, [0, 1]);
      await have(on, last, [1]);
      expect(await logOf(on, stream)).toEqual([0, 1]);
    },
  ),
];

/** The clock stands still, so a message that waited for the pace would wait for ever. */
const UNPACED = { queuePaceMs: 0 };

const CHAPTERS: readonly Chapter[] = [
  {
    name: "with a queue for more than three",
    // A queue message for each session, so that many of them are not many sessions.
    fanout: { queueThreshold: 3 },
    internal: { queueBatch: 1, queueConsumers: 200, ...UNPACED },
    rows: [...POINT_ROWS, ...BREAKER_ROWS, ...FANOUT_ROWS, ...SESSION_ROWS],
  },
  { name: "with the constants as they are", fanout: {}, internal: UNPACED, rows: [...DEFAULT_ROWS, ...CLEANUP_ROWS] },
];

describeOnDisk("With faults, through a server process", (engine) => acrossKills(engine, CHAPTERS));
