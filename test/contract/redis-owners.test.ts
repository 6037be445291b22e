/** Ownership on Redis: an owner that is cut off ends its term in time, is replaced, and is fenced when it returns. */
import { ZERO } from "@sluice/protocol";
import { describe, expect, it } from "vitest";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { FENCED, Keepers, type Rule } from "../../packages/server/src/engine/keeper.ts";
import { OwnedEntity } from "../../packages/server/src/engine/owned-entity.ts";
import type { Term } from "../../packages/server/src/engine/term.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { eventually, sleep } from "../support/eventually.ts";
import { a, overProxy } from "./redis-fixture.ts";
import { bytes, text } from "./suite/fixture.ts";

const LEASE_MS = 2_000;
const append = (payload: string): Rule<"done"> => {
  return (_, at) => ({ outcome: "done", changes: [{ op: "append", messages: [{ payload: bytes(payload), at }] }] });
};

/** A contender on a node of its own that commits its epoch while it owns the entity. */
class Contender {
  readonly terms: Term[] = [];
  readonly losses: string[] = [];
  readonly owned: OwnedEntity;
  readonly keepers: Keepers;

  constructor(engine: Engine, node: string) {
    this.keepers = new Keepers(engine, (task) => void setImmediate(task));
    const limits = { leaseMs: LEASE_MS, retryMs: 50 };
    const parts = { engine, keepers: this.keepers, world: realWorld(), node, limits, report: () => {} };
    this.owned = new OwnedEntity(parts, a, {
      gained: (term) => {
        this.terms.push(term);
        void this.act(term);
      },
      lost: (_, why) => void this.losses.push(why),
    });
    this.owned.start();
  }

  private async act(term: Term): Promise<void> {
    while (term.isHeld()) {
      await term.submit([], append(`${term.owner.epoch}`)).catch(() => {});
      await sleep(5);
    }
  }
}

async function committedEpochs(engine: Engine): Promise<number[]> {
  const { messages } = await engine.read(a, ZERO, 1 << 20);
  return messages.map(({ payload }) => Number(text(payload)));
}

/** Waits for a commit in the contender's newest term. */
async function hasCommitted(engine: Engine, { terms }: Contender): Promise<void> {
  await eventually(async () => expect(await committedEpochs(engine)).toContain(terms.at(-1)?.owner.epoch));
}

describe("an owner whose wire to Redis is cut", () => {
  it("stops by its own clock, is replaced by another node, and is fenced when it comes back", async () => {
    const { proxy, near, far } = await overProxy({ commandMs: 500, deadlineMs: 1_000 });
    const cut = new Contender(far, "cut");
    await hasCommitted(near, cut);
    const other = new Contender(near, "other");
    await eventually(() => expect(other.owned.holder?.node).toBe("cut"));
    proxy.cut();
    await eventually(() => expect(other.owned.term).toBeDefined());
    expect(cut.owned.term).toBeUndefined();
    await hasCommitted(near, other);
    expect(cut.losses).toContain("expired");
    const stale = cut.terms.at(-1)!.owner;
    await proxy.heal();
    // Bypasses the check of the term, like code that was paused after that check.
    await eventually(async () => {
      expect(await cut.keepers.submit(a, [], append(`${stale.epoch}`), { owner: stale })).toBe(FENCED);
    });
    await other.owned.stop();
    await eventually(() => expect(cut.terms.at(-1)!.owner).not.toEqual(stale));
    await hasCommitted(near, cut);
    await cut.owned.stop();
    const epochs = await committedEpochs(near);
    expect(epochs).toEqual(epochs.toSorted((one, next) => one - next));
  }, 60_000);
});
