/** What a node that waits for a replica shows of another node's commits while no replica has them. */
import { ZERO } from "@sluice/protocol";
import { expect, it } from "vitest";
import type { Owner } from "../../packages/server/src/engine/contract.ts";
import { a, opened, single } from "./redis-fixture.ts";
import { append, put } from "./suite/fixture.ts";

it("a commit that no replica has is shown by no operation of a node that waits for one", async () => {
  const { url } = await single();
  const hasty = await opened({ urls: [url] });
  const { nextGeneration: generation } = await hasty.load(a, []);
  await hasty.commit(a, { rev: 0 }, [
    { op: "begin", generation, at: { generation, seq: 0 } },
    append("unsafe"),
    put("x", "unsafe"),
  ]);
  const { rev } = await hasty.load(a, []);
  const careful = await opened({ urls: [url] }, { waitReplicas: 1, deadlineMs: 300 });
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
});
