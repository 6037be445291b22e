/** What retention leaves to a subscription: its hold on the topic, and messages that grow too old. */
import { expect, it } from "vitest";
import { memoryNode, P, texts } from "./pull-world.ts";

it("a repeated creation leaves the hold of a subscription where its messages are", async () => {
  const node = await memoryNode();
  await node.streams.create(P, "t", { config: { retention: { maxMessages: 1 } }, closed: false });
  await node.subscribe();
  await node.publish("a", "b", "c");
  await node.subscribe();
  await node.publish("d", "e");
  expect(texts(await node.pull())).toEqual([..."abcde"]);
});

it("a message that comes again is not delivered once it is older than the retention of its subscription", async () => {
  const node = await memoryNode();
  await node.topic();
  await node.subscribe({ retentionMs: 15_000 });
  await node.publish("a");
  for (const count of [1, 1, 0]) {
    expect(await node.pull()).toHaveLength(count);
    await node.pass(11_000);
  }
});
