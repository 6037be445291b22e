/** Pull on two nodes that share a store: a client may use a subscription through a node that does not serve it. */
import { expect, it } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { formatAckId, parseAckId } from "../../packages/server/src/pull/ack-id.ts";
import { HOLDS, holdsTable, streamEntity } from "../../packages/server/src/streams/state.ts";
import { codeOf } from "../support/refusal-code.ts";
import { type Copies, P, type PullNode, texts, twoNodes } from "./pull-world.ts";

/** `a` serves the subscription. */
async function servedByA(copies?: Copies): Promise<[PullNode, PullNode]> {
  const [a, b] = await twoNodes(copies);
  await a.topic();
  await a.subscribe();
  expect(await a.pull()).toEqual([]);
  return [a, b];
}

/** The answer of the other node, while time passes for what must be sent again. */
async function meanwhile<T>(node: PullNode, call: Promise<T>): Promise<T> {
  let isDone = false;
  const done = () => {
    isDone = true;
  };
  call.then(done, done);
  for (let i = 0; i < 100 && !isDone; i++) await node.pass(100);
  return call;
}

it("a pull, its acknowledgements and a stream work through the other node", async () => {
  const [a, b] = await servedByA();
  await a.publish("a", "b", "c");
  const messages = await meanwhile(b, b.pull(2));
  expect(texts(messages)).toEqual(["a", "b"]);
  expect(messages[0]).toMatchObject({ attempt: 1, attributes: {} });
  expect(await meanwhile(b, b.ack(messages[0]!))).toEqual(["done"]);
  expect(await meanwhile(b, b.nack(undefined, messages[1]!))).toEqual(["done"]);
  const { got } = await meanwhile(b, b.stream());
  await a.settled();
  expect(texts(got).sort()).toEqual(["b", "c"]);
  await b.publish("d");
  await a.settled();
  expect(texts(got)).toContain("d");
  expect(await meanwhile(b, b.ack(...got))).toEqual(["done", "done", "done"]);
  expect(await a.pull()).toEqual([]);
  expect(await meanwhile(b, b.pull())).toEqual([]);
});

it("messages in flight are counted through the other node, and are unknown while the serving node is silent", async () => {
  const [a, b] = await servedByA();
  await a.publish("a", "b");
  await a.pull(1);
  const backlog = () => meanwhile(b, b.service.info(P, "s", FULL_ACCESS));
  expect(await backlog()).toMatchObject({ lag: 2, pending: 1 });
  await a.feature.stop();
  expect(await backlog()).toMatchObject({ lag: 2, pending: null });
});

it("streams of both nodes share the messages, each within its own limits", async () => {
  const [a, b] = await servedByA();
  const here = await a.stream({ maxMessages: 2 });
  const there = await meanwhile(b, b.stream({ maxMessages: 3 }));
  await a.publish(..."abcdefgh");
  await a.settled();
  expect(here.got).toHaveLength(2);
  expect(there.got).toHaveLength(3);
  await meanwhile(b, b.ack(...there.got));
  await a.settled();
  expect(there.got).toHaveLength(6);
  there.stream.close();
  await a.settled();
  await a.ack(...here.got);
  await a.settled();
  expect(texts([...here.got, ...there.got]).sort()).toEqual([..."abcdefgh"]);
});

it("leases that were told into a gap of the connection are told again, once and in order", async () => {
  let isCut = false;
  const [a, b] = await servedByA(() => (isCut ? 0 : 1));
  const { got, told } = await meanwhile(b, b.stream());
  isCut = true;
  await a.publish("a", "b");
  await a.pass(1_500);
  await a.publish("c");
  await a.settled();
  expect(got).toEqual([]);
  isCut = false;
  await a.pass(2_000);
  expect(texts(got)).toEqual(["a", "b", "c"]);
  expect(got.map(({ attempt }) => attempt)).toEqual([1, 1, 1]);
  expect(told).toEqual([]);
});

it("messages between nodes that come twice deliver nothing twice", async () => {
  const [a, b] = await servedByA(() => 2);
  const { got } = await meanwhile(b, b.stream());
  await a.publish("a", "b");
  await a.settled();
  expect(texts(got)).toEqual(["a", "b"]);
  expect(await meanwhile(b, b.nack(undefined, got[0]!))).toEqual(["done"]);
  await a.settled();
  expect(texts(got)).toEqual(["a", "b", "a"]);
});

it("a batch that comes before its stream is confirmed to be open is ready at once, if the pull ends with the batch before", async () => {
  let isCut = true;
  const [a, b] = await servedByA((text) => (isCut && text.includes('"reply"') ? 0 : 1));
  const first = b.pull();
  for (const data of ["a", "b"]) {
    await a.publish(data);
    await a.settled();
  }
  isCut = false;
  expect(texts(await meanwhile(b, first))).toEqual(["a"]);
  await a.settled();
  const rest = await a.pull();
  expect(texts(rest)).toEqual(["b"]);
  expect(rest[0]!.attempt).toBe(1);
});

it("of a pull whose messages come in several parts, those that it does not return are ready at once", async () => {
  const [a, b] = await servedByA();
  const all = Array.from({ length: 600 }, (_, i) => String(i));
  await a.publish(...all);
  const first = await meanwhile(b, b.pull(600));
  await a.settled();
  const rest = await a.pull(600);
  expect(texts([...first, ...rest])).toEqual(all);
  expect(rest.every(({ attempt }) => attempt === 1)).toBe(true);
});

