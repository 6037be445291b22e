/** The life of a subscription on every engine, with a clock that the test moves: seeks, retention, backlog, and its several ends. */
import { expect, it } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import type { NewSubscription } from "../../packages/server/src/pull/contract.ts";
import { describeOnEngines } from "../e2e/server.ts";
import { codeOf } from "../support/refusal-code.ts";
import { P, pullNode, subscribedNode, texts } from "./pull-world.ts";

describeOnEngines("A subscription", (engine) => {
  const subscribed = (asked?: Partial<NewSubscription>) => subscribedNode(engine, asked);

  it("a seek by time delivers acknowledged messages again and voids every ack id", async () => {
    const node = await subscribed();
    await node.publish("a");
    await node.ack(...(await node.pull()));
    await node.pass(1_000);
    const timeMs = node.world.now();
    await node.publish("b", "c");
    const [b] = await node.pull(1);
    await node.service.seek(P, "s", { timeMs }, FULL_ACCESS);
    expect(await node.ack(b!)).toEqual(["gone"]);
    expect(texts(await node.pull())).toEqual(["b", "c"]);
    await node.service.seek(P, "s", { timeMs: timeMs + 1e9 }, FULL_ACCESS);
    expect(await node.pull()).toEqual([]);
  });

  it("a seek to a snapshot brings back what was not acknowledged when it was made", async () => {
    const node = await subscribed();
    await node.publish("a", "b", "c");
    const [, b] = await node.pull();
    await node.ack(b!);
    await node.service.createSnapshot(P, "snap", "s", {}, FULL_ACCESS);
    expect(await codeOf(() => node.service.createSnapshot(P, "snap", "s", {}, FULL_ACCESS))).toBe("snapshot-exists");
    await node.pass(10_100);
    await node.ack(...(await node.pull()));
    await node.publish("d");
    await node.service.seek(P, "s", { snapshot: "snap" }, FULL_ACCESS);
    expect(texts(await node.pull())).toEqual(["a", "c", "d"]);
    expect(await node.service.snapshotsOf(P, "t", {}, FULL_ACCESS)).toMatchObject({ items: ["snap"] });
    await node.service.deleteSnapshot(P, "snap", FULL_ACCESS);
    expect(await codeOf(() => node.service.snapshot(P, "snap", FULL_ACCESS))).toBe("snapshot-not-found");
  });

  it("messages older than the retention of a subscription are not delivered", async () => {
    const node = await subscribed({ retentionMs: 60_000 });
    await node.publish("old");
    await node.pass(61_000);
    await node.publish("new");
    expect(texts(await node.pull())).toEqual(["new"]);
  });

  it("the retention of a topic takes no message that waits, and an acknowledged one only if the subscription does not retain it", async () => {
    for (const retainsAcked of [true, false]) {
      const node = await pullNode(engine);
      await node.streams.create(P, "t", { config: { retention: { maxMessages: 1 } }, closed: false });
      await node.subscribe({ retainsAcked });
      await node.publish("a");
      await node.publish("b");
      const messages = await node.pull();
      expect(texts(messages)).toEqual(["a", "b"]);
      await node.ack(...messages);
      // Holds move every few seconds.
      await node.pass(10_000);
      await node.publish("c");
      await node.service.seek(P, "s", { timeMs: 0 }, FULL_ACCESS);
      expect(texts(await node.pull())).toEqual(retainsAcked ? ["a", "b", "c"] : ["c"]);
    }
  });

  it("a deleted topic is told to its streams, and a later topic of the same name is another one", async () => {
    const node = await subscribed();
    const { got, told } = await node.stream();
    await node.service.deleteTopic(P, "t", FULL_ACCESS);
    await node.settled();
    expect(told).toEqual(["topic-deleted"]);
    await node.topic();
    await node.publish("of the new one");
    await node.settled();
    expect(got).toEqual([]);
    expect(await node.service.get(P, "s", FULL_ACCESS)).toMatchObject({ isTopicDeleted: true });
  });

  it("a topic that was created again before the first pull is another one", async () => {
    const node = await subscribed();
    await node.service.deleteTopic(P, "t", FULL_ACCESS);
    await node.topic();
    await node.publish("of the new one");
    expect(await node.pull()).toEqual([]);
    expect(await node.service.get(P, "s", FULL_ACCESS)).toMatchObject({ isTopicDeleted: true });
  });

  it("a detached subscription ends its streams and refuses pulls", async () => {
    const node = await subscribed();
    const { told } = await node.stream();
    await node.service.detach(P, "s", FULL_ACCESS);
    expect(told).toEqual(["detached"]);
    expect(await codeOf(() => node.pull())).toBe("subscription-detached");
    expect(await node.service.subscriptionsOf(P, "t", {}, FULL_ACCESS)).toMatchObject({ items: [] });
  });

  it("a deleted subscription ends its streams and is not found any more", async () => {
    const node = await subscribed();
    const { told } = await node.stream();
    await node.service.delete(P, "s", FULL_ACCESS);
    expect(told).toEqual(["subscription-deleted"]);
    for (const call of [() => node.pull(), () => node.service.get(P, "s", FULL_ACCESS)])
      expect(await codeOf(call)).toBe("subscription-not-found");
  });

  it("a subscription that is not used for as long as it may be is deleted by the sweep, and one in use is not", async () => {
    const node = await subscribed({ expiresAfterMs: 100_000 });
    const sweep = async () => {
      const shards = Array.from({ length: node.engine.shards }, (_, shard) => node.engine.due(shard, 10));
      const [e] = (await Promise.all(shards)).flat();
      if (e !== undefined) await node.feature.kinds[0]!.sweep([e]);
    };
    const { stream } = await node.stream();
    await node.pass(101_000);
    await sweep();
    expect(await node.service.get(P, "s", FULL_ACCESS)).toMatchObject({ name: "s" });
    stream.close();
    await node.pass(101_000);
    await sweep();
    expect(await codeOf(() => node.service.get(P, "s", FULL_ACCESS))).toBe("subscription-not-found");
  });

  it("the backlog counts what is not acknowledged and what is in flight, and tells the age of the oldest", async () => {
    const node = await subscribed();
    const backlog = async () => {
      const { lag, pending, oldestUnackedMs } = await node.service.info(P, "s", FULL_ACCESS);
      return [lag, pending, oldestUnackedMs];
    };
    expect(await backlog()).toEqual([0, 0, null]);
    await node.publish("a", "b");
    await node.pass(2_000);
    await node.publish("c", "d");
    expect(await backlog()).toEqual([4, 0, 2_000]);
    const [a, b, c] = await node.pull(3);
    expect(await backlog()).toEqual([4, 3, 2_000]);
    await node.ack(b!, c!);
    expect(await backlog()).toEqual([2, 1, 2_000]);
    await node.ack(a!);
    await node.pass(1_000);
    expect(await backlog()).toEqual([1, 0, 1_000]);
    await node.service.seek(P, "s", { timeMs: 0 }, FULL_ACCESS);
    expect(await backlog()).toEqual([4, 0, 3_000]);
    await node.service.deleteTopic(P, "t", FULL_ACCESS);
    expect(await backlog()).toEqual([0, 0, null]);
  });
});
