import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import type { MethodParts } from "./caller.ts";
import { GRPC_LIMITS } from "./defaults.ts";
import type { GrpcCall } from "./grpc-call.ts";
import { streamingPull } from "./streaming-pull.ts";

const MOST = 10;
const SIGN_OF_LIFE = { subscription: "", streamAckDeadlineSeconds: 0, ackIds: [], modifyDeadlineAckIds: [] };

/** A stream whose client reads nothing. */
async function unreadStream(modifyAckDeadline?: (...asked: [string, string, string[], number]) => Promise<unknown>) {
  const sent: (() => void)[] = [];
  let leave = () => {};
  const call = {
    header: () => undefined,
    onGone: (task: () => void) => {
      leave = task;
    },
    write: (_response: object, whenSent: () => void) => {
      sent.push(whenSent);
      return false;
    },
  };
  const stream = { pause: () => {}, resume: () => {}, close: () => {} };
  const parts = {
    limits: { ...GRPC_LIMITS, unsentResponses: MOST },
    identity: { identify: () => ({}) },
    service: {
      get: async () => ({ isExactlyOnce: false, isOrdered: false }),
      open: async () => stream,
      modifyAckDeadline,
    },
    audience: { enter: () => () => {}, stay: () => {}, go: () => {} },
  };
  const handler = streamingPull(parts as unknown as MethodParts)(call as unknown as GrpcCall);
  const first = { ...SIGN_OF_LIFE, subscription: "projects/p/subscriptions/s", streamAckDeadlineSeconds: 10 };
  await handler.take({ ...first, maxOutstandingMessages: 0, maxOutstandingBytes: 0 });
  let taken = 1;
  const take = async () => {
    await handler.take(SIGN_OF_LIFE);
    taken++;
  };
  for (let i = 1; i < MOST; i++) await take();
  void take();
  await nextTurn();
  return { handler, sent, taken: () => taken, leave: () => leave() };
}

it("a client that reads no response gets the server to read a bounded number of its requests", async () => {
  const { sent, taken } = await unreadStream();
  expect(sent).toHaveLength(MOST + 1);
  expect(taken()).toBe(MOST);
  sent.shift()!();
  await nextTurn();
  expect(taken()).toBe(MOST + 1);
});

it("a request that waits for its client to read ends when the client leaves", async () => {
  const { taken, leave } = await unreadStream();
  expect(taken()).toBe(MOST);
  leave();
  await nextTurn();
  expect(taken()).toBe(MOST + 1);
});

it("deadlines of one length are modified together, at a cost that follows from the number of messages", async () => {
  const asked: number[] = [];
  const { handler } = await unreadStream(async (_project, _name, ids, ms) => {
    asked.push(ms);
    return ids.map(() => "done");
  });
  const modifyDeadlineAckIds = Array.from({ length: 10_000 }, () => "id");
  // Each read of a deadline counts.
  let reads = 0;
  const modifyDeadlineSeconds = new Proxy(
    modifyDeadlineAckIds.map((_, i) => i % 600),
    {
      get: (of, name, receiver) => {
        if (typeof name === "string" && name !== "length") reads++;
        return Reflect.get(of, name, receiver);
      },
    },
  );
  void handler.take({ ...SIGN_OF_LIFE, modifyDeadlineAckIds, modifyDeadlineSeconds });
  await nextTurn();
  expect(asked).toEqual(Array.from({ length: 600 }, (_, i) => i * 1_000));
  expect(reads).toBeLessThan(10 * modifyDeadlineAckIds.length);
});