it("a stream that was closed is not opened again by an earlier request that comes late", async () => {
  let isCut = false;
  const [a, b] = await servedByA((text) => (isCut && text.includes('"open"') ? 0 : 1));
  const { stream } = await meanwhile(b, b.stream());
  isCut = true;
  stream.setLimits({ maxMessages: 5 });
  stream.close();
  await a.settled();
  isCut = false;
  await a.pass(2_000);
  await a.publish("a");
  await a.settled();
  expect(texts(await a.pull())).toEqual(["a"]);
});

it("a stream ends when the serving node is silent, and the other node takes over with what is stored", async () => {
  const [a, b] = await servedByA();
  await a.publish("a", "b");
  const { got, told } = await meanwhile(b, b.stream());
  await a.settled();
  expect(await meanwhile(b, b.ack(got[0]!))).toEqual(["done"]);
  await a.feature.stop();
  await b.pass(12_000);
  expect(told).toEqual(["draining"]);
  expect(texts(await meanwhile(b, b.pull()))).toEqual(["b"]);
});

it("the next dispatcher takes late acknowledgements of messages that the topic has, and of no others", async () => {
  const [a, b] = await servedByA();
  await a.publish("a");
  const [late] = await a.pull();
  await a.feature.stop();
  const id = parseAckId(late!.ackId)!;
  const madeUp = { ackId: formatAckId({ ...id, seq: id.seq + 1_000_000 }) };
  expect(await meanwhile(b, b.ack(madeUp, late!))).toEqual(["gone", "done"]);
  expect(await meanwhile(b, b.pull())).toEqual([]);
});

it("a request that waits for the serving node is answered when its own node stops", async () => {
  let isCut = false;
  const [a, b] = await servedByA(() => (isCut ? 0 : 1));
  await a.publish("a");
  const [message] = await a.pull();
  isCut = true;
  const acked = codeOf(() => b.ack(message!));
  await b.settled();
  await b.feature.stop();
  expect(await acked).toBe("unavailable");
});

it("a seek and a deletion on one node reach the streams of the other", async () => {
  const [a, b] = await servedByA();
  await a.publish("a");
  const { got, told } = await a.stream();
  await a.settled();
  await a.ack(got[0]!);
  await b.service.seek(P, "s", { timeMs: 0 }, FULL_ACCESS);
  await a.pass(1_500);
  expect(texts(got)).toEqual(["a", "a"]);
  await b.service.delete(P, "s", FULL_ACCESS);
  await a.pass(1_500);
  expect(told).toEqual(["subscription-deleted"]);
  expect(await codeOf(() => meanwhile(b, b.pull()))).toBe("subscription-not-found");
});

/** The nodes, of which `a` serves the subscription of a topic with retention, and a message that `a` has leased. */
async function holding() {
  const [a, b] = await twoNodes();
  await a.streams.create(P, "t", { config: { retention: { maxMessages: 1 } }, closed: false });
  await a.subscribe();
  await a.publish("a");
  const [message] = await a.pull();
  // Holds move every few seconds.
  await a.pass(6_000);
  const holds = async () => {
    const { rows } = await a.engine.load(streamEntity(P, "t"), [HOLDS]);
    return rows[0] && holdsTable.decode(rows[0]);
  };
  return { a, b, message: message!, holds };
}

/** Runs this once, when the hold of a subscription is on its way to the store. */
function beforeHold({ streams }: PullNode, run: () => Promise<void>): void {
  const { hold } = streams;
  streams.hold = async (...asked) => {
    streams.hold = hold;
    await run();
    return hold.apply(streams, asked);
  };
}

it.each(["detach", "delete"] as const)("a hold that another node releases (%s) is not brought back", async (end) => {
  const { a, b, message, holds } = await holding();
  let released: unknown;
  beforeHold(a, async () => {
    await b.service[end](P, "s", FULL_ACCESS);
    released = await holds();
  });
  await a.ack(message);
  await a.settled();
  expect(released).toEqual({});
  expect(await holds()).toEqual({});
});

it("acknowledgements that are stored after another node has detached the subscription bring no hold back", async () => {
  const { a, b, message, holds } = await holding();
  await b.service.detach(P, "s", FULL_ACCESS);
  expect(await a.ack(message)).toEqual(["done"]);
  await a.settled();
  expect(await holds()).toEqual({});
});

it("a hold that is on its way while another node seeks back ends where the seek has put it", async () => {
  const { a, b, message, holds } = await holding();
  beforeHold(a, () => b.service.seek(P, "s", { timeMs: 0 }, FULL_ACCESS));
  await a.ack(message);
  await a.settled();
  expect(await holds()).toMatchObject({ "pull:s": { seq: 0 } });
});

it("a subscription with an open stream does not expire, whichever node sweeps it", async () => {
  const [a, b] = await twoNodes();
  await a.topic();
  await a.subscribe({ expiresAfterMs: 60_000 });
  const { told } = await a.stream();
  await a.pass(70_000);
  const [due] = await b.engine.due(0, 1);
  if (due !== undefined) await b.feature.kinds[0]!.sweep([due]);
  await a.pass(2_000);
  expect(told).toEqual([]);
  expect(await b.service.get(P, "s", FULL_ACCESS)).toMatchObject({ name: "s" });
});
