/** Ownership for a feature on this engine: commits under an owner through keepers, and one owner among contenders. */
import { expect } from "vitest";
import type { Engine, Owner } from "../../../packages/server/src/engine/contract.ts";
import { FENCED, Keepers, type Rule } from "../../../packages/server/src/engine/keeper.ts";
import { OwnedEntity } from "../../../packages/server/src/engine/owned-entity.ts";
import type { Term } from "../../../packages/server/src/engine/term.ts";
import { type Behavior, bytes, type Fixture, stream } from "./fixture.ts";

const a = stream("a");
const LEASE_MS = 2_000;
const RETRY_MS = 50;
const STEP_MS = 10;
const MAX_STEPS = 2_000;

export function ownedEntities(behavior: Behavior): void {
  behavior("returns a fence as a value, to the inputs of that owner alone", async (on) => {
    const keepers = keepersOf(on.engine);
    const owner = await on.engine.claim(a, "first", 60_000);
    expect(await keepers.submit(a, [], append("1"), { owner: owner as Owner })).toBe("done");
    await on.engine.release(a, owner as Owner);
    const outcomes = await Promise.all([
      keepers.submit(a, [], append("2")),
      keepers.submit(a, [], append("lost"), { owner: owner as Owner }),
      keepers.submit(a, [], () => ({ outcome: "looked" }), { owner: owner as Owner }),
      keepers.submit(a, [], append("3")),
    ]);
    expect(outcomes).toEqual(["done", FENCED, FENCED, "done"]);
    await on.lives(async () => expect(await on.payloads(a)).toEqual(["1", "2", "3"]));
  });

  behavior("belongs to one contender until it stops, and then to another", async (on) => {
    const contenders = ["first", "second", "third"].map((name) => new Contender(on, name));
    while (contenders.length > 0) {
      const owner = await appendedBy(on, contenders);
      contenders.splice(contenders.indexOf(owner), 1);
      await within(on, () => contenders.every(({ owned }) => owned.holder !== undefined || owned.term !== undefined));
      await owner.owned.stop();
      expect(await owner.append()).toBe(FENCED);
    }
    const epochs = (await on.payloads(a)).map(Number);
    expect(epochs).toHaveLength(3);
    expect(epochs).toEqual(epochs.toSorted((one, other) => one - other));
    expect(new Set(epochs).size).toBe(3);
  });

  behavior("passes from an owner that stops renewing to the next, and the old owner is fenced", async (on) => {
    const dead = (await on.engine.claim(a, "dead", LEASE_MS)) as Owner;
    const keepers = keepersOf(on.engine);
    const next = new Contender(on, "next");
    expect(await keepers.submit(a, [], append(`${dead.epoch}`), { owner: dead })).toBe("done");
    await within(on, () => next.owned.term !== undefined);
    expect(next.last.owner.epoch).toBeGreaterThan(dead.epoch);
    expect(await keepers.submit(a, [], append(`${dead.epoch}`), { owner: dead })).toBe(FENCED);
    await next.owned.stop();
  });

  behavior("stays with an owner that renews, for longer than its lease, and is never owned by two", async (on) => {
    const contenders = [new Contender(on, "one"), new Contender(on, "other")];
    const owners = () => contenders.filter(({ owned }) => owned.term !== undefined);
    // A machine that pauses for too long may cost an owner its term; the next owner has the same chance.
    await within(on, () => {
      expect(owners().length).toBeLessThanOrEqual(1);
      return owners().some(({ gainedMs }) => on.world.now() > gainedMs + 2 * LEASE_MS);
    });
    await Promise.all(contenders.map(({ owned }) => owned.stop()));
  });
}

class Contender {
  last!: Term;
  gainedMs = 0;
  readonly owned: OwnedEntity;

  constructor(
    on: Fixture,
    readonly name: string,
  ) {
    const { engine, world } = on;
    const limits = { leaseMs: LEASE_MS, retryMs: RETRY_MS };
    const report = () => {};
    const parts = { engine, keepers: keepersOf(engine), world, node: name, limits, report };
    const gained = (term: Term) => {
      this.last = term;
      this.gainedMs = world.now();
    };
    this.owned = new OwnedEntity(parts, a, { gained, lost() {} });
    this.owned.start();
  }

  append() {
    return this.last.submit([], append(`${this.last.owner.epoch}`));
  }
}

function keepersOf(engine: Engine): Keepers {
  return new Keepers(engine, (task) => void setImmediate(task));
}

/** Begins the log at the first append. */
function append(payload: string): Rule<"done"> {
  return ({ exists, nextGeneration: generation }, at) => ({
    outcome: "done",
    changes: [
      ...(exists ? [] : [{ op: "begin", generation, at: { generation, seq: 0 } } as const]),
      { op: "append", messages: [{ payload: bytes(payload), at }] },
    ],
  });
}

/** The contender that owns the entity, after one commit of its term. */
async function appendedBy(on: Fixture, contenders: readonly Contender[]): Promise<Contender> {
  const owner = () => contenders.find(({ owned }) => owned.term !== undefined);
  for (;;) {
    await within(on, () => owner() !== undefined);
    const found = owner()!;
    if ((await found.append()) === "done") return found;
  }
}

/** Lets time pass in small steps until the condition holds. */
async function within(on: Fixture, holds: () => boolean): Promise<void> {
  for (let steps = 0; !holds(); steps++) {
    if (steps > MAX_STEPS) throw new Error("it has not come to hold");
    await on.advance(STEP_MS);
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
}
