/** How a dispatcher reads its topic and begins: after failures, after leases that ended together, and while its node stops. */
import { expect, it } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { codeOf } from "../support/refusal-code.ts";
import { P, subscribedNode, texts } from "./pull-world.ts";

const subscribed = () => subscribedNode("memory");

it("messages that end together are read again in few reads", async () => {
  const node = await subscribed();
  const all = Array.from({ length: 200 }, (_, i) => String(i));
  await node.publish(...all);
  const { got } = await node.stream();
  await node.settled();
  expect(got).toHaveLength(200);
  const { peek } = node.streams;
  let reads = 0;
  node.streams.peek = (...asked) => {
    reads++;
    return peek.apply(node.streams, asked);
  };
  await node.pass(10_100);
  expect(texts(got.slice(200))).toEqual(all);
  expect(reads).toBeLessThan(20);
});

it("a read that failed before the last stream closed holds up no later stream", async () => {
  const node = await subscribed();
  const { peek } = node.streams;
  node.streams.peek = () => Promise.reject(new Error("the store is away"));
  const first = await node.stream();
  await node.settled();
  first.stream.close();
  node.streams.peek = peek;
  await node.pass(1_000);
  expect(node.faults.splice(0)).toHaveLength(2);
  const { got } = await node.stream();
  await node.settled();
  await node.publish("a");
  await node.settled();
  expect(texts(got)).toEqual(["a"]);
});

it("a backlog counts from the earliest message that retention has left", async () => {
  const node = await subscribed();
  await node.publish("a", "b", "c", "d");
  const messages = await node.pull();
  await node.ack(messages[2]!);
  const { peek } = node.streams;
  node.streams.peek = async (project, path, after, maxBytes) => {
    if (after.seq < 2) return { kind: "trimmed", earliest: { ...after, seq: 2 } };
    return peek.call(node.streams, project, path, after, maxBytes);
  };
  expect(await node.service.info(P, "s", FULL_ACCESS)).toMatchObject({ lag: 1, pending: 3, oldestUnackedMs: 0 });
});

it("a read that begins anew after the last stream closed holds up no later stream", async () => {
  const node = await subscribed();
  const { peek } = node.streams;
  let answer = () => {};
  node.streams.peek = async (_project, _path, after) => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    node.streams.peek = peek;
    return { kind: "trimmed", earliest: after } as Awaited<ReturnType<typeof peek>>;
  };
  const first = await node.stream();
  await node.settled();
  first.stream.close();
  answer();
  await node.settled();
  const { got } = await node.stream();
  await node.settled();
  await node.publish("a");
  await node.settled();
  expect(texts(got)).toEqual(["a"]);
});

it("a dispatcher that begins while its node stops is stopped, and asks the store for nothing later", async () => {
  const node = await subscribed();
  const { commit, load } = node.engine;
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  let loads = 0;
  const { engine } = node;
  engine.load = (entity, keys) => {
    if (entity.kind === "puller") loads++;
    return load.call(engine, entity, keys);
  };
  engine.commit = async (entity, ...rest) => {
    if (entity.kind === "puller") {
      begin();
      await held;
    }
    return commit.call(engine, entity, ...rest);
  };
  const pulled = codeOf(() => node.pull());
  await begun;
  const stopping = node.feature.stop();
  release();
  await stopping;
  expect(await pulled).toBe("unavailable");
  await node.settled();
  loads = 0;
  await node.pass(10_000);
  expect(loads).toBe(0);
});
