import { expect, test } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { type Effect, type Engine, EngineError, entity } from "./contract.ts";
import { put } from "./draft.ts";
import { KEEPER_LIMITS, Keepers, type Rule } from "./keeper.ts";
import { openMemory } from "./memory/memory.ts";
import { jsonTable } from "./table.ts";

const counts = jsonTable<number>("count");
const COUNT = counts.at("");
const e = entity("p", "test", "a");

/** Adds one, unless the count has reached ten. */
const add: Rule<string> = (view) => {
  const count = view.get(counts, "") ?? 0;
  if (count >= 10) return { outcome: "full" };
  return { outcome: `now ${count + 1}`, changes: [put(counts, "", count + 1)] };
};

/** A memory engine that counts commits and holds each until the test lets it through. */
async function gatedEngine(over: Partial<Engine> = {}) {
  const memory = await openMemory({ world: manualWorld(1) });
  const commits: (readonly Effect[])[] = [];
  let open = true;
  let waiting: (() => void)[] = [];
  const engine: Engine = Object.assign(Object.create(memory) as Engine, {
    commit: async (...args: Parameters<Engine["commit"]>) => {
      commits.push(args[2]);
      if (!open) await new Promise<void>((resolve) => waiting.push(resolve));
      return memory.commit(...args);
    },
    ...over,
  });
  const gate = {
    shut: () => {
      open = false;
    },
    open: () => {
      open = true;
      for (const go of waiting) go();
      waiting = [];
    },
  };
  return { engine, memory, commits, gate, keepers: new Keepers(engine, setImmediate, 10) };
}

const turns = async (count = 5) => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
};

test("inputs that arrive together share one commit and see each other's changes", async () => {
  const { keepers, commits } = await gatedEngine();
  const outcomes = await Promise.all([1, 2, 3].map(() => keepers.submit(e, [COUNT], add)));
  expect(outcomes).toEqual(["now 1", "now 2", "now 3"]);
  expect(commits).toHaveLength(1);
});

test("inputs that arrive during a commit wait for it and share the next one", async () => {
  const { keepers, commits, gate } = await gatedEngine();
  gate.shut();
  const first = keepers.submit(e, [COUNT], add);
  await turns();
  const later = [keepers.submit(e, [COUNT], add), keepers.submit(e, [COUNT], add)];
  await turns();
  expect(commits).toHaveLength(1);
  gate.open();
  expect(await Promise.all([first, ...later])).toEqual(["now 1", "now 2", "now 3"]);
  expect(commits).toHaveLength(2);
});

test("a refusal that rests on an uncommitted change is released only when that change is durable", async () => {
  const { keepers, gate } = await gatedEngine();
  for (let i = 0; i < 9; i++) await keepers.submit(e, [COUNT], add);
  gate.shut();
  const told: string[] = [];
  const tenth = keepers.submit(e, [COUNT], add).then((outcome) => told.push(outcome));
  const refused = keepers.submit(e, [COUNT], add).then((outcome) => told.push(outcome));
  await turns();
  expect(told).toEqual([]);
  gate.open();
  await Promise.all([tenth, refused]);
  expect(told).toEqual(["now 10", "full"]);
});

test("after a conflict the inputs run again on the other writer's state", async () => {
  const { keepers, memory } = await gatedEngine();
  const other = new Keepers(memory, setImmediate);
  await keepers.submit(e, [COUNT], add);
  await other.submit(e, [COUNT], add);
  expect(await keepers.submit(e, [COUNT], add)).toBe("now 3");
});

test("inputs that a conflict runs again stay ahead of an input that arrived meanwhile", async () => {
  const { keepers, memory, gate } = await gatedEngine();
  await keepers.submit(e, [COUNT], add);
  gate.shut();
  const early = [keepers.submit(e, [COUNT], add), keepers.submit(e, [COUNT], add)];
  await turns();
  const late = keepers.submit(e, [COUNT], add);
  await new Keepers(memory, setImmediate).submit(e, [COUNT], add);
  gate.open();
  expect(await Promise.all([...early, late])).toEqual(["now 3", "now 4", "now 5"]);
});

test("conflicts are counted in a row: a commit that succeeds in between starts the count anew", async () => {
  const { engine, memory } = await gatedEngine();
  const keepers = new Keepers(engine, setImmediate, 10, { ...KEEPER_LIMITS, conflicts: 2 });
  const other = new Keepers(memory, setImmediate);
  for (let round = 0; round < 4; round++) {
    await other.submit(e, [COUNT], add);
    expect(await keepers.submit(e, [COUNT], add)).toBe(`now ${2 * round + 2}`);
  }
});

test("two writers of one entity both make progress and lose nothing", async () => {
  const { keepers, memory } = await gatedEngine();
  const other = new Keepers(memory, setImmediate);
  const free: Rule<number> = (view) => {
    const count = (view.get(counts, "") ?? 0) + 1;
    return { outcome: count, changes: [put(counts, "", count)] };
  };
  const all: Promise<number>[] = [];
  for (let i = 0; i < 200; i++) all.push((i % 2 ? keepers : other).submit(e, [COUNT], free));
  const outcomes = await Promise.all(all);
  expect(outcomes.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, i) => i + 1));
});

