import { expect, it } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { Copy } from "./copy.ts";
import { FANOUT_LIMITS } from "./defaults.ts";
import { FanoutMeter, type Member } from "./delivery.ts";
import { type LaggardSource, Laggards } from "./laggards.ts";
import type { StreamPort } from "./stream-port.ts";

const at = (seq: number) => ({ generation: 1, seq });
const member = (session: string): Member => ({ session, incarnation: "1", epoch: 1 });

/** Laggards of a stream with one message. `deliver` answers for the session; `progress` lists those that were brought up. */
function setUp(deliver: (session: string) => Promise<unknown>, over: Partial<LaggardSource> = {}) {
  const world = manualWorld(1);
  const progress: string[] = [];
  const port = { deliver: (_: string, session: string) => deliver(session) } as unknown as StreamPort;
  const limits = { ...FANOUT_LIMITS, batch: 1, graceMs: 100, timeoutMs: 10_000 };
  const logged = [{ position: at(1), payload: new Uint8Array(1), at: 0 }];
  const copy = new Copy({ stream: "s", contentType: "text/plain", prev: at(0), logged, fanoutSeq: 1, hasMore: false });
  const laggards = new Laggards(
    { meter: new FanoutMeter(), port, world, limits },
    {
      project: "p",
      lagging: async (session) => ({ member: member(session), at: at(0) }),
      copyAfter: async () => copy,
      noteProgress: async ({ session }) => {
        progress.push(session);
        return true;
      },
      removeSubscribers: async () => {},
      report: () => {},
      ...over,
    },
  );
  const pass = async (ms: number) => {
    world.advance(ms);
    for (let i = 0; i < 20; i++) await Promise.resolve();
  };
  return { laggards, progress, pass };
}

it("a laggard that does not answer keeps no other laggard from its copies, even with one slot for all", async () => {
  const { laggards, progress, pass } = setUp(async (session) =>
    session === "stuck" ? new Promise(() => {}) : { kind: "applied", at: at(1) },
  );
  laggards.catchUp("stuck");
  await pass(0);
  laggards.catchUp("other");
  await pass(0);
  expect(progress).toEqual([]);
  await pass(100);
  await pass(0);
  expect(progress).toEqual(["other"]);
  expect(laggards.size).toBe(1);
  laggards.stop();
});

it("a laggard that subscribes again while it is brought up is brought up once more", async () => {
  let epoch = 1;
  let remove = () => {};
  const { laggards, progress, pass } = setUp(
    async () => (epoch === 1 ? { kind: "stale", borrows: false } : { kind: "applied", at: at(1) }),
    {
      lagging: async (session) => ({ member: { ...member(session), epoch }, at: at(0) }),
      removeSubscribers: () => new Promise((resolve) => (remove = resolve)),
    },
  );
  laggards.catchUp("again");
  await pass(0);
  epoch = 2;
  laggards.catchUp("again");
  remove();
  await pass(0);
  await pass(0);
  expect(progress).toEqual(["again"]);
  expect(laggards.size).toBe(0);
});
