import { expect, test } from "vitest";
import { Follower } from "../../packages/server/src/wakes/following.ts";
import { SubscriptionIndex } from "../../packages/server/src/wakes/matching.ts";
import { Subscription } from "../../packages/server/src/wakes/subscription.ts";
import type { Waker } from "../../packages/server/src/wakes/waking.ts";
import { manualWorld } from "../support/world.ts";
import { answered, TestApp } from "./app.ts";

function subscription(id: string, pattern: string | undefined, explicit: readonly string[] = [], wakeStream = "wakes") {
  const config = { type: "pull-wake", pattern, streams: explicit, wakeStream, leaseMs: 1_000 } as const;
  const made = new Subscription("p", id, { config, incarnation: id, base: "", createdAt: 0 });
  for (const path of explicit) made.explicit.add(path);
  return made;
}

const ids = (found: Iterable<Subscription>) => [...found].map(({ id }) => id).sort();

test("the index finds who wants a stream, by pattern and by name", () => {
  const index = new SubscriptionIndex();
  index.add(subscription("literal", "events/*"));
  index.add(subscription("wild", "*/a"));
  index.add(subscription("named", undefined, ["events/a", "x"]));
  index.add(subscription("other", "other/**"));
  expect(ids(index.match("p", "events/a"))).toEqual(["literal", "named", "wild"]);
  expect(ids(index.match("p", "x"))).toEqual(["named"]);
  expect(ids(index.match("p", "other"))).toEqual(["other"]);
  expect(ids(index.match("q", "events/a"))).toEqual([]);
  expect(ids(index.writers("p", "wakes"))).toEqual(["literal", "named", "other", "wild"]);
});

test("reserved streams and a subscription's own wake stream are wanted by no pattern", () => {
  const all = subscription("all", "**");
  for (const path of ["__ds/x", "$share/g", "session:1", "wakes", "wakes/$shard/0"])
    expect(all.wants(path), path).toBe(false);
  expect(all.wants("anything")).toBe(true);
  expect(all.wants("anything/$shard/0")).toBe(true);
});

test("what the index remembers is corrected when subscriptions and links change", () => {
  const index = new SubscriptionIndex();
  const first = subscription("first", "events/*");
  const second = subscription("second", undefined);
  index.add(first);
  index.add(second);
  expect(ids(index.match("p", "events/a"))).toEqual(["first"]);
  index.link(second, "events/a");
  expect(ids(index.match("p", "events/a"))).toEqual(["first", "second"]);
  index.unlink(second, "events/a");
  expect(ids(index.match("p", "events/a"))).toEqual(["first"]);
  index.add(subscription("third", "**"));
  expect(ids(index.match("p", "events/a"))).toEqual(["first", "third"]);
  index.remove(first);
  expect(ids(index.match("p", "events/a"))).toEqual(["third"]);
  const again = subscription("third", "nothing/*");
  index.add(again);
  expect(ids(index.match("p", "events/a"))).toEqual([]);
  expect([index.size, index.explicitLinks]).toEqual([2, 0]);
});

test("remembered answers stay bounded", () => {
  const index = new SubscriptionIndex();
  index.add(subscription("s", "events/*"));
  const project = (index as unknown as { projects: Map<string, { remembered: Map<string, unknown> }> }).projects.get(
    "p",
  )!;
  let most = 0;
  for (let i = 0; i < 25_000; i++) {
    index.match("p", `events/${i}`);
    most = Math.max(most, project.remembered.size);
  }
  expect(most).toBe(10_000);
});

/** A follower over an index of its own, and what it asked the waker for. */
function follower(maxQueued?: number) {
  const index = new SubscriptionIndex();
  const asked: string[] = [];
  const waker = {
    follow: ({ id }: Subscription) => void asked.push(`follow ${id}`),
    tick: async ({ id }: Subscription, why: string) => void asked.push(`${why} ${id}`),
  } as unknown as Waker;
  return { index, asked, follower: new Follower(index, waker, manualWorld(1), maxQueued) };
}

test("an append neither matches nor waits: all of it happens in a later turn, once per stream", () => {
  const { index, asked, follower: it } = follower();
  const one = subscription("s", "events/*");
  index.add(one);
  let matched = 0;
  const { match } = index;
  index.match = (project, path) => {
    matched++;
    return match.call(index, project, path);
  };
  for (let i = 0; i < 1_000; i++) it.hear({ kind: "appended", project: "p", path: "events/a" });
  expect([matched, asked.length]).toEqual([0, 0]);
  it.flush();
  expect(matched).toBe(1);
  expect(asked).toEqual(["follow s"]);
  expect([...one.toLink]).toEqual(["events/a"]);
});

