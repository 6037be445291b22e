/** Dead letters of pull: what they are told by, what becomes of them when the policy changes, and their redrive. */
import { ZERO } from "@sluice/protocol";
import { expect, it } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { P, type PullNode, pullNode, texts } from "./pull-world.ts";

const deadLetter = (topic = "dead") => ({ topic, maxAttempts: 1 });

async function subscribed(): Promise<PullNode> {
  const node = await pullNode("memory");
  await node.topic();
  await node.subscribe({ deadLetter: deadLetter() });
  return node;
}

async function killAll(node: PullNode): Promise<void> {
  await node.nack(undefined, ...(await node.pull(100)));
  await node.settled();
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
  const node = await pullNode("memory");
  await node.topic("dead");
  await node.subscribe({ topic: "dead", deduplicates: true }, "letters");
  await node.streams.create(P, "t", { config: { shards: 4 }, closed: false });
  for (const name of ["s", "other"]) await node.subscribe({ deadLetter: deadLetter() }, name);
  await node.publish(...Array.from({ length: 8 }, (_, i) => ({ orderingKey: `key ${i}` })));
  for (const name of ["s", "other"]) {
    const ids = (await node.pull(100, name)).map(({ ackId }) => ackId);
    await node.service.nack(P, name, ids, undefined, FULL_ACCESS);
  }
  await node.settled();
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

it("a redrive goes on after a failover that lost letters which were redriven already", async () => {
  const node = await subscribed();
  await node.publish("a");
  await killAll(node);
  const { read } = node.streams;
  let reads = 0;
  node.streams.read = async (...asked) =>
    reads++ === 0 ? { kind: "lost", survived: ZERO } : read.apply(node.streams, asked);
  expect(await redrive(node)).toBe(1);
  expect(reads).toBe(2);
});

it("a redrive from a sharded dead-letter topic is refused with the reason", async () => {
  const node = await subscribed();
  await node.streams.create(P, "dead", { config: { shards: 2 }, closed: false });
  await node.publish("a");
  await killAll(node);
  await expect(redrive(node)).rejects.toThrow(/"dead" is sharded/);
});

/** A node with a message that its dead-letter topic does not take. */
async function refused(): Promise<PullNode> {
  const node = await subscribed();
  await node.streams.create(P, "dead", { config: {}, closed: true });
  await node.publish("a");
  await killAll(node);
  expect(node.faults.splice(0)).toHaveLength(2);
  return node;
}

it("a dead letter that its topic refuses goes to the topic that the policy names by then", async () => {
  const node = await refused();
  await node.service.update(P, "s", { deadLetter: deadLetter("later") }, FULL_ACCESS);
  await node.pass(1_000);
  expect(node.faults).toEqual([]);
  expect(await redrive(node)).toBe(1);
});

it("a dead letter that its topic refuses is delivered again when the policy is removed", async () => {
  const node = await refused();
  await node.service.update(P, "s", { deadLetter: undefined }, FULL_ACCESS);
  await node.pass(1_000);
  const [a] = await node.pull();
  expect(texts([a!])).toEqual(["a"]);
  expect(await node.ack(a!)).toEqual(["done"]);
});

it("a dead letter on its way does not acknowledge a message that took its number after a failover", async () => {
  const node = await subscribed();
  await node.publish("a");
  const { append } = node.streams;
  let arrive = () => {};
  const held = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  node.streams.append = async (...asked) => {
    await held;
    return append.apply(node.streams, asked);
  };
  await killAll(node);
  const [log] = node.feature.registry.all[0]!.logs;
  const { generation, seq } = log!.tail;
  log!.read([{ position: { generation: generation + 1, seq }, at: 0, payload: new Uint8Array(1) }], 0);
  arrive();
  await node.settled();
  expect(log!.core.acks.isAcked(seq)).toBe(false);
});
