import { expect, test } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { type Engine, MAX_TOLD_BYTES, type ToldListener } from "../engine/contract.ts";
import { Inquiries } from "./inquiries.ts";
import type { LeaderView } from "./leader-view.ts";

const ASK_MS = 1_000;

/** Two nodes, "a" and "b", whose messages pass `isLost` one by one. */
function nodes(view: LeaderView | undefined | (() => LeaderView), isLost: () => boolean = () => false) {
  const world = manualWorld(1);
  const listeners = new Map<string, ToldListener>();
  let told = 0;
  const engineOf = (node: string): Pick<Engine, "node" | "tell" | "onTold"> => ({
    node,
    tell: (to, bytes) => {
      expect(bytes.length).toBeLessThanOrEqual(MAX_TOLD_BYTES);
      told++;
      if (!isLost()) listeners.get(to)?.(bytes, node);
    },
    onTold: (listener) => {
      listeners.set(node, listener);
      return () => void listeners.delete(node);
    },
  });
  const inquiries = ["a", "b"].map((node) => {
    const known = () => (typeof view === "function" ? view() : view);
    const viewOf = () => (node === "b" ? known() : undefined);
    return new Inquiries({ engine: engineOf(node), world, askMs: ASK_MS, viewOf });
  });
  for (const one of inquiries) one.start();
  return { world, a: inquiries[0]!, told: () => told };
}

function viewOf(streams: number): LeaderView {
  const of = (i: number) => ({ path: `päth/"${i}"`, status: "free", borrower: null, acked: 0, pending: 0 });
  const at = { generation: 1, seq: 2 };
  const all = Array.from({ length: streams }, (_, i) => ({ ...of(i), at }));
  return { node: "b", term: 3, members: [], streams: all, isCut: false };
}

test("the node that leads tells what it knows, in as many messages as that takes", async () => {
  const view = viewOf(5_000);
  const { world, a, told } = nodes(view);
  const asked = a.ask("b", "p/group/g");
  world.advance(0);
  expect(await asked).toEqual(view);
  expect(told()).toBeGreaterThan(10);
});

test("a lost question and a lost part of an answer are made up for within the time", async () => {
  let lost = 0;
  const { world, a } = nodes(viewOf(1_000), () => [1, 4].includes(++lost));
  const asked = a.ask("b", "p/group/g");
  world.advance(ASK_MS - 1);
  expect(await asked).toEqual(viewOf(1_000));
});

test("an answer of which a part was lost is not completed with a part of another one", async () => {
  let lost = 0;
  let answers = 0;
  const { world, a } = nodes(
    () => ({ ...viewOf(1_000), term: 10 ** ++answers }),
    () => ++lost === 4,
  );
  const asked = a.ask("b", "p/group/g");
  world.advance(ASK_MS - 1);
  expect(await asked).toEqual({ ...viewOf(1_000), term: 100 });
});

test.each([
  ["a node that does not lead", 0, () => false],
  ["a node that does not answer", ASK_MS, () => true],
])("%s is waited for no longer than %i ms", async (_, ms, isLost) => {
  const { world, a } = nodes(undefined, isLost);
  const asked = a.ask("b", "p/group/g");
  let isAnswered = false;
  void asked.then(() => {
    isAnswered = true;
  });
  world.advance(Math.max(0, ms - 1));
  await Promise.resolve();
  expect(isAnswered).toBe(ms === 0);
  world.advance(1);
  expect(await asked).toBeUndefined();
});

test("a node asks itself without a message", async () => {
  const { a, told } = nodes(viewOf(1));
  expect(await a.ask("a", "p/group/g")).toBeUndefined();
  expect(told()).toBe(0);
});
