import { ZERO } from "@sluice/protocol";
import { expect, it } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { utf8 } from "../core/bytes.ts";
import { entity } from "../engine/contract.ts";
import { Keepers } from "../engine/keeper.ts";
import { openMemory } from "../engine/memory/memory.ts";
import { Streams } from "../streams/service.ts";
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

/** Leaders of queues over streams in memory, and what they report. */
function stage() {
  const world = manualWorld(1);
  const engine = openMemory({ world });
  const streams = new Streams(engine, new Keepers(engine, (task) => world.soon(task)), world);
  const reported: string[] = [];
  const report = (what: string, fault: unknown) => void reported.push(`${what}: ${fault}`);
  const buried: LeaderEvent[] = [];
  const io = (group: string) => {
    const parts = { world, streams, readBytes: 1_000, retryMs: 250, report };
    return new QueueIo(parts, entity("p", "group", group), "dead", (event) => void buried.push(event));
  };
  const add = async (path: string, contentType: string) => {
    await streams.create("p", path, { config: { contentType }, closed: false });
    await streams.append("p", path, { payloads: [utf8("{}")], contentType, close: false });
    const page = await streams.peek("p", path, ZERO, 1_000);
    const [message] = page.kind === "page" ? page.messages : [];
    return { kind: "bury", path, position: message!.position, attempts: 1, why: "nack" } as const;
  };
  const letters = async () => {
    const page = await streams.peek("p", "dead", ZERO, 1_000);
    return page.kind === "page" ? page.messages : [];
  };
  return { world, streams, io, add, letters, buried, reported };
}

it("dead letters of one message in two groups have ids of their own", async () => {
  const { io, add, letters, buried } = stage();
  const dead = await add("jobs", "text/plain");
  for (const group of ["queue/g/jobs", "queue/h/jobs"]) io(group).bury(dead);
  await expect.poll(() => buried.length).toBe(2);
  expect(new Set((await letters()).map(({ id }) => id)).size).toBe(2);
});
