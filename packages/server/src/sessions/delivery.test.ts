import { expect, it } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { Copy } from "./copy.ts";
import { FANOUT_LIMITS } from "./defaults.ts";
import { Delivery, FanoutMeter, type Member } from "./delivery.ts";
import type { StreamPort } from "./stream-port.ts";

const at = (seq: number) => ({ generation: 1, seq });
const LIMITS = { ...FANOUT_LIMITS, graceMs: 100, timeoutMs: 1_000 };

/** One copy for these sessions, so many at a time. `asked` lists the sessions that were called; `answer` lets one answer. */
function setUp(sessions: readonly string[], atATime: number) {
  const world = manualWorld(1);
  const asked: string[] = [];
  const answers = new Map<string, (outcome: unknown) => void>();
  const port = {
    deliver: (_: string, session: string) => {
      asked.push(session);
      return new Promise((resolve) => answers.set(session, resolve));
    },
  } as unknown as StreamPort;
  const logged = [{ position: at(1), payload: new Uint8Array(1), at: 0 }];
  const copy = new Copy({ stream: "s", contentType: "text/plain", prev: at(0), logged, fanoutSeq: 1 });
  const members = sessions.map((session): Member => ({ session, incarnation: "1", epoch: 1 }));
  const delivery = new Delivery({ meter: new FanoutMeter(), port, world, limits: LIMITS }, "p", copy, members, atATime);
  const ended: string[] = [];
  void delivery.answeredOrSlow.then(() => ended.push("answered or slow"));
  void delivery.all.then(() => ended.push("all"));
  const turns = async () => {
    for (let i = 0; i < 10; i++) await Promise.resolve();
  };
  const pass = (ms: number) => {
    world.advance(ms);
    return turns();
  };
  const answer = (session: string) => {
    answers.get(session)!({ kind: "applied", at: at(1) });
    return turns();
  };
  return { delivery, asked, ended, pass, answer };
}

it("a slow session gives up its place, and does not give it up twice when it answers", async () => {
  const { delivery, asked, ended, pass, answer } = setUp(["slow", "b", "c"], 1);
  expect(asked).toEqual(["slow"]);
  await pass(LIMITS.graceMs);
  expect(asked).toEqual(["slow", "b"]);
  await answer("slow");
  expect([asked, ended]).toEqual([["slow", "b"], []]);
  await answer("b");
  expect(asked).toEqual(["slow", "b", "c"]);
  await answer("c");
  expect([delivery.copied, ended]).toEqual([3, ["answered or slow", "all"]]);
});

it("a round ends without a slow session, which times out by itself", async () => {
  const { delivery, ended, pass, answer } = setUp(["slow", "b"], 2);
  await answer("b");
  await pass(LIMITS.graceMs);
  expect([ended, delivery.pending.length]).toEqual([["answered or slow"], 1]);
  await pass(LIMITS.timeoutMs);
  expect(delivery.missed.map(([{ session }, { kind }]) => [session, kind])).toEqual([["slow", "timeout"]]);
  expect(ended).toEqual(["answered or slow", "all"]);
});
