import { expect, test } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import type { World } from "../core/world.ts";
import { type Engine, EngineError, entity, type Owner } from "./contract.ts";
import { put } from "./draft.ts";
import { FENCED, Keepers, type Rule } from "./keeper.ts";
import { openMemory } from "./memory/memory.ts";
import { OwnedEntity } from "./owned-entity.ts";
import { jsonTable } from "./table.ts";
import type { Term } from "./term.ts";

const counts = jsonTable<number>("count");
const COUNT = counts.at("");
const e = entity("p", "group", "a");
const LEASE_MS = 3_000;
const RETRY_MS = 100;

const add: Rule<number> = (view) => {
  const count = (view.get(counts, "") ?? 0) + 1;
  return { outcome: count, changes: [put(counts, "", count)] };
};

/** The fate of a node's claims and releases: none, an error before or after the engine has acted, or no answer. */
type Wire = "whole" | "lost-request" | "lost-reply" | "hung";

class Node {
  wire: Wire = "whole";
  /** How far this node's clock is ahead. Its timers are not moved by it. */
  aheadMs = 0;
  readonly story: string[] = [];
  readonly faults: string[] = [];
  readonly terms: Term[] = [];
  /** The ownership that each claim was to renew. */
  readonly claims: (Owner | undefined)[] = [];
  readonly owned: OwnedEntity;
  readonly keepers: Keepers;
  private readonly waiting: (() => void)[] = [];

  constructor(
    readonly name: string,
    world: World,
    private readonly memory: Engine,
  ) {
    const local: World = Object.assign(Object.create(world) as World, { now: () => world.now() + this.aheadMs });
    const claim: Engine["claim"] = (_, node, ttlMs, held) => this.claim(node, ttlMs, held);
    const release: Engine["release"] = (_, owner) => this.send(() => memory.release(e, owner));
    const engine: Engine = Object.assign(Object.create(memory) as Engine, { claim, release });
    this.keepers = new Keepers(engine, setImmediate);
    const parts = {
      engine,
      keepers: this.keepers,
      world: local,
      node: name,
      limits: { leaseMs: LEASE_MS, retryMs: RETRY_MS },
      report: (what: string, fault: unknown) => void this.faults.push(`${what}: ${(fault as Error).message}`),
    };
    this.owned = new OwnedEntity(parts, e, {
      gained: (term) => {
        this.terms.push(term);
        this.story.push("gained");
      },
      lost: (term, why) => {
        expect(term).toBe(this.terms.at(-1));
        expect(term.isHeld()).toBe(false);
        this.story.push(why);
      },
    });
  }

  get last(): Term {
    return this.terms.at(-1)!;
  }

  /** The hung calls continue as if they had been slow. */
  unhang(): void {
    this.wire = "whole";
    for (const go of this.waiting.splice(0)) go();
  }

  private claim(node: string, ttlMs: number, held?: Owner): ReturnType<Engine["claim"]> {
    this.claims.push(held);
    return this.send(() => this.memory.claim(e, node, ttlMs, held));
  }

  private async send<T>(work: () => Promise<T>): Promise<T> {
    const { wire } = this;
    if (wire === "lost-request") throw new EngineError("unavailable", "no answer");
    const answer = await work();
    if (wire === "lost-reply") throw new EngineError("unavailable", "no answer");
    if (wire === "hung") await new Promise<void>((resolve) => this.waiting.push(resolve));
    return answer;
  }
}

