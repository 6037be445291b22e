import { expect, test } from "vitest";
import type { Streams } from "../../packages/server/src/streams/service.ts";
import { answered, TestApp } from "./app.ts";

const DOWN = { kind: "failed", why: "down" } as const;
const config = { contentType: "application/json" };
const payloads = [new TextEncoder().encode("1")];

function create(streams: Streams, path: string) {
  return streams.create("default", path, { config, closed: false, payloads });
}

test("configuration and links are the same after a restart", async () => {
  const app = await TestApp.open();
  await app.append("events/old");
  await app.webhook("s", { streams: ["named"], lease_ttl_ms: 5_000, description: "d" });
  app.receiver.reply = answered({ done: true });
  await app.append("events/new");
  await app.ackedUpTo("s", "events/new");
  const before = await app.shown("s");
  await app.restart();
  expect(await app.shown("s")).toEqual(before);
  const again = await app.webhook("s", { streams: ["named"], lease_ttl_ms: 5_000, description: "d" });
  expect(again.status).toBe(200);
});

test("after a restart appends wake again, by pattern and by name", async () => {
  const app = await TestApp.open();
  app.receiver.reply = answered({ done: true });
  await app.webhook("s", { streams: ["named"] });
  await app.restart();
  await app.append("events/a");
  await app.notified(1);
  await app.ackedUpTo("s", "events/a");
  await app.append("named");
  await app.notified(2);
  expect(app.receiver.received.map(({ body }) => body.generation)).toEqual([1, 2]);
});

test("streams born while nobody followed are linked from their first message, and told", async () => {
  const app = await TestApp.open();
  await app.webhook("s");
  await app.restart((streams) => create(streams, "events/born"));
  await app.notified(1);
  expect(app.receiver.last.streams).toEqual([expect.objectContaining({ path: "events/born", acked_offset: "-1" })]);
});

test("what was appended while nobody followed is found and told", async () => {
  const app = await TestApp.open();
  const tail = await app.append("events/a");
  await app.append("named");
  await app.webhook("s", { streams: ["named"] });
  const append = { payloads, contentType: "application/json", close: false };
  app.receiver.reply = answered({ done: true });
  await app.restart((streams) => streams.append("default", "events/a", append));
  await app.notified(1);
  expect(app.receiver.last.streams.filter((stream) => stream.has_pending)).toEqual([
    expect.objectContaining({ path: "events/a", acked_offset: tail }),
  ]);
  await app.quiet();
  await app.restart((streams) => streams.append("default", "named", append));
  await app.notified(2);
  expect(app.receiver.last.streams.filter((stream) => stream.has_pending)).toEqual([
    expect.objectContaining({ path: "named", link_type: "explicit" }),
  ]);
});

test("what was deleted while nobody followed is unlinked; names that never were streams stay", async () => {
  const app = await TestApp.open();
  await app.append("events/a");
  await app.append("named/there");
  await app.pullWake("s", { streams: ["named/there", "named/never"] });
  await app.restart(async (streams) => {
    await streams.delete("default", "events/a");
    await streams.delete("default", "named/there");
  });
  const left = (await app.shown("s")).streams.map(({ path }: { path: string }) => path);
  expect(left).toEqual(["named/never"]);
});

test("holder, lease and token survive a restart", async () => {
  const app = await TestApp.open();
  await app.call("PUT", "/v1/stream/wakes");
  await app.pullWake("s", { lease_ttl_ms: 5_000 });
  const offset = await app.append("events/a");
  const { wake_id, generation, token } = (await app.claim("s")).body;
  await app.advance(3_000);
  await app.restart();
  const busy = await app.claim("s", "worker-2");
  expect(busy.body.error).toMatchObject({ code: "ALREADY_CLAIMED", current_holder: "worker-1", generation });
  expect((await app.subscription("POST", "s/ack", { wake_id, generation }, token)).status).toBe(200);
  await app.advance(4_999);
  await app.restart();
  const acks = [{ stream: "events/a", offset }];
  const done = await app.subscription("POST", "s/ack", { wake_id, generation, acks, done: true }, token);
  expect(done.body).toEqual({ ok: true, next_wake: false });
});

test("a lease that ends while the server is down ends, and the work is told anew", async () => {
  const app = await TestApp.open();
  await app.call("PUT", "/v1/stream/wakes");
  await app.pullWake("s", { lease_ttl_ms: 5_000 });
  await app.append("events/a");
  await app.events(1);
  const { wake_id, generation, token } = (await app.claim("s")).body;
  await app.restart(async () => app.world.advance(6_000));
  await app.events(2);
  expect((await app.messages("wakes"))[1]).toMatchObject({ generation: generation + 1 });
  const late = await app.subscription("POST", "s/ack", { wake_id, generation }, token);
  expect(late.body.error.code).toBe("FENCED");
});

