/** Wake subscriptions of a service of two nodes: made on one, and woken by what is appended on the other. */
import { createServer, type RunningServer } from "@sluice/server";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually, sleep } from "../support/eventually.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { receiver } from "./receiver.ts";

const JSON_TYPE = { "content-type": "application/json" };

describe("Wake subscriptions on two nodes", () => {
  let nodes: RunningServer[] = [];
  let reports: string[] = [];

  beforeEach(async () => {
    reports = [];
    const report = (what: string, fault: unknown) => void reports.push(`${what}: ${fault}`);
    const options = { port: 0, redis: sharedRedis(), drainMs: 2_000, internal: { wake: { discoverMs: 100 } }, report };
    nodes = [await createServer(options), await createServer(options)];
  });
  afterEach(async () => {
    await Promise.all(nodes.map((node) => node.close()));
    expect(reports).toEqual([]);
  });

  async function call(node: number, method: string, path: string, body?: unknown): Promise<Response> {
    const url = `${nodes[node]!.url}/v1/stream/${path}`;
    const response = await fetch(url, { method, headers: JSON_TYPE, ...(body ? { body: JSON.stringify(body) } : {}) });
    expect(response.status, `${method} ${path}`).toBeLessThan(300);
    return response;
  }

  test("are found by the other node, and each wake is told once", async () => {
    const hook = await receiver();
    hook.answer = { done: true };
    await call(0, "PUT", "__ds/subscriptions/s", {
      type: "webhook",
      pattern: "events/*",
      streams: ["named"],
      webhook: { url: hook.url },
    });
    await call(1, "PUT", "events/a", { n: 0 });
    await eventually(() => expect(hook.received.length).toBe(1));
    for (let n = 1; n <= 6; n++) {
      await call(n % 2, "POST", "events/a", { n });
      await eventually(() => expect(hook.received.length).toBe(n + 1));
    }
    // A second telling would come by now.
    await sleep(500);
    const generations = hook.received.map(({ generation }) => generation);
    expect(generations).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  test("learn on the other node of streams that were linked by name later", async () => {
    const hook = await receiver();
    hook.answer = { done: true };
    await call(0, "PUT", "__ds/subscriptions/s", { type: "webhook", streams: ["first"], webhook: { url: hook.url } });
    await call(1, "PUT", "first", { n: 0 });
    await eventually(() => expect(hook.received.length).toBe(1));
    await call(0, "POST", "__ds/subscriptions/s/streams", { streams: ["second"] });
    await call(1, "PUT", "second", { n: 1 });
    await eventually(() => expect(hook.received.length).toBe(2));
  });

  test("that one node deleted are nobody's any more", async () => {
    const hook = await receiver();
    hook.answer = { done: true };
    await call(0, "PUT", "__ds/subscriptions/s", { type: "webhook", pattern: "events/*", webhook: { url: hook.url } });
    await call(1, "PUT", "events/a", { n: 0 });
    await eventually(() => expect(hook.received.length).toBe(1));
    await call(0, "DELETE", "__ds/subscriptions/s");
    await call(1, "POST", "events/a", { n: 1 });
    await sleep(500);
    expect(hook.received.length).toBe(1);
  });
});
