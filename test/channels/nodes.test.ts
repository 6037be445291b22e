/** A channel of a service of two nodes: published to through both, followed through both, and limited as one. */
import { createServer, type RunningServer } from "@sluice/server";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sharedRedis } from "../support/shared-redis.ts";
import { Reader, readAll } from "./reader.ts";
import { Channel, START } from "./stage.ts";

describe("A channel on two nodes", () => {
  let nodes: RunningServer[] = [];
  let reports: string[] = [];

  beforeEach(() => {
    reports = [];
  });
  afterEach(async () => {
    await Promise.all(nodes.map((node) => node.close()));
    expect(reports).toEqual([]);
  });

  async function open(channel: { rate: number; windowMs?: number }): Promise<(node: number) => Channel> {
    const report = (what: string, fault: unknown) => void reports.push(`${what}: ${fault}`);
    const options = { port: 0, redis: sharedRedis(), drainMs: 2_000, log: false as const, channel, report };
    nodes = [await createServer(options), await createServer(options)];
    return (node) => new Channel(nodes[node]!.url, "shared");
  }

  it("is one channel: what is published on one node is read on the other, once and in order", async () => {
    const on = await open({ rate: 1_000_000 });
    await on(0).takes(START);
    const readers = [await Reader.open(on(0).events), await Reader.open(on(1).events)];
    for (let sequence = 1; sequence <= 40; sequence++) {
      expect((await on(sequence % 2).send("DELTA", sequence)).status).toBe(202);
    }
    await on(1).takes({ phase: "END", sequence: 41 });
    for (const reader of readers) {
      await reader.untilEnded();
      expect(reader.sequences).toEqual(Array.from({ length: 42 }, (_, i) => i));
    }
    expect(readers[0]!.seen).toEqual(readers[1]!.seen);
  });

  it("knows a repetition that comes through the other node", async () => {
    const on = await open({ rate: 1_000_000 });
    await on(0).takes({ ...START, messageId: "s" });
    const [a, b] = [await on(0).send("DELTA", 1, "x", "m"), await on(1).send("DELTA", 1, "x", "m")];
    expect(b).toMatchObject({ status: 202, body: a.body });
    const both = await Promise.all(Array.from({ length: 20 }, (_, i) => on(i % 2).send("DELTA", 2, "y")));
    expect(new Set(both.map(({ body }) => body.offset)).size).toBe(1);
    expect(await on(1).send("DELTA", 2, "z")).toMatchObject({ status: 409, body: { code: "channel-sequence" } });
    expect((await readAll(on(1).events, 2)).sequences).toEqual([0, 1, 2]);
  });

  it("has one rate limit, counted for both nodes together", async () => {
    const on = await open({ rate: 20, windowMs: 60_000 });
    const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => on(i % 2).sendAll([START])));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 202).length).toBe(20);
    expect(statuses.filter((status) => status === 429).length).toBe(80);
    const seconds = answers.filter(({ status }) => status === 429).map(({ headers }) => headers.get("retry-after"));
    for (const one of seconds) expect(Number(one)).toBeGreaterThan(50);
  });

  it("is stopped on one node, and its publisher and a listener learn it on the other", async () => {
    const on = await open({ rate: 1_000 });
    await on(0).takes(START);
    const listener = await fetch(`${on(0).events}?from=now&only=stop`);
    expect((await fetch(`${on(1).address}/stop`, { method: "POST" })).status).toBe(202);
    const { value } = await listener.body!.pipeThrough(new TextDecoderStream()).getReader().read();
    expect(value).toContain("event: stop");
    expect((await on(0).send("DELTA", 1)).body).toMatchObject({ stop: {} });
    await on(0).takes({ phase: "END", sequence: 2 });
  });

  it("is waited for on one node and started on the other", async () => {
    const on = await open({ rate: 1_000 });
    const reader = await Reader.open(`${on(1).events}?wait=true`);
    await on(0).takes(START, { phase: "END", sequence: 1 });
    await reader.untilEnded();
    expect(reader.sequences).toEqual([0, 1]);
  });
});
