/** What retention leaves to a subscription: its hold on the topic, and messages that grow too old. */
import { expect, it } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import type { AckOutcome } from "../../packages/server/src/pull/contract.ts";
import { codeOf } from "../support/refusal-code.ts";
import { P, type PullNode, pullNode, texts } from "./pull-world.ts";

/** The topic keeps one message, and others only as long as they are held. */
async function forgetful(): Promise<PullNode> {
  const node = await pullNode("memory");
  await node.streams.create(P, "t", { config: { retention: { maxMessages: 1 } }, closed: false });
  await node.subscribe();
  return node;
}

/** Runs this once, before the next commit to the subscription. */
function beforeCommit(node: PullNode, run: () => Promise<unknown>): void {
  const { engine } = node;
  const { commit } = engine;
  engine.commit = async (e, ...asked) => {
    if (e.kind !== "puller") return commit(e, ...asked);
    engine.commit = commit;
    await run();
    return commit(e, ...asked);
  };
}

const seek = (node: PullNode, timeMs: number) => node.service.seek(P, "s", { timeMs }, FULL_ACCESS);

it("a repeated creation leaves the hold of a subscription where its messages are", async () => {
  const node = await forgetful();
  await node.publish("a", "b", "c");
  await node.subscribe();
  await node.publish("d", "e");
  expect(texts(await node.pull())).toEqual([..."abcde"]);
});

it("a seek forward that is not committed leaves the messages held that it would have passed over", async () => {
  const node = await forgetful();
  await node.publish("a", "b");
  beforeCommit(node, () => Promise.reject(new Error("the node crashes")));
  await expect(seek(node, 1e15)).rejects.toThrow("the node crashes");
  await node.publish("c");
  expect(texts(await node.pull())).toEqual(["a", "b", "c"]);
  await seek(node, 1e15);
  await node.publish("d", "e");
  expect((await node.streams.describe(P, "t")) as object).toMatchObject({ head: { start: { seq: 3 } } });
});

it("a seek back holds the messages that it brings back before it is committed", async () => {
  const node = await forgetful();
  await node.publish("a", "b");
  await node.ack(...(await node.pull()));
  // Holds move every few seconds.
  await node.pass(10_000);
  beforeCommit(node, () => node.publish("c"));
  await seek(node, 0);
  expect(texts(await node.pull())).toEqual(["a", "b", "c"]);
});

it("a hold does not rise over acknowledgements that are not stored yet", async () => {
  const node = await forgetful();
  await node.publish("a", "b");
  const [a, b] = await node.pull();
  await node.pass(6_000);
  const { hold } = node.streams;
  const held: (number | undefined)[] = [];
  node.streams.hold = (...asked) => {
    held.push(asked[3]?.seq);
    return hold.apply(node.streams, asked);
  };
  let second: Promise<AckOutcome[]> | undefined;
  beforeCommit(node, async () => {
    second = node.ack(b!);
    await new Promise(setImmediate);
    beforeCommit(node, () => Promise.reject(new Error("the store is away")));
  });
  expect(await node.ack(a!)).toEqual(["done"]);
  expect(await second).toEqual(["failed"]);
  expect(node.faults.splice(0)).toHaveLength(2);
  expect(held).toEqual([1]);
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
