/** The metrics by which an operator sees how Live does: pushes, reconnects, failures, catch-up volume, removals that wait. */
import { expect, it } from "vitest";
import type { Entity } from "../../packages/server/src/engine/contract.ts";
import { prometheusText } from "../../packages/server/src/observe/prometheus.ts";
import { Scrape } from "../observe/prometheus-text.ts";
import { eventually } from "../support/eventually.ts";
import { FakeSink } from "../support/fake-sink.ts";
import { type LiveNode, openNode } from "./nodes.ts";

const JSON_STREAM = { "content-type": "application/json" };

const scrape = async ({ app }: LiveNode) => {
  const live = app.metrics.filter(({ name }) => name.startsWith("sluice_live"));
  const refuse = (what: string) => expect.unreachable(what);
  return new Scrape(await prometheusText(live, refuse));
};

async function following(node: LiveNode) {
  await node.create("a", JSON_STREAM);
  const sessionId = await node.mint();
  const { offset } = await node.subscribe(sessionId, "a");
  return { sessionId, offset };
}

it("a push is timed from its publish, once for all tabs", async () => {
  const node = openNode();
  const sessions = [await following(node), await following(node)];
  const clients = await Promise.all(sessions.map(({ sessionId }) => node.connect(sessionId)));
  await node.append("a", 1);
  await eventually(() => expect(clients.map((client) => client.payloads("a"))).toEqual([[1], [1]]));
  const metrics = await scrape(node);
  expect(metrics.value("sluice_live_push_seconds_count")).toBe(1);
  expect(metrics.value("sluice_live_push_seconds_sum")).toBe(0);
});

it("a message that a tab catches up with counts as no push", async () => {
  const node = openNode({ internal: { live: { active: 1 } } });
  const { sessionId } = await following(node);
  const client = await node.connect(sessionId);
  await node.create("b", JSON_STREAM);
  await node.subscribe(sessionId, "b");
  await client.next("idle", "a");
  await node.append("a", 1);
  await node.subscribe(sessionId, "a");
  await eventually(() => expect(client.payloads("a")).toEqual([1]));
  expect((await scrape(node)).value("sluice_live_push_seconds_count")).toBe(0);
});

it("a connection of a session that had one before is a reconnect", async () => {
  const node = openNode();
  const { sessionId } = await following(node);
  (await node.connect(sessionId)).leave();
  await node.connect(sessionId);
  await node.connect(await node.mint());
  const metrics = await scrape(node);
  expect(metrics.value("sluice_live_opened_total")).toBe(3);
  expect(metrics.value("sluice_live_reconnects_total")).toBe(1);
  expect(metrics.value("sluice_live_connections")).toBe(2);
});

it("a push that fails because its client does not read is counted by the reason that the client is told", async () => {
  const node = openNode({ live: { slowReaderBytes: 1_000 } });
  const { sessionId } = await following(node);
  const client = await node.connect(sessionId, { sink: new FakeSink(false) });
  for (let i = 0; i < 2; i++) {
    await node.append("a", "x".repeat(1_000));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await client.next("bye");
  expect((await scrape(node)).value("sluice_live_byes_total", { code: "slow-reader" })).toBe(1);
});

it("catch-up reads of a session are counted with their bytes, and other reads are not", async () => {
  const node = openNode();
  const { sessionId, offset } = await following(node);
  await node.append("a", "four");
  await node.call("GET", `/v1/stream/a?offset=${offset}`);
  await node.call("GET", `/v1/stream/a?offset=${offset}&session=${sessionId}`);
  const metrics = await scrape(node);
  expect(metrics.value("sluice_live_catch_ups_total")).toBe(1);
  expect(metrics.value("sluice_live_catch_up_bytes_total")).toBe('"four"'.length);
});

it("removals that wait are counted, with the age of the first, and each is timed", async () => {
  const node = openNode({ internal: { live: { inlineRemovals: 0 } } });
  const { engine, world } = node.cluster;
  await following(node);
  await node.create("b", JSON_STREAM);
  await node.subscribe(await node.mint(), "b");
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { rows } = engine;
  engine.rows = async (e: Entity, ...rest) => {
    if (e.kind === "live") await released;
    return rows.call(engine, e, ...rest);
  };
  await node.done("DELETE", "/v1/stream/a");
  await node.done("DELETE", "/v1/stream/b");
  await eventually(async () => expect((await scrape(node)).value("sluice_live_removal_queue")).toBe(1));
  world.advance(3_000);
  expect((await scrape(node)).value("sluice_live_removal_lag_seconds")).toBe(3);
  release();
  await eventually(async () => expect((await scrape(node)).value("sluice_live_removal_seconds_count")).toBe(2));
  const metrics = await scrape(node);
  expect(metrics.value("sluice_live_removal_lag_seconds")).toBe(0);
  expect(metrics.value("sluice_live_removal_seconds_sum")).toBe(6);
});
