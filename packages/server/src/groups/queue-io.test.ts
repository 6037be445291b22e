import { expect, it } from "vitest";
import { entity } from "../engine/contract.ts";
import type { Streams } from "../streams/service.ts";
import type { LeaderEvent } from "./leader-state.ts";
import { QueueIo } from "./queue-io.ts";

const AT = { generation: 1, seq: 0 };

it("a read that ends after the members have left does not say that a watch will tell of later messages", async () => {
  const events: LeaderEvent[] = [];
  let answer = () => {};
  const page = { kind: "page", messages: [], atTail: true, meta: { closed: false } };
  const streams = {
    peek: () =>
      new Promise((resolve) => {
        answer = () => resolve(page);
      }),
    watch: () => () => {},
  };
  const world = { after: () => () => {} };
  const parts = { world, streams: streams as unknown as Streams, readBytes: 1, retryMs: 1, report: () => {} };
  const io = new QueueIo(parts, entity("p", "group", "g"), undefined, (event) => void events.push(event));
  const read = async () => {
    io.read("t", AT);
    answer();
    await new Promise(setImmediate);
    return events.pop();
  };
  expect(await read()).toMatchObject({ type: "read", isDry: true });
  io.read("t", AT);
  io.rest();
  answer();
  await new Promise(setImmediate);
  expect(events.pop()).toMatchObject({ type: "read", isDry: false });
  expect(await read()).toMatchObject({ type: "read", isDry: true });
});
