import { describe, expect, it } from "vitest";
import { type Engine, NODE_ALIVE_MS, NODE_RENEW_MS } from "../../packages/server/src/engine/contract.ts";
import { NodeNetwork, type NodeWeather, type SimNode } from "./node-network.ts";
import { sharedStorage } from "./storage.ts";
import { type Process, SimWorld } from "./world.ts";

const MESSAGES = 60;
const FAIR: NodeWeather = {
  maxMs: 0,
  stalls: 0,
  stallMs: 0,
  lost: 0,
  doubled: 0,
  cuts: 0,
  cutMs: 0,
  lapses: 0,
};

/**
 * Two nodes that send each other and themselves a number every 10 ms; returns what each received, as `from>to number`, in
 * order.
 */
async function talk(seed: number, weather?: NodeWeather): Promise<string[]> {
  const world = new SimWorld(seed);
  const network = new NodeNetwork(world, world.random.branch(), weather);
  const [a, b] = [network.join(world.process("a")), network.join(world.process("b"))];
  const names = new Map([a, b].map((node, i) => [node.id, "ab"[i]!]));
  const heard: string[] = [];
  const listen = (node: SimNode) =>
    node.onTold(([number], from) => heard.push(`${names.get(from)}>${names.get(node.id)} ${number}`));
  listen(a);
  listen(b);
  for (let i = 0; i < MESSAGES; i++) {
    world.schedule("tell", i * 10, () => {
      for (const from of [a, b]) for (const to of [a, b]) from.tell(to.id, Uint8Array.of(i));
    });
  }
  await passed(world, 20_000);
  return heard;
}

/** Runs every event of this time. */
async function passed(world: SimWorld, ms: number): Promise<void> {
  let isOver = false;
  world.schedule("end", ms, () => {
    isOver = true;
  });
  await world.run(() => isOver, 100_000);
}

const LINKS = ["a>a", "a>b", "b>a", "b>b"];
const on = (link: string, heard: readonly string[]): number[] =>
  heard.filter((line) => line.startsWith(`${link} `)).map((line) => Number(line.slice(link.length)));
const all = Array.from({ length: MESSAGES }, (_, i) => i);

describe("the network between simulated nodes", () => {
  it("carries every message once, in order, without faults", async () => {
    const heard = await talk(1, FAIR);
    for (const link of LINKS) expect(on(link, heard)).toEqual(all);
  });

  it("loses, repeats, delays and reorders messages, and invents none", async () => {
    const seen = { lost: 0, doubled: 0, reordered: 0 };
    for (let seed = 1; seed <= 40; seed++) {
      const heard = await talk(seed);
      for (const link of LINKS) {
        const numbers = on(link, heard);
        expect(numbers.filter((number) => !all.includes(number))).toEqual([]);
        const once = new Set(numbers);
        // Between two nodes, a cut also loses messages.
        if (once.size < MESSAGES && link[0] === link[2]) seen.lost++;
        if (once.size < numbers.length) seen.doubled++;
        if ([...once].some((number, i) => number < [...once][i - 1]!)) seen.reordered++;
      }
      expect(heard.length).toBe(LINKS.reduce((sum, link) => sum + on(link, heard).length, 0));
    }
    for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(5);
  });

  it("partitions nodes from each other in both directions, and never from themselves", async () => {
    const heard = await talk(1, { ...FAIR, cuts: 1, cutMs: 100 });
    expect(LINKS.map((link) => on(link, heard).length)).toEqual([MESSAGES, 0, 0, MESSAGES]);
    const sometimes = await talk(1, { ...FAIR, cuts: 0.5, cutMs: 100 });
    const there = on("a>b", sometimes);
    expect(there.length).toBeGreaterThan(0);
    expect(there.length).toBeLessThan(MESSAGES);
    // Both directions meet the same cut, whichever asks first.
    expect(on("b>a", sometimes)).toEqual(there);
  });

  it("behaves the same for the same seed", async () => {
    expect(await talk(7)).toEqual(await talk(7));
  });

  it("sometimes omits a living node from a list, and never the node that asks", async () => {
    const world = new SimWorld(1);
    const network = new NodeNetwork(world, world.random.branch(), { ...FAIR, lapses: 1 });
    const [a, b] = [network.join(world.process("a")), network.join(world.process("b"))];
    expect([a, b].map((node) => node.nodes().map(({ id }) => id))).toEqual([[a.id], [b.id]]);
    network.calm();
    expect(a.nodes()).toHaveLength(2);
  });

  it("delivers nothing to a process that died meanwhile", async () => {
    const world = new SimWorld(1);
    const network = new NodeNetwork(world, world.random.branch(), { ...FAIR, maxMs: 100 });
    const process = world.process("b");
    const [a, b] = [network.join(world.process("a")), network.join(process)];
    let heard = 0;
    b.onTold(() => heard++);
    world.schedule("dies", 50, () => process.end());
    for (let i = 0; i < MESSAGES; i++) a.tell(b.id, Uint8Array.of(i));
    await passed(world, 1_000);
    expect(heard).toBeGreaterThan(0);
    expect(heard).toBeLessThan(MESSAGES);
  });
});

describe("the nodes of a shared simulated storage", () => {
  /** Nodes over one storage, without faults. */
  async function cluster(): Promise<{ world: SimWorld; processes: Process[]; engines: Engine[] }> {
    const world = new SimWorld(1);
    const storage = sharedStorage(world);
    storage.calm();
    const processes = ["a", "b"].map((name) => world.process(name));
    return { world, processes, engines: await Promise.all(processes.map((process) => storage.open(process))) };
  }

  const listed = async (world: SimWorld, engine: Engine): Promise<string[]> => {
    let ids: string[] | undefined;
    void Promise.resolve(engine.nodes()).then((found) => {
      ids = found.map(({ id }) => id).sort();
    });
    await world.run(() => ids !== undefined, 1_000);
    return ids!;
  };

  it("reach each other by their listed ids", async () => {
    const { world, engines } = await cluster();
    const [a, b] = engines as [Engine, Engine];
    expect(await listed(world, a)).toEqual([a.node, b.node].sort());
    const heard: string[] = [];
    b.onTold((bytes, from) => heard.push(`${bytes} from ${from}`));
    a.tell(b.node, Uint8Array.of(1, 2));
    a.tell("unknown", Uint8Array.of(3));
    await passed(world, 100);
    expect(heard).toEqual([`1,2 from ${a.node}`]);
  });

  it("list a killed node until its record ends, and then no longer", async () => {
    const { world, processes, engines } = await cluster();
    const [a, b] = engines as [Engine, Engine];
    await passed(world, NODE_RENEW_MS * 3 + 500);
    processes[1]!.end();
    await passed(world, NODE_ALIVE_MS - 1_000);
    expect(await listed(world, a)).toEqual([a.node, b.node].sort());
    await passed(world, 1_000);
    expect(await listed(world, a)).toEqual([a.node]);
  });

  it("stop listing a node that closed at once", async () => {
    const { world, engines } = await cluster();
    const [a, b] = engines as [Engine, Engine];
    await b.close();
    expect(await listed(world, a)).toEqual([a.node]);
  });
});
