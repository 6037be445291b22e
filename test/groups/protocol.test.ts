import { describe, expect, test } from "vitest";
import type { QueueConfig } from "../../packages/server/src/groups/leader-state.ts";
import type { TestMember } from "./protocol-member.ts";
import { CALM, ProtocolWorld, TIMERS } from "./protocol-world.ts";

const { SLUICE_SEED, SLUICE_SEEDS, SLUICE_DEEP } = process.env;
const SEEDS = Number(SLUICE_SEEDS ?? (SLUICE_DEEP === "1" ? 20_000 : 200));

const MS_PER_SEED = 100;

type QueueOf = (seed: number) => QueueConfig | undefined;

/** Runs the play for many seeds; a failure names its seed. */
function seeds(name: string, play: (world: ProtocolWorld) => void, queueOf: QueueOf = () => undefined): void {
  const count = SEEDS;
  test(
    `${name} (${count} seeds)`,
    () => {
      const [first, last] = SLUICE_SEED === undefined ? [1, count] : [Number(SLUICE_SEED), Number(SLUICE_SEED)];
      for (let seed = first; seed <= last; seed++) {
        const world = new ProtocolWorld(seed, undefined, queueOf(seed));
        play(world);
        if (world.ledger.violations.length === 0) continue;
        const shown = [...world.ledger.violations.slice(0, 5), ...world.ledger.story.slice(-100)];
        throw new Error(`SLUICE_SEED=${seed} broke a promise:\n${shown.join("\n")}`);
      }
    },
    90_000 + count * MS_PER_SEED,
  );
}

/** Ends all trouble; every message must then be processed, and the streams be spread evenly. */
function settle(world: ProtocolWorld): void {
  world.weather = CALM;
  for (const leader of world.leaders) leader.isCutOff = false;
  const isLeft = [...world.members].every(({ borrower }) => borrower.status === "unsubscribing");
  if (isLeft) world.join("last");
  world.run(30_000);
  world.audit();
  if (world.queue !== undefined) return;
  const counts = [...world.members].map(({ open }) => open.size);
  if (Math.max(...counts) - Math.min(...counts) > 1) world.ledger.object(`streams are held as ${counts}`);
}

function publishAll(world: ProtocolWorld, streams: number, most = 20): void {
  for (let i = 0; i < streams; i++) world.publish(`s${i}`, world.random.between(1, most));
}

function anyMember({ members, random }: ProtocolWorld): TestMember | undefined {
  return members.size === 0 ? undefined : random.pick([...members]);
}

/** A world in which every message arrives soon, with these streams of ten messages each. */
function calmWorld(streams: number): ProtocolWorld {
  const world = new ProtocolWorld(1, CALM);
  for (let i = 0; i < streams; i++) world.publish(`s${i}`, 10);
  return world;
}

/** Loses the first messages of a type, in either direction; returns how many were lost. */
function lose(world: ProtocolWorld, type: string, count: number): () => number {
  let lost = 0;
  world.isLost = (message) => message.type === type && lost < count && ++lost > 0;
  return () => lost;
}

const held = ({ open }: TestMember) => [...open.keys()].sort();

