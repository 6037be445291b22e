/** The circuit breaker in front of real copies. `sessions/breaker.test.ts` has its states; `fault-rows-breaker` kills it in each of them. */
import { describe, expect, it } from "vitest";
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

describe("Circuit breaker", () => {
  it("a publish does not wait for copies while the circuit is open, and the copies follow", async () => {
    const on = await stage("memory");
    const sessions = await withTwo(on);
    await opened(on);
    for (let i = 0; i < 3; i++) expect(await on.api.published("s", "1")).toEqual(open);
    expect((await on.api.call("GET", "/stream/s?offset=-1")).body).toEqual([0, 0, 0, 0, 0, 1, 1, 1]);
    on.core.fate = well;
    await settled(on);
    for (const session of sessions) expect(await on.api.messages(session)).toEqual([0, 0, 0, 0, 0, 1, 1, 1]);
  });

  it("a half-open circuit lets one publish wait for its copies, and the others do not wait", async () => {
    const on = await stage("memory");
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

  it("a restart closes the circuit, because it is only in memory", async () => {
    const on = await stage("memory");
    await withTwo(on);
    await opened(on);
    expect(await on.api.published("s", "1")).toEqual(open);
    await on.restart();
    on.core.fate = well;
    expect((await on.api.published("s", "1")).mode).toBe("inline");
    await settled(on);
  });

  it("each stream has a circuit of its own", async () => {
    const on = await stage("memory");
    await withTwo(on);
    await on.api.create("other");
    await subscribers(on.api, "other", 1);
    on.core.fate = (call) => (call.copy?.stream === "s" ? "refused" : undefined);
    for (let i = 0; i < 5; i++) await on.api.published("s", "1");
    expect(await on.api.published("s", "1")).toEqual(open);
    expect(await on.api.published("other", "1")).toEqual(inline(1));
  });
});