test("a lease that ends after the restart ends on time", async () => {
  const app = await TestApp.open();
  await app.call("PUT", "/v1/stream/wakes");
  await app.pullWake("s", { lease_ttl_ms: 5_000 });
  await app.append("events/a");
  await app.claim("s");
  const events = (await app.messages("wakes")).length;
  await app.restart();
  await app.advance(4_999);
  expect(await app.messages("wakes")).toHaveLength(events);
  await app.advance(1);
  await app.events(events + 1);
});

test("retries go on after a restart where they were: count, time, wake id, generation and snapshot", async () => {
  const app = await TestApp.open();
  await app.webhook("s");
  app.receiver.reply = DOWN;
  const told = await app.append("events/a");
  await app.notified(1);
  await app.quiet();
  await app.advance(1_200);
  await app.notified(2);
  await app.quiet();
  const before = await app.shown("s");
  expect(before).toMatchObject({ status: "failed", retry_count: 2 });
  await app.restart();
  expect(await app.shown("s")).toEqual(before);
  const later = await app.append("events/a");
  app.receiver.reply = answered({ done: true });
  await app.advance(Date.parse(before.next_attempt_at) - app.world.now() - 1);
  expect(app.receiver.received).toHaveLength(2);
  await app.advance(1);
  await app.notified(3);
  const [first, , third] = app.receiver.received.map(({ body }) => body);
  expect(third).toMatchObject({ wake_id: first!.wake_id, generation: first!.generation });
  expect(third!.callback_token).toBe(first!.callback_token);
  expect(third!.streams[0]).toMatchObject({ path: "events/a", tail_offset: told });
  await app.notified(4);
  expect(app.receiver.last.streams[0]).toMatchObject({ acked_offset: told, tail_offset: later });
});

test("an attempt that was under way when the server died is made again", async () => {
  const app = await TestApp.open();
  await app.webhook("s");
  app.receiver.reply = () => new Promise(() => {});
  await app.append("events/a");
  await app.notified(1);
  app.crash();
  app.receiver.reply = answered({ done: true });
  app.app.start();
  await app.notified(2);
  const [first, second] = app.receiver.received.map(({ body }) => body);
  expect(second).toMatchObject({ wake_id: first!.wake_id, generation: first!.generation });
  await app.ackedUpTo("s", "events/a");
});

test("a wake stream that appears while the server is down is written to", async () => {
  const app = await TestApp.open();
  await app.pullWake("s");
  await app.append("events/a");
  await app.until(async () => (await app.shown("s")).status === "failed");
  await app.restart((streams) => streams.create("default", "wakes", { config, closed: false, payloads: [] }));
  await app.advance(1_200);
  await app.events(1);
});

test("the reminder alone ends a lease: nothing but the store has to remember", async () => {
  const app = await TestApp.open();
  await app.call("PUT", "/v1/stream/wakes");
  await app.pullWake("s", { lease_ttl_ms: 5_000 });
  await app.append("events/a");
  const { generation } = (await app.claim("s")).body;
  await app.quiet();
  app.crash();
  app.world.advance(4_999);
  expect(await app.engine.due(0, 10)).toEqual([]);
  app.world.advance(1);
  expect(await app.engine.due(0, 10)).toEqual([expect.objectContaining({ kind: "wake", id: "s" })]);
  await app.app.wakes.sweep("default", "s");
  expect(await app.engine.due(0, 10)).toEqual([]);
  await app.until(async () => (await app.messages("wakes")).some((event) => event.generation === generation + 1));
});

test("a subscription is served before the start has found it", async () => {
  const app = await TestApp.open();
  await app.pullWake("s");
  await app.append("events/a");
  await app.quiet();
  app.crash();
  expect((await app.subscription("GET", "s")).status).toBe(200);
  expect((await app.claim("s")).status).toBe(200);
});

test("stopping gives up what is in flight and leaves nothing running", async () => {
  const app = await TestApp.open();
  await app.webhook("s");
  let giveUp: () => void = () => {};
  app.receiver.reply = () => new Promise((resolve) => (giveUp = () => resolve(DOWN)));
  app.receiver.close = () => giveUp();
  await app.append("events/a");
  await app.notified(1);
  await app.app.stop();
  const asked: string[] = [];
  app.engine.load = app.engine.projects = (what: unknown) => {
    asked.push(JSON.stringify(what));
    throw new Error("everything has stopped");
  };
  await app.advance(3 * 3_600_000);
  expect(asked).toEqual([]);
  expect(app.reports).toEqual([]);
});
