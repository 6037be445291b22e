/**
 * Thousands of malformed requests, and what is no request at all, against one running server: every complete one is
 * answered, with a refusal that says what is wrong and never with a fault; nothing hangs, nothing is left behind. The seed
 * is in the failure; SLUICE_FUZZ_SEED runs it again.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { isAmongShards } from "../../packages/server/src/core/shard-path.ts";
import { SESSIONS } from "./fuzz/requests.ts";
import { garbageStorm, requestStorm, type StormSize } from "./fuzz/storm.ts";
import { RawConnection } from "./raw-http.ts";
import { append, appended, createdStream, eventually, type Fixture, nobodyIsLeft, serverForTest } from "./server.ts";
import { SseClient } from "./sse-client.ts";

const SEED = Number(process.env.SLUICE_FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31));
const SCALE = process.env.SLUICE_DEEP ? 80 : 1;
const REQUESTS: StormSize = { batches: 45 * SCALE, batch: 24 };
const GARBAGE: StormSize = { batches: 12 * SCALE, batch: 16 };
const FEW: StormSize = { batches: 25 * SCALE, batch: 24 };
const TEST_MS = 120_000 * SCALE;

/** Small waits, so that live reads end by themselves; long enough that nothing else is timed out. */
const WAITS = {
  longPollMs: 5,
  tail: { sseMs: 20 },
  http: { requestMs: 60_000 },
  internal: { live: { lifetimeMs: 20 } },
};

async function storm(fixture: Fixture, seed: number, requests: StormSize, garbage: StormSize): Promise<number> {
  // The storm before may have left a fork of it that is over but not swept yet.
  await eventually(async () => void (await createdStream(fixture, "known1", "text/plain")));
  for (const path of FOLLOWED) await eventually(() => followedStream(fixture, path));
  const sent = await requestStorm(fixture.port, seed, requests);
  const thrown = await garbageStorm(fixture.port, seed, garbage);
  await removeEverything(fixture);
  await nobodyIsLeft(fixture);
  return sent + thrown;
}

/** A session that no request of a storm names, and the streams that it follows, because random requests alone seldom get that far. */
const FOLLOWER = "00000000-0000-4000-8000-0000000000ff";
const FOLLOWED = Array.from({ length: 15 }, (_, i) => `known${i + 2}`);

async function followedStream(fixture: Fixture, streamId: string): Promise<void> {
  await createdStream(fixture, streamId, "application/json");
  const body = JSON.stringify({ sessionId: FOLLOWER, streamId });
  expect((await append(`${fixture.url}/v1/subscribe`, "application/json", body)).status).toBe(200);
}

/** All streams and sessions of all projects that a storm may have made. `fetch` would tidy up paths like `..` first. */
async function removeEverything({ url, port }: Fixture): Promise<void> {
  for (const id of [FOLLOWER, ...SESSIONS]) {
    expect([204, 404]).toContain((await fetch(`${url}/v1/session/${id}`, { method: "DELETE" })).status);
  }
  const connection = await RawConnection.open(port);
  for (const project of ["default", "one", "two", "__proto__", "constructor", "__ds"]) {
    for (;;) {
      const listed = await fetch(`${url}/v1/${project}/streams?limit=1000`);
      const { streams } = (await listed.json()) as { streams: { path: string }[] };
      if (streams.length === 0) break;
      for (const { path } of streams) {
        // Shards go with their topic, and in no other way.
        if (isAmongShards(path)) continue;
        connection.send(`DELETE /v1/${project}/stream/${encodeURIComponent(path)} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
        // A stream with a short life may be over since it was listed.
        const isGone = expect.toBeOneOf([204, 404]);
        expect(await connection.answer("DELETE"), path).toMatchObject({ status: isGone });
      }
    }
  }
  connection.destroy();
}

async function stillWorks(fixture: Fixture): Promise<void> {
  const url = await createdStream(fixture, "after-the-storm", "application/json");
  await appended(url, "application/json", '["still", "here"]');
  expect(await (await fetch(url)).json()).toEqual(["still", "here"]);
  const sse = await SseClient.open(`${url}?offset=-1&live=sse`);
  expect(await sse.untilEnded()).toBe("end");
  expect(sse.text).toBe('["still","here"]');
  expect((await fetch(url, { method: "DELETE" })).status).toBe(204);
  await nobodyIsLeft(fixture);
}

/** Some of the storm gets as far as a session's stream. */
async function copiesOf({ server }: Fixture): Promise<number> {
  return Number(/outcome="copied"[^}]*} (\d+)/.exec(await server.metrics())?.[1]);
}

function heapAfterCollection(): number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (let i = 0; i < 4; i++) collect();
  return process.memoryUsage().heapUsed;
}

function openSockets(): number {
  return process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;
}

describe("a storm of malformed requests", () => {
  it("is answered request by request, and leaves the server as it was", { timeout: TEST_MS }, async () => {
    const fixture = await serverForTest("memory", WAITS);
    let total = await storm(fixture, SEED, REQUESTS, GARBAGE);
    await stillWorks(fixture);
    expect(await copiesOf(fixture)).toBeGreaterThan(0);
    const heapBefore = heapAfterCollection();
    total += await storm(fixture, SEED, REQUESTS, GARBAGE);
    await stillWorks(fixture);
    // Looked at as late as before, because timers that end by themselves hold some memory right after a storm.
    const heapAfter = heapAfterCollection();
    expect(total).toBeGreaterThan(2_400);
    expect(heapAfter - heapBefore, "bytes of heap more after the same storm again").toBeLessThan(1.5 * 1024 * 1024);
    await eventually(() => expect(openSockets()).toBeLessThan(20));
  });

  // The requests are refused before they reach an engine, or are sound; the deep run shows Redis too.
  const stores = process.env.SLUICE_DEEP ? (["disk", "redis"] as const) : (["disk"] as const);
  it.each(stores)("does no harm on %s either", { timeout: TEST_MS }, async (engine) => {
    const fixture = await serverForTest(engine, WAITS);
    expect(await storm(fixture, SEED + 1, FEW, { batches: 10, batch: 16 })).toBeGreaterThan(500);
    await stillWorks(fixture);
  });
});