function setUp(...names: string[]) {
  const world = manualWorld(1);
  const memory = openMemory({ world });
  const nodes = names.map((name) => new Node(name, world, memory));
  const turns = async () => {
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  /** Advances time in steps, so that the consequences of an answer happen at their time. */
  const pass = async (ms: number) => {
    for (let leftMs = ms; leftMs > 0; leftMs -= 10) {
      world.advance(Math.min(10, leftMs));
      await turns();
    }
  };
  const start = async (node: Node) => {
    node.owned.start();
    await turns();
  };
  return { world, memory, nodes: nodes as [Node, Node], turns, pass, start };
}

test("an entity without an owner is gained at once and kept by renewals, under the same ownership", async () => {
  const { nodes, start, pass } = setUp("a");
  const [a] = nodes;
  await start(a);
  const { owner } = a.last;
  await pass(5 * LEASE_MS);
  expect(a.story).toEqual(["gained"]);
  expect(a.owned.term?.owner).toEqual(owner);
  expect(await a.last.submit([COUNT], add)).toBe(1);
});

test("while another node owns the entity, a node knows the owner and claims seldom", async () => {
  const { world, nodes, start, pass } = setUp("a", "b");
  const [a, b] = nodes;
  await start(a);
  await start(b);
  await pass(10 * LEASE_MS);
  expect(b.story).toEqual([]);
  expect(b.owned.term).toBeUndefined();
  expect(b.owned.holder).toMatchObject({ kind: "held", node: "a" });
  expect(b.owned.holder!.untilMs).toBeGreaterThan(world.now());
  expect(a.owned.holder).toBeUndefined();
  // Jitter leaves at least half of the longest wait, which is the time between renewals. A few shorter waits come first.
  expect(b.claims.length).toBeLessThan(10 * 6 + 6);
  expect(a.faults.concat(b.faults)).toEqual([]);
});

test("stopping ends the term first and then releases it, so that another node need not wait for the lease", async () => {
  const { nodes, start, pass, turns } = setUp("a", "b");
  const [a, b] = nodes;
  await start(a);
  await start(b);
  await pass(LEASE_MS);
  const stopped = a.owned.stop();
  expect(a.story).toEqual(["gained", "stopped"]);
  expect(await a.last.submit([COUNT], add)).toBe(FENCED);
  await stopped;
  await pass(LEASE_MS / 3 + 10);
  expect(b.story).toEqual(["gained"]);
  expect(b.last.owner.epoch).toBeGreaterThan(a.last.owner.epoch);
  await turns();
  expect(a.story).toEqual(["gained", "stopped"]);
});

test("a dead owner is replaced when its lease is over, within one retry", async () => {
  const { memory, world, nodes, start, pass } = setUp("a", "b");
  const [, b] = nodes;
  expect((await memory.claim(e, "dead", LEASE_MS)).kind).toBe("owner");
  const untilMs = world.now() + LEASE_MS;
  await start(b);
  await pass(LEASE_MS - 10);
  expect(b.story).toEqual([]);
  await pass(untilMs + RETRY_MS + 10 - world.now());
  expect(b.story).toEqual(["gained"]);
});

test("after a pause longer than the lease the term is over before it is renewed, and the next one is new", async () => {
  const { nodes, start, pass, memory } = setUp("a");
  const [a] = nodes;
  await start(a);
  const { owner } = a.last;
  a.aheadMs += LEASE_MS;
  expect(a.last.isHeld()).toBe(false);
  // After the clock is set back, it would say that the lease still runs.
  a.aheadMs = 0;
  expect(a.last.isHeld()).toBe(false);
  expect(a.owned.term).toBeUndefined();
  let commits = 0;
  const { commit } = memory;
  memory.commit = (...args) => {
    commits++;
    return commit.apply(memory, args);
  };
  expect(await a.last.submit([COUNT], add)).toBe(FENCED);
  expect(commits).toBe(0);
  await pass(LEASE_MS / 3 + 10);
  expect(a.story).toEqual(["gained", "expired", "gained"]);
  expect(a.claims).toEqual([undefined, undefined]);
  expect(a.last.owner.epoch).toBeGreaterThan(owner.epoch);
});

test("a fenced commit ends the term before its caller is told, and the entity is claimed anew", async () => {
  const { memory, nodes, start, turns } = setUp("a");
  const [a] = nodes;
  await start(a);
  const term = a.last;
  await memory.release(e, term.owner);
  const outcome = await term.submit([COUNT], add).then((told) => [told, ...a.story.slice(0, 2)]);
  expect(outcome).toEqual([FENCED, "gained", "fenced"]);
  await turns();
  expect(a.story).toEqual(["gained", "fenced", "gained"]);
  expect(a.last.owner.epoch).toBeGreaterThan(term.owner.epoch);
  expect(await term.submit([COUNT], add)).toBe(FENCED);
  expect(await a.last.submit([COUNT], add)).toBe(1);
});

test("a renewal that finds another owner ends the term", async () => {
  const { memory, nodes, start, pass } = setUp("a");
  const [a] = nodes;
  await start(a);
  await memory.release(e, a.last.owner);
  await memory.claim(e, "b", LEASE_MS);
  await pass(LEASE_MS / 3 + 10);
  expect(a.story).toEqual(["gained", "replaced"]);
  expect(a.owned.holder?.node).toBe("b");
});

test("a renewal that gets a new ownership ends the term, and releases that ownership before the next claim", async () => {
  const { memory, nodes, start, pass } = setUp("a");
  const [a] = nodes;
  await start(a);
  await memory.release(e, a.last.owner);
  await pass(LEASE_MS / 3 + 10);
  expect(a.story).toEqual(["gained", "replaced", "gained"]);
  expect(await a.last.submit([COUNT], add)).toBe(1);
});

test("a failed renewal is retried, and one that succeeds in time keeps the term", async () => {
  const { nodes, start, pass } = setUp("a");
  const [a] = nodes;
  await start(a);
  a.wire = "lost-request";
  await pass(LEASE_MS * 0.8);
  expect(a.faults.length).toBeGreaterThan(1);
  a.wire = "whole";
  await pass(5 * LEASE_MS);
  expect(a.story).toEqual(["gained"]);
});

for (const wire of ["lost-request", "hung"] as const) {
  test(`without an answer to its renewals (${wire}) an owner stops before the engine grants another claim`, async () => {
    const { world, memory, nodes, start, pass } = setUp("a");
    const [a] = nodes;
    await start(a);
    a.wire = wire;
    await pass(LEASE_MS * 0.9);
    expect(a.story).toEqual(["gained", "expired"]);
    const other = await memory.claim(e, "b", LEASE_MS);
    expect(other).toMatchObject({ kind: "held", node: "a" });
    expect((other as { untilMs: number }).untilMs).toBeGreaterThan(world.now());
  });
}

test("a renewal that is answered after the term is over does not bring it back", async () => {
  const { nodes, start, pass, turns } = setUp("a");
  const [a] = nodes;
  await start(a);
  const term = a.last;
  a.wire = "hung";
  await pass(LEASE_MS);
  expect(a.story).toEqual(["gained", "expired"]);
  a.unhang();
  await turns();
  expect(term.isHeld()).toBe(false);
  expect(a.story).toEqual(["gained", "expired", "gained"]);
  expect(a.last.owner.epoch).toBeGreaterThan(term.owner.epoch);
});

test("a claim whose answer was lost ends with its lease, and is then made again", async () => {
  const { nodes, start, pass } = setUp("a");
  const [a] = nodes;
  a.wire = "lost-reply";
  await start(a);
  a.wire = "whole";
  await pass(LEASE_MS / 3);
  expect(a.story).toEqual([]);
  expect(a.owned.holder?.node).toBe("a");
  await pass(LEASE_MS);
  expect(a.story).toEqual(["gained"]);
});

test("a claim that is answered after its lease is over is released, and no term begins", async () => {
  const { nodes, start, pass, turns } = setUp("a");
  const [a] = nodes;
  a.wire = "hung";
  await start(a);
  await pass(LEASE_MS);
  a.unhang();
  await turns();
  expect(a.story).toEqual([]);
  await pass(RETRY_MS);
  expect(a.story).toEqual(["gained"]);
});

test("a clock that is set back does not prolong a term", async () => {
  const { nodes, start, pass } = setUp("a");
  const [a] = nodes;
  await start(a);
  a.wire = "lost-request";
  a.aheadMs = -10 * LEASE_MS;
  await pass(LEASE_MS * 0.9);
  expect(a.story).toEqual(["gained", "expired"]);
  a.aheadMs = -20 * LEASE_MS;
  expect(a.last.isHeld()).toBe(false);
});

test("a clock that is set back during a claim does not prolong the term that the claim gets", async () => {
  const { nodes, start, pass, turns } = setUp("a");
  const [a] = nodes;
  a.wire = "hung";
  await start(a);
  a.aheadMs = -10 * LEASE_MS;
  a.unhang();
  await turns();
  expect(a.story).toEqual(["gained"]);
  a.wire = "lost-request";
  await pass(LEASE_MS * 0.9);
  expect(a.story).toEqual(["gained", "expired"]);
});

test("a stop during a claim releases the ownership that the claim gets", async () => {
  const { memory, nodes, start, turns } = setUp("a");
  const [a] = nodes;
  a.wire = "hung";
  await start(a);
  let isStopped = false;
  const stopped = a.owned.stop().then(() => {
    isStopped = true;
  });
  await turns();
  expect(isStopped).toBe(false);
  a.unhang();
  await stopped;
  expect(a.story).toEqual([]);
  expect((await memory.claim(e, "b", LEASE_MS)).kind).toBe("owner");
});

test("an engine that keeps failing gets few claims", async () => {
  const { nodes, start, pass } = setUp("a");
  const [a] = nodes;
  a.wire = "lost-request";
  await start(a);
  await pass(10 * LEASE_MS);
  expect(a.claims.length).toBeLessThan(10 * 6 + 6);
  a.wire = "whole";
  await pass(LEASE_MS / 3 + 10);
  expect(a.story).toEqual(["gained"]);
});

test("a feature whose callback throws is reported, and ownership goes on", async () => {
  const { nodes, start, pass } = setUp("a");
  const [a] = nodes;
  a.story.push = () => {
    throw new Error("a defect");
  };
  await start(a);
  await pass(LEASE_MS * 2);
  expect(a.faults).toEqual(["a callback of the owner of p/group/a threw; the ownership continues: a defect"]);
  expect(a.owned.term).toBe(a.last);
});
