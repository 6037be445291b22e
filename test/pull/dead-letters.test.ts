/** Dead letters of pull: what they are told by, what becomes of them when the policy changes, and their redrive. */
import { expect, it } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { memoryNode, P, type PullNode, settled, texts } from "./pull-world.ts";

const deadLetter = (topic = "dead") => ({ topic, maxAttempts: 1 });

async function subscribed(): Promise<PullNode> {
  const node = await memoryNode();
  await node.topic();
  await node.subscribe({ deadLetter: deadLetter() });
  return node;
}

async function killAll(node: PullNode): Promise<void> {
  await node.nack(undefined, ...(await node.pull(100)));
  await settled();
}

const redrive = (node: PullNode) => node.service.redrive(P, "s", FULL_ACCESS);

it("a redrive removes what the dead letter was told by, and no attribute of its publisher", async () => {
  const node = await subscribed();
  await node.publish({ attributes: { "dead-line": "soon" } });
  await killAll(node);
  expect(await redrive(node)).toBe(1);
  expect((await node.pull())[0]!.attributes).toEqual({ "dead-line": "soon" });
});

it("dead letters of all shards and subscriptions have ids of their own", async () => {
  const node = await memoryNode();
  await node.topic("dead");
  await node.subscribe({ topic: "dead", deduplicates: true }, "letters");
  await node.streams.create(P, "t", { config: { shards: 4 }, closed: false });
  for (const name of ["s", "other"]) await node.subscribe({ deadLetter: deadLetter() }, name);
  await node.publish(...Array.from({ length: 8 }, (_, i) => ({ orderingKey: `key ${i}` })));
  for (const name of ["s", "other"]) {
    const ids = (await node.pull(100, name)).map(({ ackId }) => ackId);
    await node.service.nack(P, name, ids, undefined, FULL_ACCESS);
  }
  await settled();
  expect(await node.pull(100, "letters")).toHaveLength(16);
});

it("a redrive begins at the first letter of a dead-letter topic that has taken the place of another", async () => {
  const node = await subscribed();
  await node.publish("a", "b");
  await killAll(node);
  expect(await redrive(node)).toBe(2);
  await node.ack(...(await node.pull()));
  await node.service.update(P, "s", { deadLetter: deadLetter("later") }, FULL_ACCESS);
  await node.publish("c");
  await killAll(node);
  expect(await redrive(node)).toBe(1);
});