test("the last word on a stream counts, and a deletion in between is not forgotten", () => {
  const { index, follower: it } = follower();
  const one = subscription("s", "events/*");
  index.add(one);
  const hear = (...kinds: ("appended" | "created" | "deleted")[]) => {
    for (const kind of kinds) it.hear({ kind, project: "p", path: "events/a" });
    it.flush();
    const heard = { unlink: [...one.toUnlink], link: [...one.toLink] };
    one.toUnlink.clear();
    one.toLink.clear();
    return heard;
  };
  expect(hear("created", "appended", "deleted")).toEqual({ unlink: ["events/a"], link: [] });
  expect(hear("appended", "deleted", "created")).toEqual({ unlink: ["events/a"], link: ["events/a"] });
  expect(hear("appended")).toEqual({ unlink: [], link: ["events/a"] });
});

test("when more happens than is remembered, every subscription is looked at again", () => {
  const { index, asked, follower: it } = follower(10);
  const one = subscription("s", "events/*");
  index.add(one);
  one.isUnsure = false;
  for (let i = 0; i < 11; i++) it.hear({ kind: "appended", project: "p", path: `other/${i}` });
  it.flush();
  expect(asked).toEqual(["time s"]);
  expect(one.isUnsure).toBe(true);
});

test("streams born later are followed from their first message", async () => {
  const app = await TestApp.open();
  await app.webhook("s", { pattern: "a/**" });
  app.receiver.reply = answered({ done: true });
  const tail = await app.append("a/b/c");
  await app.notified(1);
  expect(app.receiver.last.streams).toEqual([
    { path: "a/b/c", link_type: "glob", acked_offset: "-1", tail_offset: tail, has_pending: true },
  ]);
});

test("a deleted stream is unlinked, and one created anew under its name is new", async () => {
  const app = await TestApp.open();
  app.receiver.reply = answered({ done: true });
  await app.webhook("s", { streams: ["named"] });
  await app.append("events/a");
  const named = await app.append("named");
  await app.ackedUpTo("s", "named", named);
  await app.ackedUpTo("s", "events/a");
  await app.quiet();
  const told = app.receiver.received.length;
  await app.call("DELETE", "/v1/stream/events/a");
  await app.call("DELETE", "/v1/stream/named");
  await app.until(async () => (await app.shown("s")).streams.length === 0);
  await app.quiet();
  expect(app.known).toEqual({ size: 1, explicitLinks: 0 });
  const tail = await app.append("events/a");
  await app.append("named");
  await app.notified(told + 1);
  await app.ackedUpTo("s", "events/a", tail);
  await app.quiet();
  expect((await app.shown("s")).streams.map(({ path }: { path: string }) => path)).toEqual(["events/a"]);
});

test("a stream that is deleted and created in one breath starts over", async () => {
  const app = await TestApp.open();
  app.receiver.reply = answered({ done: true });
  await app.webhook("s");
  const old = await app.append("events/a");
  await app.ackedUpTo("s", "events/a", old);
  const { streams } = app.app;
  const payloads = [new TextEncoder().encode("1")];
  const config = { contentType: "application/json" };
  const letGo = app.hold("s");
  await streams.delete("default", "events/a");
  await streams.create("default", "events/a", { config, closed: false, payloads });
  await app.quiet();
  letGo();
  await app.notified(2);
  expect(app.receiver.last.streams[0]).toMatchObject({ path: "events/a", acked_offset: "-1", has_pending: true });
});

test("a fault of the store is reported once, and everything is looked at again until it is over", async () => {
  const app = await TestApp.open();
  await app.webhook("s");
  app.receiver.reply = answered({ done: true });
  await app.quiet();
  const { rows, load } = app.engine;
  app.engine.load = (e, keys) => {
    if (e.kind === "wake") throw new Error("the disk is on fire");
    return load.call(app.engine, e, keys);
  };
  app.engine.rows = () => {
    throw new Error("the disk is on fire");
  };
  await app.append("events/a");
  await app.until(() => app.reports.length > 0);
  await app.advance(10_000);
  expect(app.reports).toHaveLength(1);
  expect(app.receiver.received).toEqual([]);
  Object.assign(app.engine, { rows, load });
  await app.advance(60_000);
  await app.notified(1);
  await app.ackedUpTo("s", "events/a");
});
