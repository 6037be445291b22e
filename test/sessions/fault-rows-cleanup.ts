/**
 * The rows of the scheduled clean-up, with its constants as they are. What is stored goes by a time that the test moves; it begins two
 * hours ago, so that nobody else's session is over.
 */
import { expect } from "vitest";
import { eventually } from "../support/eventually.ts";
import { inline } from "./api.ts";
import { followed } from "./fault-rows.ts";
import { faultRow, type On } from "./faulty-process.ts";
import { uuid } from "./stage.ts";

const FIVE_MINUTES_MS = 300_000;
const HALF_HOUR_MS = 1_800_000;
const TWO_HOURS_MS = 7_200_000;
const TENTH = 1.1;

/** The clean-up of what was used last at this moment: up to a tenth more is given, and it comes at full intervals. */
const cleanedUpAt = (usedMs: number) => Math.ceil((usedMs + HALF_HOUR_MS * TENTH) / FIVE_MINUTES_MS) * FIVE_MINUTES_MS;

async function over({ api }: On, sessions: readonly string[], streams: readonly string[]): Promise<void> {
  for (const session of sessions) {
    expect((await api.session(session)).status).toBe(404);
    expect((await api.inbox(session)).status).toBe(404);
  }
  for (const stream of streams) expect(await api.published(stream, "0")).toEqual(inline(0));
}

export const CLEANUP_ROWS = [
  faultRow(
    "Scheduled cleanup: every 5 minutes, expired sessions in groups of 10; cleanup: cleanup_batch, session: session_expire; a kill brings none back",
    async (on) => {
      const { server } = on;
      const then = await server.engineTime((await server.engineTime()) - TWO_HOURS_MS);
      // Nothing else is due at this time; what was before is done.
      await server.swept();
      const before = (await server.points("cleanup_batch")).length;
      const { stream, sessions } = await followed(on, "ended", 25);
      expect((await on.api.session(sessions[0]!)).body.expiresAt).toBe(then + HALF_HOUR_MS);
      const expired = async () =>
        (await server.points(...sessions)).filter(({ blobs }) => blobs[2] === "session_expire");
      await server.engineTime(cleanedUpAt(then) - 1);
      await server.swept();
      expect(await expired()).toEqual([]);
      await server.engineTime(cleanedUpAt(then));
      await eventually(async () => expect(await expired()).toHaveLength(25), 20_000);
      await server.swept();
      const point = (session: string) => ({
        blobs: ["", session, "session_expire", ""],
        doubles: [1, 0],
        indexes: ["session"],
      });
      expect((await expired()).sort((a, b) => (a.blobs[1] < b.blobs[1] ? -1 : 1))).toEqual(sessions.map(point));
      const batches = (await server.points("cleanup_batch")).slice(before);
      const sizes = batches.map(({ doubles }) => doubles[0]);
      // One shard has all of them where there is one; where there are many, each has its own.
      if (batches.length <= 3) expect(sizes).toEqual([10, 10, 5]);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(10);
      expect(sizes.reduce((sum, size) => sum + size)).toBe(25);
      // Sessions, how long it took, and again sessions, subscriptions removed, and what failed.
      const batch = (n: number) => ({
        blobs: ["", "", "cleanup_batch", ""],
        doubles: [n, 0, n, n, 0],
        indexes: ["cleanup"],
      });
      expect(batches).toEqual(sizes.map(batch));
      await server.engineTime();
      return { stream, sessions };
    },
    (on, { stream, sessions }) => over(on, sessions, [stream]),
  ),
  faultRow(
    "Scheduled cleanup: a session is removed from its registries in groups of 20; killed while the first group is, the next process ends it",
    async (on) => {
      const { server, api } = on;
      const then = await server.engineTime((await server.engineTime()) - TWO_HOURS_MS);
      const streams = Array.from({ length: 25 }, (_, i) => `left-${i}`);
      const session = uuid();
      await Promise.all(streams.map((stream) => api.create(stream)));
      for (const stream of streams) await api.subscribed(session, stream);
      const other = uuid();
      await server.rules("left-0", { method: "removeSubscribers", sessions: [session], fate: "stuck" });
      await server.engineTime(cleanedUpAt(then));
      await eventually(async () => expect(await server.pending(session)).toBe(20), 20_000);
      expect((await api.session(session)).status).toBe(404);
      await server.engineTime();
      await api.subscribed(other, "left-24");
      return { session, streams, other };
    },
    async (on, { session, streams, other }) => {
      await eventually(async () => {
        expect((await on.server.points(session)).map(({ blobs }) => blobs[2])).toContain("session_expire");
      }, 20_000);
      await over(on, [session], streams.slice(0, -1));
      // Who else follows still does.
      expect(await on.api.published("left-24", "1")).toEqual(inline(1));
      expect(await on.api.messages(other)).toEqual([1]);
      const batches = await on.server.points("cleanup_batch");
      expect(batches.map(({ doubles }) => doubles.slice(2))).toContainEqual([1, streams.length, 0]);
    },
  ),
];
