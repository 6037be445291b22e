import { expect, it } from "vitest";
import type { World } from "../core/world.ts";
import type { Copy } from "./copy.ts";
import { FANOUT_LIMITS } from "./defaults.ts";
import { FanoutMeter } from "./delivery.ts";
import { LocalQueue, messagesOf } from "./queue.ts";
import type { StreamPort } from "./stream-port.ts";

const THROUGH = { generation: 1, seq: 1 };
const copy = { bytes: 10, size: 1, through: THROUGH } as Copy;
const round = { projectId: "p", streamId: "s", copy };
const members = Array.from({ length: 120 }, (_, i) => ({ session: `s${i}`, incarnation: "1", epoch: 1 }));

it("leaves an engine that is behind to others, and goes on when it is not any more", async () => {
  const timers: (() => void)[] = [];
  const world = {
    monotonicMs: () => 0,
    after(_ms: number, run: () => void) {
      timers.push(run);
      return () => {};
    },
  } as unknown as World;
  let isBehind = true;
  let copies = 0;
  const deliver = async () => {
    // It falls behind in the middle of the round.
    if (++copies === 60) isBehind = true;
    return { kind: "applied" as const, at: THROUGH };
  };
  const port = { deliver } as unknown as StreamPort;
  const engine = { isBehind: () => isBehind };
  const limits = { ...FANOUT_LIMITS, queueConsumers: 1 };
  const queue = new LocalQueue({ port, world, limits, meter: new FanoutMeter(), engine, appends: () => 0 });
  const runTimers = () => timers.splice(0).forEach((run) => void run());

  const deliveries = queue.send(messagesOf(round, members, 50));
  runTimers();
  expect(copies).toBe(0);
  isBehind = false;
  runTimers();
  await expect.poll(() => deliveries.copied).toBe(100);
  await new Promise((resolve) => setImmediate(resolve));
  expect(copies).toBe(100);
  isBehind = false;
  runTimers();
  await deliveries.all;
  expect([deliveries.copied, deliveries.missed, queue.length]).toEqual([120, [], 0]);
});

it("starts messages apart while clients append, and goes through when they do not", async () => {
  const pauses: { ms: number; run: () => void }[] = [];
  const pass = async (ms: number) => {
    now += ms;
    for (const { run } of pauses.splice(0)) run();
    await new Promise((resolve) => setImmediate(resolve));
  };
  let now = 1_000;
  let appends = 1;
  let copies = 0;
  const world = {
    monotonicMs: () => now,
    after(ms: number, run: () => void) {
      if (ms <= FANOUT_LIMITS.queuePaceMs) pauses.push({ ms, run });
      return () => {};
    },
  } as unknown as World;
  const deliver = async () => {
    copies++;
    return { kind: "applied" as const, at: THROUGH };
  };
  const port = { deliver } as unknown as StreamPort;
  const limits = { ...FANOUT_LIMITS, queueConsumers: 2 };
  const queue = new LocalQueue({ port, world, limits, meter: new FanoutMeter(), engine: {}, appends: () => appends });
  const pausesMs = () => pauses.map(({ ms }) => ms);

  const deliveries = queue.send(messagesOf(round, members, 20));
  await pass(0);
  expect([copies, pausesMs()]).toEqual([20, [FANOUT_LIMITS.queuePaceMs]]);
  appends++;
  await pass(FANOUT_LIMITS.queuePaceMs - 1);
  expect([copies, pausesMs()]).toEqual([20, [1]]);
  await pass(1);
  expect([copies, pausesMs()]).toEqual([40, [FANOUT_LIMITS.queuePaceMs]]);
  await pass(FANOUT_LIMITS.queueQuietMs);
  await deliveries.all;
  expect([copies, pausesMs()]).toEqual([120, []]);
});

it("works for the projects in turn, so that a large fan-out of one does not delay the others", async () => {
  const world = { now: () => 0, monotonicMs: () => 0, after: () => () => {} } as unknown as World;
  const order: string[] = [];
  const deliver = async (project: string) => {
    order.push(project);
    return { kind: "applied" as const, at: THROUGH };
  };
  const port = { deliver } as unknown as StreamPort;
  const limits = { ...FANOUT_LIMITS, queueConsumers: 1, queuePaceMs: 0 };
  const queue = new LocalQueue({ port, world, limits, meter: new FanoutMeter(), engine: {}, appends: () => 0 });
  const large = queue.send(messagesOf({ ...round, projectId: "large" }, members, 20));
  const small = queue.send(messagesOf({ ...round, projectId: "small" }, members.slice(0, 1), 20));
  await Promise.all([large.all, small.all]);
  expect(order.indexOf("small")).toBeLessThanOrEqual(40);
  expect(order.length).toBe(121);
});
