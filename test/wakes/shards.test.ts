import { expect, test } from "vitest";
import { TestApp } from "./app.ts";

const SHARDS = { "stream-shards": "2" };

test("an append to a sharded topic wakes who matches the shard, and the topic itself wakes nobody", async () => {
  const app = await TestApp.open();
  await app.webhook("early", { pattern: "events/**" });
  await app.call("PUT", "/v1/stream/events", undefined, SHARDS);
  await app.webhook("late", { pattern: "events/$shard/*" });
  await app.webhook("topic", { pattern: "*" });
  const answer = await app.call("POST", "/v1/stream/events", { n: 1 }, { "message-key": "k" });
  const shard = `events/$shard/${answer.headers["stream-shard"]}`;
  await app.notified(2);
  await app.quiet();
  const woken = app.receiver.received.map(({ body }) => [
    body.subscription_id,
    body.streams.filter((stream) => stream.has_pending).map(({ path }) => path),
  ]);
  expect(woken.sort()).toEqual([
    ["early", [shard]],
    ["late", [shard]],
  ]);
  expect(app.reports).toEqual([]);
});

test("a subscription lets go of the shards of a topic that was deleted, and follows those of a new one", async () => {
  const app = await TestApp.open();
  await app.call("PUT", "/v1/stream/events", undefined, SHARDS);
  await app.webhook("s", { pattern: "events/$shard/*" });
  const linked = async () => {
    const { streams } = (await app.subscription("GET", "s")).body as { streams: { path: string }[] };
    return streams.map(({ path }) => path).sort();
  };
  expect(await linked()).toEqual(["events/$shard/0", "events/$shard/1"]);
  await app.call("DELETE", "/v1/stream/events");
  await app.until(async () => (await linked()).length === 0, "nothing linked");
  await app.call("PUT", "/v1/stream/events", undefined, { "stream-shards": "3" });
  await app.until(async () => (await linked()).length === 3, "three linked");
});

test("wakes may be written to a topic, and do not wake themselves", async () => {
  const app = await TestApp.open();
  await app.call("PUT", "/v1/stream/wakes", undefined, SHARDS);
  await app.pullWake("s", { pattern: "**" });
  await app.append("events/a");
  const written = async () => {
    const pages = [await app.messages("wakes/$shard/0"), await app.messages("wakes/$shard/1")];
    return pages.flat();
  };
  await app.until(async () => (await written()).length === 1, "one wake");
  await app.quiet();
  expect((await written()).map(({ stream }) => stream)).toEqual(["events/a"]);
  expect(app.reports).toEqual([]);
});
