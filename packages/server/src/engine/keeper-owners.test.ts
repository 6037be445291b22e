import { expect, test } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { type CommitAt, type Engine, entity, type Owner } from "./contract.ts";
import { put } from "./draft.ts";
import { FENCED, Keepers, type Rule } from "./keeper.ts";
import { openMemory } from "./memory/memory.ts";
import { jsonTable } from "./table.ts";

const counts = jsonTable<number>("count");
const COUNT = counts.at("");
const e = entity("p", "test", "a");
const LEASE_MS = 1_000;

const add: Rule<number> = (view) => {
  const count = (view.get(counts, "") ?? 0) + 1;
  return { outcome: count, changes: [put(counts, "", count)] };
};
const look: Rule<number> = (view) => ({ outcome: view.get(counts, "") ?? 0 });

/** A memory engine that records each commit's `at`; `before` may act ahead of a commit, once. */
async function setUp(over: Partial<Engine> = {}) {
  const world = manualWorld(1);
  const memory = openMemory({ world });
  const commits: CommitAt[] = [];
  const hooks: { before?: (() => Promise<unknown>) | undefined } = {};
  const engine: Engine = Object.assign(Object.create(memory) as Engine, {
    commit: async (...args: Parameters<Engine["commit"]>) => {
      commits.push(args[1]);
      const { before } = hooks;
      hooks.before = undefined;
      await before?.();
      return memory.commit(...args);
    },
    ...over,
  });
  return { world, memory, engine, commits, hooks, keepers: new Keepers(engine, setImmediate, 10) };
}

async function claim(engine: Engine, node = "first"): Promise<Owner> {
  const result = await engine.claim(e, node, LEASE_MS);
  expect(result.kind).toBe("owner");
  return result as Owner;
}

test("an input under an ownership that stands commits with that ownership", async () => {
  const { keepers, memory, commits } = await setUp();
  const owner = await claim(memory);
  expect(await keepers.submit(e, [COUNT], add, { owner })).toBe(1);
  expect(commits.map((at) => at.owner)).toEqual([owner]);
});

test("an input whose ownership has ended gets that as a value, and changes nothing", async () => {
  const { keepers, memory, world } = await setUp();
  const owner = await claim(memory);
  world.advance(LEASE_MS);
  expect(await keepers.submit(e, [COUNT], add, { owner })).toBe(FENCED);
  expect(await keepers.submit(e, [COUNT], look)).toBe(0);
  expect(keepers.meter.failures).toBe(0);
});

test("an outcome without changes is fenced too, also on an engine with one writer", async () => {
  const { keepers, memory, engine } = await setUp();
  expect(engine.exclusive).toBe(true);
  const owner = await claim(memory);
  expect(await keepers.submit(e, [COUNT], look, { owner })).toBe(0);
  await memory.release(e, owner);
  expect(await keepers.submit(e, [COUNT], look, { owner })).toBe(FENCED);
});

test("a fenced commit refuses its owner's inputs only; the others run again without them, in their order", async () => {
  const { keepers, memory, commits } = await setUp();
  const owner = await claim(memory);
  await memory.release(e, owner);
  const outcomes = await Promise.all([
    keepers.submit(e, [COUNT], add),
    keepers.submit(e, [COUNT], add, { owner }),
    keepers.submit(e, [COUNT], add),
    keepers.submit(e, [COUNT], add, { owner: { ...owner } }),
    keepers.submit(e, [COUNT], look),
  ]);
  expect(outcomes).toEqual([1, FENCED, 2, FENCED, 2]);
  expect(commits.map((at) => at.owner)).toEqual([owner, undefined]);
});

test("inputs with and without an owner share one commit while the ownership stands", async () => {
  const { keepers, memory, commits } = await setUp();
  const owner = await claim(memory);
  const outcomes = await Promise.all([
    keepers.submit(e, [COUNT], add),
    keepers.submit(e, [COUNT], add, { owner }),
    keepers.submit(e, [COUNT], add),
  ]);
  expect(outcomes).toEqual([1, 2, 3]);
  expect(commits).toHaveLength(1);
});

test("inputs of two owners never share a commit, and the later owner's are not fenced with the earlier one's", async () => {
  const { keepers, memory, commits } = await setUp();
  const stale = await claim(memory);
  await memory.release(e, stale);
  const owner = await claim(memory, "second");
  const outcomes = await Promise.all([
    keepers.submit(e, [COUNT], add, { owner: stale }),
    keepers.submit(e, [COUNT], add, { owner }),
    keepers.submit(e, [COUNT], add),
    keepers.submit(e, [COUNT], add, { owner: stale }),
    keepers.submit(e, [COUNT], add, { owner }),
  ]);
  expect(outcomes).toEqual([FENCED, 1, 2, FENCED, 3]);
  expect(commits.map((at) => at.owner)).toEqual([stale, owner]);
});

test("an ownership that ends between a conflict and the next attempt fences its inputs", async () => {
  const { keepers, memory, hooks, commits } = await setUp();
  const other = new Keepers(memory, setImmediate);
  const owner = await claim(memory);
  await keepers.submit(e, [COUNT], add);
  commits.length = 0;
  hooks.before = async () => {
    await other.submit(e, [COUNT], add);
    hooks.before = () => memory.release(e, owner);
  };
  const [owned, free] = await Promise.all([
    keepers.submit(e, [COUNT], add, { owner }),
    keepers.submit(e, [COUNT], add),
  ]);
  expect([owned, free]).toEqual([FENCED, 3]);
  expect(commits.map((at) => at.owner)).toEqual([owner, owner, undefined]);
});

test("an engine that fences a commit without an owner is a defect, and the input fails", async () => {
  const { keepers } = await setUp({ commit: async () => FENCED });
  await expect(keepers.submit(e, [COUNT], add)).rejects.toThrow("without an owner, yet fenced");
});
