/** The circuit breaker: its states, what leads from one to another, and that it is only in memory. */
import { expect, it } from "vitest";
import { describeOnEngines } from "../e2e/server.ts";
import { inline } from "./api.ts";
import type { Call, Fate } from "./core.ts";
import { type Stage, stage, subscribers } from "./stage.ts";

const RECOVERY_MS = 60_000;
const open = { count: 2, successes: 0, failures: 0, mode: "circuit-open" };

const failing = ({ method }: Call): Fate | undefined => (method === "deliver" ? "refused" : undefined);
const well = () => undefined;

async function withTwo(on: Stage): Promise<string[]> {
  await on.api.create("s");
  return subscribers(on.api, "s", 2);
}

/** Five publishes whose copies all fail. */
async function opened(on: Stage): Promise<void> {
  on.core.fate = failing;
  for (let i = 0; i < 5; i++) expect(await on.api.published("s", "0")).toEqual(inline(2, 0, 2));
}

/** What was owed has been delivered. */
const settled = (on: Stage) =>
  on.until(async () => {
    const registry = (await on.registry("s"))!;
    expect(registry.lagging).toEqual([]);
    const { headers } = await on.api.call("HEAD", "/stream/s");
    for (const id of registry.subscribers) {
      const { length } = await on.api.messages(id);
      expect(length).toBe(Number(headers.get("stream-next-offset")!.split("_")[1]));
    }
  }, 1_000);

describeOnEngines("Circuit breaker", (engine) => {
  it("Closed (default): inline fan-out proceeds normally", async () => {
    const on = await stage(engine);
    await withTwo(on);
    for (let i = 0; i < 10; i++) expect(await on.api.published("s", "1")).toEqual(inline(2));
  });

  it("Open: a publish does not wait, the source write still succeeds, and the copies follow", async () => {
    const on = await stage(engine);
    const sessions = await withTwo(on);
    await opened(on);
    for (let i = 0; i < 3; i++) expect(await on.api.published("s", "1")).toEqual(open);
    expect((await on.api.call("GET", "/stream/s?offset=-1")).body).toEqual([0, 0, 0, 0, 0, 1, 1, 1]);
    on.core.fate = well;
    await settled(on);
    for (const session of sessions) expect(await on.api.messages(session)).toEqual([0, 0, 0, 0, 0, 1, 1, 1]);
  });

  it("Half-open: one fan-out is allowed, to see whether it works", async () => {
    const on = await stage(engine);
    await withTwo(on);
    await opened(on);
    on.pass(RECOVERY_MS);
    on.core.fate = ({ method }) => (method === "deliver" ? "stuck" : undefined);
    on.core.posts();
    const test = on.api.published("s", "1");
    await on.until(() => expect(on.core.pending).toBeGreaterThan(0), 0);
    expect(await on.api.published("s", "2")).toEqual(open);
    expect(await on.api.published("s", "3")).toEqual(open);
    on.core.fate = well;
    on.core.release();
    expect(await test).toMatchObject({ mode: "inline", count: 2 });
    expect(await on.api.published("s", "4")).toEqual(inline(2));
  });

  it("Closed -> Open: after 5 fan-outs with failures in a row, and not before", async () => {
    const on = await stage(engine);
    await withTwo(on);
    on.core.fate = failing;
    for (let i = 0; i < 5; i++) expect((await on.api.published("s", "1")).mode).toBe("inline");
    expect(await on.api.published("s", "1")).toEqual(open);
  });

  it("Open -> Half-open: 60 s after the last failure, and not before", async () => {
    const on = await stage(engine);
    await withTwo(on);
    await opened(on);
    on.core.fate = well;
    on.pass(RECOVERY_MS - 1);
    expect(await on.api.published("s", "1")).toEqual(open);
    on.pass(1);
    expect((await on.api.published("s", "1")).mode).toBe("inline");
  });

  it("Half-open -> Closed: when the test has any success", async () => {
    const on = await stage(engine);
    const [alice, bob] = await withTwo(on);
    await opened(on);
    // What is tried by itself before the test comes fails too, so that nobody is known to lag by then.
    const isTest = ({ copy }: Call) => copy?.logged.some(({ payload }) => payload[0] === "1".charCodeAt(0));
    on.core.fate = (call) => (call.id === bob || !isTest(call) ? failing(call) : undefined);
    on.pass(RECOVERY_MS);
    expect(await on.api.published("s", "1")).toMatchObject({ mode: "inline", count: 2, successes: 1, failures: 1 });
    // Closed: every publish waits again. One failure more does not open it.
    expect(await on.api.published("s", "1")).toMatchObject({ mode: "inline", successes: 1 });
    expect(await on.api.published("s", "1")).toMatchObject({ mode: "inline", successes: 1 });
    expect(await on.api.messages(alice!)).toEqual([0, 0, 0, 0, 0, 1, 1, 1]);
  });

  it("Half-open -> Open: when the test has only failures, for another 60 s", async () => {
    const on = await stage(engine);
    await withTwo(on);
    await opened(on);
    on.pass(RECOVERY_MS);
    expect(await on.api.published("s", "1")).toMatchObject({ mode: "inline", successes: 0 });
    expect(await on.api.published("s", "1")).toEqual(open);
    on.pass(RECOVERY_MS - 1);
    expect(await on.api.published("s", "1")).toEqual(open);
    on.pass(1);
    on.core.fate = well;
    expect((await on.api.published("s", "1")).mode).toBe("inline");
  });

  it("Any -> Closed: a fan-out with zero failures starts the count again", async () => {
    const on = await stage(engine);
    await withTwo(on);
    for (let round = 0; round < 3; round++) {
      on.core.fate = failing;
      for (let i = 0; i < 4; i++) expect(await on.api.published("s", "1")).toEqual(inline(2, 0, 2));
      on.core.fate = well;
      expect((await on.api.published("s", "1")).mode).toBe("inline");
    }
  });

  it("is in memory: a restart resets it to closed", async () => {
    const on = await stage(engine);
    await withTwo(on);
    await opened(on);
    expect(await on.api.published("s", "1")).toEqual(open);
    await on.restart();
    on.core.fate = well;
    expect((await on.api.published("s", "1")).mode).toBe("inline");
    await settled(on);
  });

  it("each stream has its own", async () => {
    const on = await stage(engine);
    await withTwo(on);
    await on.api.create("other");
    await subscribers(on.api, "other", 1);
    on.core.fate = (call) => (call.copy?.stream === "s" ? "refused" : undefined);
    for (let i = 0; i < 5; i++) await on.api.published("s", "1");
    expect(await on.api.published("s", "1")).toEqual(open);
    expect(await on.api.published("other", "1")).toEqual(inline(1));
  });
});
