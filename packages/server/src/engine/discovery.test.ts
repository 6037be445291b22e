import { expect, test } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { type Engine, entity } from "./contract.ts";
import { type Discovered, Discovery } from "./discovery.ts";
import { openMemory } from "./memory/memory.ts";

const KIND = "thing";
const backoff = { firstMs: 100, maxMs: 1_000 };

async function stage(over: Partial<Discovered> = {}, engineOver: Partial<Engine> = {}) {
  const world = manualWorld(1);
  const engine: Engine = Object.assign(Object.create(openMemory({ world })) as Engine, engineOver);
  const make = (project: string, id: string) =>
    engine.commit(entity(project, KIND, id), { rev: 0 }, [
      { op: "put", table: "t", key: "", value: new Uint8Array(1) },
    ]);
  const adopted: string[] = [];
  const reports: string[] = [];
  const broken = new Set<string>();
  const discovery = new Discovery(engine, world, {
    kind: KIND,
    noun: "things",
    adopt: async (project, id) => {
      if (broken.has(id)) throw new Error("broken");
      adopted.push(`${project}/${id}`);
    },
    page: 2,
    backoff,
    report: (what) => reports.push(what),
    ...over,
  });
  const pass = async (ms: number) => {
    world.advance(ms);
    await discovery.ready;
  };
  return { engine, make, adopted, reports, broken, discovery, pass };
}

test("every entity of the kind is adopted, in all projects and beyond one page", async () => {
  const { make, adopted, discovery } = await stage();
  for (const id of ["a", "b", "c"]) await make("p", id);
  await make("q", "a");
  discovery.start();
  await discovery.ready;
  expect(adopted).toEqual(["p/a", "p/b", "p/c", "q/a"]);
});

test("every adoption has a turn of its own, so that requests are served in between", async () => {
  const order: string[] = [];
  const { make, discovery } = await stage({
    adopt: async (_, id) => {
      order.push(id);
      setImmediate(() => order.push("a request"));
    },
  });
  for (const id of ["a", "b", "c"]) await make("p", id);
  discovery.start();
  await discovery.ready;
  expect(order).toEqual(["a", "a request", "b", "a request", "c"]);
});

test("an entity that fails keeps no other from being adopted, and is retried until it succeeds", async () => {
  const { make, adopted, reports, broken, discovery, pass } = await stage();
  for (const id of ["a", "b", "c"]) await make("p", id);
  broken.add("a").add("b");
  discovery.start();
  await discovery.ready;
  expect(adopted).toEqual(["p/c"]);
  await pass(100);
  broken.clear();
  await pass(199);
  expect(adopted).toEqual(["p/c", "p/c"]);
  await pass(1);
  expect(adopted.slice(2)).toEqual(["p/a", "p/b", "p/c"]);
  expect(reports).toEqual(
    [100, 200].map((ms) => `adopting the stored things failed: p/a and 1 more; next attempt in ${ms} ms`),
  );
  await pass(10_000);
  expect(adopted).toHaveLength(5);
});

test("a listing that fails is retried", async () => {
  let isDown = true;
  const down: Partial<Engine> = {
    projects: async () => {
      if (isDown) throw new Error("down");
      return ["p"];
    },
  };
  const { make, adopted, reports, discovery, pass } = await stage({}, down);
  await make("p", "a");
  discovery.start();
  await discovery.ready;
  isDown = false;
  await pass(100);
  expect(adopted).toEqual(["p/a"]);
  expect(reports).toHaveLength(1);
});

test("if other nodes create entities, new ones are found at each interval; otherwise there is one pass", async () => {
  for (const exclusive of [false, true]) {
    const { make, adopted, discovery, pass } = await stage({ recheckMs: 500 }, { exclusive });
    discovery.start();
    await discovery.ready;
    await make("p", "late");
    await pass(500);
    expect(adopted).toEqual(exclusive ? [] : ["p/late"]);
  }
});

test("a successful pass resets the backoff", async () => {
  const { make, reports, broken, discovery, pass } = await stage({ recheckMs: 500 }, { exclusive: false });
  await make("p", "a");
  broken.add("a");
  discovery.start();
  await discovery.ready;
  broken.clear();
  await pass(100);
  broken.add("a");
  await pass(500);
  expect(reports.map((report) => report.split("; ")[1])).toEqual(["next attempt in 100 ms", "next attempt in 100 ms"]);
});

test("after a stop nothing is adopted and nothing is scheduled", async () => {
  const { make, adopted, broken, reports, discovery, pass } = await stage({ recheckMs: 500 }, { exclusive: false });
  for (const id of ["a", "b"]) await make("p", id);
  discovery.start();
  await discovery.stop();
  broken.add("a");
  await pass(10_000);
  expect(adopted.length).toBeLessThan(2);
  expect(reports).toEqual([]);
});
