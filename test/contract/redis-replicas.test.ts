/** A node that waits for a replica, on a Redis without one. */
import { ZERO } from "@sluice/protocol";
import { expect, it, onTestFinished } from "vitest";
import type { Owner } from "../../packages/server/src/engine/contract.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { a, opened, single } from "./redis-fixture.ts";
import { append, put } from "./suite/fixture.ts";

/** Long enough for a busy machine to open the engine. */
const LIMITS = { waitReplicas: 1, deadlineMs: 500 };

it("a commit that no replica has is shown by no operation of a node that waits for one, and its operator is warned", async () => {
  const { url } = await single();
  const hasty = await opened({ urls: [url] });
  const { nextGeneration: generation } = await hasty.load(a, []);
  await hasty.commit(a, { rev: 0 }, [
    { op: "begin", generation, at: { generation, seq: 0 } },
    append("unsafe"),
    put("x", "unsafe"),
  ]);
  const { rev } = await hasty.load(a, []);
  const told: string[] = [];
  const warn = (text: string) => void told.push(text);
  const careful = await openRedis({ urls: [url], world: realWorld(), limits: LIMITS, warn });
  onTestFinished(() => careful.close());
  expect(told.join()).toMatch(/0 of the 1 replicas/);
  const stranger: Owner = { kind: "owner", epoch: 1, nonce: "none" };
  const operations: [string, () => unknown][] = [
    ["read", () => careful.read(a, ZERO, 1_000)],
    ["load", () => careful.load(a, [])],
    ["rows", () => careful.rows(a, "t", "", 10)],
    ["conflict", () => careful.commit(a, { rev: 0 }, [append("lost")])],
    ["check", () => careful.commit(a, { rev }, [])],
    ["fence", () => careful.commit(a, { rev, owner: stranger }, [append("lost")])],
    ["claim", () => careful.claim(a, "n", 1_000)],
  ];
  const outcomes = await Promise.all(
    operations.map(async ([name, run]) => [name, await Promise.resolve(run()).catch(({ code }) => code)]),
  );
  expect(outcomes).toEqual(operations.map(([name]) => [name, "unavailable"]));
  expect(careful.health()?.message).toMatch(/replicas/);
});
