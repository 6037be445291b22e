/** Many sessions that end in the same minute while publishes go on: the sweep finds all in the index and removes them in batches. */
import { expect, it } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import type { Stage } from "./stage.ts";
import { stage, uuid } from "./stage.ts";

const STREAMS = ["a", "b", "c", "d", "e"];
const STAYING = 5;
const TTL_SECONDS = 600;
const MINUTE = 60_000;

async function subscribeAll({ app }: Stage, sessions: readonly string[]): Promise<void> {
  const { service } = app.sessions;
  for (let i = 0; i < sessions.length; i += 500) {
    const some = sessions.slice(i, i + 500).map((sessionId, n) => {
      const streamId = STREAMS[(i + n) % STREAMS.length]!;
      return service.subscribe("default", { sessionId, streamId, format: "raw", from: undefined }, FULL_ACCESS);
    });
    for (const { kind } of await Promise.all(some)) expect(kind).toBe("joined");
  }
}

/** What the sweep asks the store for: how many entities at a time, and whether it looks at all of them. */
function watch({ engine }: Stage) {
  const asked = { due: [] as number[], listed: 0 };
  // Below what the stage puts around it.
  const inner: Engine = Object.getPrototypeOf(engine);
  const due = inner.due.bind(inner);
  const list = inner.list.bind(inner);
  inner.due = (shard, limit) => {
    asked.due.push(limit);
    return due(shard, limit);
  };
  inner.list = (...args) => {
    asked.listed++;
    return list(...args);
  };
  return { asked, list };
}

/** Several pages of the index, each of which has several batches. */
const COUNTS = process.env.SLUICE_DEEP === "1" ? ([3_000, 1_000] as const) : ([600, 300] as const);

it.each([
  ["memory", COUNTS[0]],
  ["disk", COUNTS[1]],
] as const)(
  "on %s, %i sessions that end in one minute are cleaned up in batches from the index while publishes go on",
  async (engineName, count) => {
    const internal = { session: { cleanupMs: MINUTE }, fanout: { queuePaceMs: 0 } };
    // The clock stands still while they are cleaned up.
    const on = await stage(engineName, { sessionTtlSeconds: TTL_SECONDS, internal });
    const { api, engine, pass, sweep, points } = on;
    for (const stream of STREAMS) await api.create(stream);
    await subscribeAll(on, Array.from({ length: count }, uuid));
    pass(TTL_SECONDS * 1_100 - MINUTE);
    const staying = Array.from({ length: STAYING }, uuid);
    await subscribeAll(on, staying);
    points.length = 0;
    const { asked, list } = watch(on);
    pass(2 * MINUTE);
    let isSwept = false;
    const published: number[] = [];
    const publishing = (async () => {
      while (!isSwept) {
        const n = published.push(published.length);
        for (const stream of STREAMS) expect((await api.publish(stream, String(n))).status).toBe(204);
      }
    })();
    await sweep();
    isSwept = true;
    await publishing;
    const values = (type: string) => points.filter(({ blobs }) => blobs[2] === type).map(({ doubles }) => doubles[0]);
    expect(values("session_expire").length).toBe(count);
    expect(Math.max(...values("cleanup_batch"))).toBeLessThanOrEqual(10);
    expect(asked.listed).toBe(0);
    expect(Math.max(...asked.due)).toBe(100);
    expect(asked.due.length).toBeLessThanOrEqual(engine.shards * (count / 100 + 2));
    const { ids } = await list("default", "session", "", "", count);
    expect([...ids].sort()).toEqual(staying.map((id) => `session:${id}`).sort());
    for (const stream of STREAMS) expect((await on.registry(stream))!.subscribers.length).toBe(1);
    // A session that stays has missed nothing.
    for (const session of staying) {
      await on.until(async () => expect(await api.messages(session)).toEqual(published.map((_, i) => i + 1)));
    }
  },
  180_000,
);