describe("In a network that loses nothing", () => {
  test("two members share the streams evenly, and process each message once", () => {
    const world = calmWorld(5);
    const members = [world.join("a"), world.join("b")];
    settle(world);
    expect(members.map(({ open }) => open.size).sort()).toEqual([2, 3]);
    expect(world.ledger.violations).toEqual([]);
    expect(world.ledger.duplicates).toBe(0);
  });

  test("a third member takes over no more streams than its share, and what was in flight is drained first", () => {
    const world = calmWorld(6);
    world.join("a", { processMs: 200 });
    world.join("b", { processMs: 200 });
    world.run(300);
    const { moves } = world.ledger;
    const third = world.join("c");
    settle(world);
    expect(third.open.size).toBe(2);
    expect(world.ledger.moves - moves).toBe(2);
    expect(world.ledger.duplicates).toBe(0);
  });

  test("a member that leaves hands its streams over at once", () => {
    const world = calmWorld(4);
    const [a, b] = [world.join("a"), world.join("b")];
    world.run(2_000);
    a.step({ type: "on_disconnect" });
    world.run(50);
    expect(held(b)).toEqual(["s0", "s1", "s2", "s3"]);
    settle(world);
    expect(world.ledger.duplicates).toBe(0);
  });

  test("a member that unsubscribes drains first, and is told when its last progress is stored", () => {
    const world = calmWorld(4);
    const a = world.join("a", { processMs: 300 });
    world.join("b");
    world.run(1_000);
    a.step({ type: "on_unsubscribe" });
    expect(a.isUnsubscribed).toBe(false);
    settle(world);
    expect(a.isUnsubscribed).toBe(true);
    expect(world.ledger.violations).toEqual([]);
    expect(world.ledger.duplicates).toBe(0);
  });

  test("an unsubscribe that takes too long ends with what was processed", () => {
    const world = calmWorld(1);
    const a = world.join("a", { processMs: 100_000 });
    world.run(500);
    a.step({ type: "on_unsubscribe" });
    world.run(TIMERS.unsubscribeMs - 100);
    expect(a.isUnsubscribed).toBe(false);
    world.run(200);
    expect(a.isUnsubscribed).toBe(true);
    settle(world);
    expect(world.ledger.violations).toEqual([]);
  });

  test("a dead member's streams are handed over after the timeout, also while the others are busy", () => {
    const world = calmWorld(2);
    const [a, b] = [world.join("a"), world.join("b")];
    world.run(2_000);
    a.die();
    for (let ms = 0; ms < TIMERS.memberTimeoutMs + 1_000; ms += 10) {
      world.publish("s0", 1);
      world.publish("s1", 1);
      world.run(10);
    }
    expect(held(b)).toEqual(["s0", "s1"]);
    settle(world);
    expect(world.ledger.violations).toEqual([]);
  });

  test("ten quick resubscriptions lose nothing and deliver nothing twice", () => {
    const world = calmWorld(3);
    let a = world.join("a");
    world.join("b");
    for (let i = 0; i < 10; i++) {
      world.run(i * 20);
      a.step({ type: "on_unsubscribe" });
      a = world.join("a");
      world.publish("s1", 3);
    }
    settle(world);
    expect(world.ledger.violations).toEqual([]);
    expect(world.ledger.duplicates).toBe(0);
  });

  test("a member that returns under its name gets its streams back if they are free", () => {
    const world = calmWorld(4);
    const [a, b] = [world.join("a"), world.join("b")];
    world.run(2_000);
    const before = held(a);
    // Both leave, so that all streams are free.
    for (const member of [a, b]) member.step({ type: "on_disconnect" });
    world.run(1_000);
    const [b2, a2] = [world.join("b"), world.join("a")];
    settle(world);
    expect(held(a2)).toEqual(before);
    expect(held(b2)).not.toEqual(before);
  });

  test("a member that stalls keeps only its own share waiting", () => {
    const world = calmWorld(4);
    const a = world.join("a", { processMs: 1_000_000 });
    world.run(100);
    const b = world.join("b");
    world.run(5_000);
    expect(held(b).map((path) => world.rows.get(path)?.at.seq)).toEqual([10, 10]);
    expect([...a.open.values()].reduce((sum, { delivered, processed }) => sum + delivered - processed, 0)).toBe(5);
  });

  test("intensive reassignment loses nothing and delivers nothing twice", () => {
    for (let seed = 1; seed <= 30; seed++) {
      const world = new ProtocolWorld(seed, CALM);
      const { random } = world;
      for (let round = 0; round < 25; round++) {
        for (let i = 0; i < 12; i++) world.publish(`s${i}`, random.between(0, 3));
        if (random.chance(0.6) || world.members.size === 0) world.join(`m${random.below(6)}`);
        else anyMember(world)!.step({ type: "on_unsubscribe" });
        world.run(random.between(0, 300));
      }
      settle(world);
      expect(world.ledger.violations, `seed ${seed}`).toEqual([]);
      expect(world.ledger.duplicates, `seed ${seed}`).toBe(0);
    }
  });

  test("a join storm of 20 members settles within a second", () => {
    const world = calmWorld(100);
    for (let i = 0; i < 20; i++) world.join(`m${i}`);
    world.run(1_000);
    expect([...world.members].map(({ open }) => open.size)).toEqual(Array.from({ length: 20 }, () => 5));
  });

  test("a filter gains and loses streams", () => {
    const world = calmWorld(2);
    const [a, b] = [world.join("a"), world.join("b")];
    world.run(1_000);
    world.publish("s2", 10);
    world.publish("s3", 10);
    world.run(1_000);
    expect([a.open.size, b.open.size]).toEqual([2, 2]);
    for (const path of held(a)) world.delete(path);
    settle(world);
    expect([...held(a), ...held(b)]).toHaveLength(2);
    expect(world.ledger.violations).toEqual([]);
  });

  test("a stream that is closed while it is revoked is given back, and no member gets it again", () => {
    const world = calmWorld(2);
    const a = world.join("a", { processMs: 100 });
    world.run(150);
    const b = world.join("b");
    world.run(TIMERS.reassignMs + 20);
    const path = held(a).find((one) => a.open.get(one)!.isDraining)!;
    world.close(path);
    settle(world);
    expect(world.rows.get(path)!.at.seq).toBe(10);
    expect([...held(a), ...held(b)]).not.toContain(path);
    expect(world.ledger.violations).toEqual([]);
  });
});

