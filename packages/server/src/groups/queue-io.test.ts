import { ZERO } from "@sluice/protocol";
import { expect, it } from "vitest";
import { quietWorld } from "../../../../test/support/quiet-world.ts";
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
  const world = quietWorld(1);
  const engine = world.counted(openMemory({ world }));
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
  const { world, io, add, letters, buried } = stage();
  const dead = await add("jobs", "text/plain");
  for (const group of ["queue/g/jobs", "queue/h/jobs"]) io(group).bury(dead);
  await world.quiet();
  expect(buried).toHaveLength(2);
  expect(new Set((await letters()).map(({ id }) => id)).size).toBe(2);
});

it("dead letters that are refused are repeated ever more rarely, are logged once, and are stored when they can be", async () => {
  const { world, streams, io, add, buried, reported } = stage();
  const queue = io("queue/g/#");
  queue.bury(await add("texts", "text/plain"));
  await world.quiet();
  const { append } = streams;
  let appends = 0;
  streams.append = (...asked) => {
    appends++;
    return append.apply(streams, asked);
  };
  queue.bury(await add("numbers", "application/json"));
  queue.bury(await add("names", "application/json"));
  appends = 0;
  await world.pass(600_000);
  expect(appends).toBeGreaterThan(20);
  expect(appends).toBeLessThan(50);
  expect(reported).toEqual([expect.stringContaining("was not stored in dead")]);
  expect(buried).toHaveLength(1);
  await streams.delete("p", "dead");
  await world.pass(60_000);
  expect(buried).toHaveLength(3);
});