test("a failed commit refuses its inputs once, and the next ones start from the stored state", async () => {
  const { keepers, engine } = await gatedEngine();
  await keepers.submit(e, [COUNT], add);
  const commit = engine.commit;
  let runs = 0;
  const counted: Rule<string> = (view, now) => {
    runs++;
    return add(view, now);
  };
  engine.commit = () => Promise.reject(new EngineError("storage-full", "no space"));
  await expect(keepers.submit(e, [COUNT], counted)).rejects.toMatchObject({ code: "storage-full" });
  engine.commit = commit;
  expect(runs).toBe(1);
  expect(await keepers.submit(e, [COUNT], add)).toBe("now 2");
});

test("a rule that throws fails alone", async () => {
  const { keepers } = await gatedEngine();
  const broken: Rule<string> = () => {
    throw new Error("a defect");
  };
  const results = await Promise.allSettled([
    keepers.submit(e, [COUNT], add),
    keepers.submit(e, [COUNT], broken),
    keepers.submit(e, [COUNT], add),
  ]);
  expect(results.map((result) => (result.status === "fulfilled" ? result.value : result.reason.message))).toEqual([
    "now 1",
    "a defect",
    "now 2",
  ]);
});

test("if other nodes write too, a refusal is checked against the newest state", async () => {
  const { keepers, memory } = await gatedEngine({ exclusive: false });
  const other = new Keepers(memory, setImmediate);
  for (let i = 0; i < 10; i++) await keepers.submit(e, [COUNT], add);
  expect(await keepers.submit(e, [COUNT], add)).toBe("full");
  await other.submit(e, [COUNT], () => ({ outcome: undefined, changes: [put(counts, "", 0)] }));
  expect(await keepers.submit(e, [COUNT], add)).toBe("now 1");
});

test("more inputs than the queue holds are refused as overloaded, and earlier inputs are not affected", async () => {
  const { engine, gate } = await gatedEngine();
  const keepers = new Keepers(engine, setImmediate, 10, { ...KEEPER_LIMITS, queuedInputs: 2 });
  gate.shut();
  const first = keepers.submit(e, [COUNT], add);
  await turns();
  const waiting = [keepers.submit(e, [COUNT], add), keepers.submit(e, [COUNT], add)];
  await expect(keepers.submit(e, [COUNT], add)).rejects.toMatchObject({ code: "overloaded" });
  gate.open();
  expect(await Promise.all([first, ...waiting])).toEqual(["now 1", "now 2", "now 3"]);
});

test("idle keepers make room for new ones and come back with the stored state", async () => {
  const { keepers } = await gatedEngine();
  for (let i = 0; i < 100; i++) await keepers.submit(entity("p", "test", `${i}`), [COUNT], add);
  expect(keepers.size).toBeLessThanOrEqual(10);
  expect(await keepers.submit(entity("p", "test", "0"), [COUNT], add)).toBe("now 2");
});

test("a keeper at work makes no room, because its entity would get a second commit in flight", async () => {
  const { engine, commits, gate } = await gatedEngine();
  const keepers = new Keepers(engine, setImmediate, 1);
  gate.shut();
  const first = keepers.submit(e, [COUNT], add);
  await turns();
  const elsewhere = keepers.submit(entity("p", "test", "b"), [COUNT], add);
  const second = keepers.submit(e, [COUNT], add);
  await turns();
  expect(commits).toHaveLength(2);
  gate.open();
  expect(await Promise.all([first, elsewhere, second])).toEqual(["now 1", "now 1", "now 2"]);
});

test("after a destroy the next input sees an entity that does not exist", async () => {
  const { keepers } = await gatedEngine();
  await keepers.submit(e, [COUNT], add);
  const results = await Promise.all([
    keepers.submit(e, [COUNT], () => ({ outcome: "gone", changes: [{ op: "destroy" }] })),
    keepers.submit(e, [COUNT], (view) => ({ outcome: view.exists })),
    keepers.submit(e, [COUNT], add),
  ]);
  expect(results).toEqual(["gone", false, "now 1"]);
});

test("an input that waited too long behind a hung commit is refused, and its rule never runs", async () => {
  const { memory } = await gatedEngine();
  let now = 0;
  let fail = (_: Error) => {};
  const hung = new Promise<never>((_, reject) => {
    fail = reject;
  });
  const { engine } = await gatedEngine({ deadline: { ms: 100, now: () => now }, commit: () => hung });
  const keepers = new Keepers(engine, setImmediate, 10);
  const first = keepers.submit(e, [COUNT], add).catch((fault) => fault.message);
  await turns();
  const ran: string[] = [];
  const late = keepers.submit(e, [COUNT], () => {
    ran.push("late");
    return { outcome: "late" };
  });
  const refused = expect(late).rejects.toMatchObject({ code: "unavailable" });
  now = 60;
  const timely = keepers.submit(e, [COUNT], () => {
    ran.push("timely");
    return { outcome: "timely" };
  });
  now = 110;
  Object.assign(engine, { commit: memory.commit.bind(memory) });
  fail(new EngineError("unavailable", "hung"));
  await refused;
  expect(await timely).toBe("timely");
  expect(await first).toBe("hung");
  expect(ran).toEqual(["timely"]);
});