describe("A leader", () => {
  test("that dies is replaced after its claim, and what it confirmed is not delivered again", () => {
    const world = calmWorld(3);
    world.join("a");
    world.run(1_000);
    world.owner!.isDead = true;
    for (const path of world.logs.keys()) world.publish(path, 5);
    world.run(8_000);
    expect(world.owner!.term).toBe(2);
    settle(world);
    expect(world.ledger.violations).toEqual([]);
  });

  test("that is cut off from the store serves beside its successor for a moment, and confirms nothing", () => {
    const world = calmWorld(3);
    world.join("a");
    world.run(1_000);
    const first = world.owner!;
    first.isCutOff = true;
    world.owner = undefined;
    world.join("b");
    for (const path of world.logs.keys()) world.publish(path, 5);
    world.run(1_000);
    expect(first.isServing && world.owner !== first).toBe(true);
    settle(world);
    expect(world.ledger.violations).toEqual([]);
  });

  test("releases its group a minute after the last member has left", () => {
    const world = calmWorld(1);
    const a = world.join("a");
    world.run(1_000);
    a.step({ type: "on_disconnect" });
    world.run(TIMERS.idleMs - 1_000);
    expect(world.owner).toBeDefined();
    world.run(2_000);
    expect(world.owner).toBeUndefined();
  });
});

describe.each(["grant", "revoke", "revoked", "revoke_finished", "update_progress", "update_progress_response", "ping"])(
  "A lost %s",
  (type) => {
    test("is sent again, and nothing is delivered twice", () => {
      const world = calmWorld(4);
      const lost = lose(world, type, 2);
      const a = world.join("a");
      world.run(800);
      const b = world.join("b");
      settle(world);
      expect(lost()).toBe(2);
      expect([a.open.size, b.open.size]).toEqual([2, 2]);
      expect(a.restarts + b.restarts).toBe(0);
      expect(world.ledger.violations).toEqual([]);
      expect(world.ledger.duplicates).toBe(0);
    });
  },
);

/** Members come, leave and die, streams are written, closed and deleted, and leaders are replaced. */
function trouble(world: ProtocolWorld): void {
  const { random } = world;
  publishAll(world, random.between(1, 6));
  for (let round = random.between(3, 20); round > 0; round--) {
    const act = random.weighted({
      join: 4,
      leave: 2,
      unsubscribe: 2,
      die: 1,
      publish: 4,
      close: 1,
      delete: 1,
      leader: 1,
    });
    const path = world.logs.size === 0 ? undefined : random.pick([...world.logs.keys()]);
    const refusals = world.queue === undefined ? 0 : random.pick([0, 0.2]);
    if (act === "join") world.join(`m${random.below(4)}`, { stalls: random.pick([0, 0.1]), refusals });
    else if (act === "publish") world.publish(`s${random.below(8)}`, 1);
    else if (act === "close" && path !== undefined) world.close(path);
    else if (act === "delete" && path !== undefined) world.delete(path);
    else if (act === "leader" && world.owner !== undefined) {
      const how = random.weighted({ dies: 1, "is cut off": 1, leaves: 1 });
      if (how === "dies") world.owner.isDead = true;
      else if (how === "leaves") world.owner.release();
      else world.owner.isCutOff = true;
    } else if (act === "leave") anyMember(world)?.step({ type: "on_disconnect" });
    else if (act === "unsubscribe") anyMember(world)?.step({ type: "on_unsubscribe" });
    else if (act === "die") anyMember(world)?.die();
    world.ledger.note(`${act} ${path}`);
    world.run(random.between(0, random.pick([50, 1_000, 8_000])));
  }
  settle(world);
}

describe("In a network that loses, doubles and reorders every message", () => {
  seeds("members that come, leave and die process every message in order", trouble);

  // Some leases are shorter than what a slow member takes, so that they run out.
  seeds("members of a queue process every message, and none after its confirmed acknowledgement", trouble, (seed) => ({
    leaseMs: seed % 3 === 0 ? 150 : 3_000,
    maxAttempts: seed % 2 === 0 ? 4 : undefined,
  }));
});
