/** What retention leaves to a subscription: its hold on the topic, and messages that grow too old. */
import { expect, it } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { codeOf } from "../support/refusal-code.ts";
import { P, pullNode, texts } from "./pull-world.ts";

it("a repeated creation leaves the hold of a subscription where its messages are", async () => {
  const node = await pullNode("memory");
  await node.streams.create(P, "t", { config: { retention: { maxMessages: 1 } }, closed: false });
  await node.subscribe();
  await node.publish("a", "b", "c");
  await node.subscribe();
  await node.publish("d", "e");
  expect(texts(await node.pull())).toEqual([..."abcde"]);
});

it("a message that comes again is not delivered once it is older than the retention of its subscription", async () => {
  const node = await pullNode("memory");
  await node.topic();
  await node.subscribe({ retentionMs: 15_000 });
  await node.publish("a");
  for (const count of [1, 1, 0]) {
    expect(await node.pull()).toHaveLength(count);
    await node.pass(11_000);
  }
});

it("a subscription or snapshot that its topic cannot hold messages for is not created", async () => {
  const node = await pullNode("memory");
  await node.topic();
  await node.subscribe({}, "earlier");
  const { hold } = node.streams;
  node.streams.hold = async () => "too-many";
  expect(await codeOf(() => node.subscribe())).toBe("too-many-subscriptions");
  const snapshot = () => node.service.createSnapshot(P, "snap", "earlier", {}, FULL_ACCESS);
  expect(await codeOf(snapshot)).toBe("too-many-subscriptions");
  node.streams.hold = hold;
  expect(await node.service.list(P, {}, FULL_ACCESS)).toMatchObject({ items: [{ name: "earlier" }] });
  expect(await node.service.snapshots(P, {}, FULL_ACCESS)).toMatchObject({ items: [] });
});
