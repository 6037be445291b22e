/**
 * One contender for the entity: the real `OwnedEntity` on a machine of its own. The owners scenario starts it.
 *
 * Invariants: the owner acts, sometimes with several commits at once. Now and then it also commits under an ended term, like
 * code that checked before a pause.
 */
import type { Engine, Entity } from "../../../../packages/server/src/engine/contract.ts";
import { EngineError } from "../../../../packages/server/src/engine/contract.ts";
import { FENCED, type Keepers, type Rule } from "../../../../packages/server/src/engine/keeper.ts";
import { OwnedEntity, type OwnerLimits } from "../../../../packages/server/src/engine/owned-entity.ts";
import type { Term } from "../../../../packages/server/src/engine/term.ts";
import type { Random } from "../../random.ts";
import { type Input, type Ledger, textOf } from "./ledger.ts";
import type { Machine } from "./machine.ts";

/** How a run treats its contenders, drawn once. */
export interface Pace {
  readonly limits: OwnerLimits;
  readonly actMs: number;
  /** The share of claims and releases whose reply is lost. */
  readonly lostReplies: number;
}

export interface Surroundings {
  readonly e: Entity;
  readonly engine: Engine;
  /** The keepers of the whole process: contenders and ordinary writers share commits. */
  readonly keepers: Keepers;
  readonly ledger: Ledger;
  readonly random: Random;
  readonly pace: () => Pace;
}

export class Contender {
  readonly owned: OwnedEntity;
  isActing = true;
  private readonly past: Term[] = [];
  private numbers = 0;

  constructor(
    readonly name: string,
    readonly machine: Machine,
    private readonly around: Surroundings,
  ) {
    const { engine, keepers, e, pace, ledger } = around;
    const parts = {
      engine: {
        now: () => engine.now(),
        claim: (...args: Parameters<Engine["claim"]>) => this.call(engine.claim(...args)),
        release: (...args: Parameters<Engine["release"]>) => this.call(engine.release(...args)),
      },
      keepers: {
        submit: ((...args: Parameters<Keepers["submit"]>) =>
          machine.hear(keepers.submit(...args))) as Keepers["submit"],
      },
      world: machine,
      node: name,
      limits: pace().limits,
      report: (what: string, fault: unknown) => {
        if (!(fault instanceof EngineError)) ledger.object(`${name}: ${what}: ${fault}`);
      },
    };
    this.owned = new OwnedEntity(parts, e, {
      gained: (term) => this.gained(term),
      lost: (term, why) => ledger.lost(name, term.owner.epoch, why),
    });
    this.owned.start();
  }

  /** Makes one commit as the owner, and records its outcome. */
  async commit(term: Term): Promise<void> {
    const { ledger } = this.around;
    const input = ledger.submitted(term.owner.epoch, this.name, ++this.numbers);
    try {
      const outcome = await term.submit([], appendRule(input));
      ledger.told(input, outcome === FENCED ? "fenced" : "done");
      if (outcome === FENCED) ledger.mustBeOver(this.name, term.owner.epoch, term.isHeld());
    } catch (fault) {
      ledger.told(input, unknown(fault));
    }
  }

  private gained(term: Term): void {
    this.around.ledger.gained(this.name, term.owner.epoch);
    this.past.push(term);
    void this.act(term);
  }

  private async act(term: Term): Promise<void> {
    const { random, ledger, pace } = this.around;
    while (this.isActing) {
      await this.machine.sleep(random.between(0, pace().actMs));
      if (!term.isHeld()) return;
      ledger.decided(this.name, term.owner.epoch);
      if (random.chance(0.1)) void this.commitLate();
      const commits = Array.from({ length: random.pick([1, 1, 3]) }, () => this.commit(term));
      if (random.chance(0.7)) await Promise.all(commits);
    }
  }

  /** Skips the check of the term, so that only the engine can refuse. */
  private async commitLate(): Promise<void> {
    const { random, keepers, e, ledger } = this.around;
    const { owner } = random.pick(this.past);
    const input = ledger.submitted(owner.epoch, this.name, ++this.numbers);
    try {
      const outcome = await this.machine.hear(keepers.submit(e, [], appendRule(input), { owner }));
      ledger.told(input, outcome === FENCED ? "fenced" : "done");
    } catch (fault) {
      ledger.told(input, unknown(fault));
    }
  }

  private async call<T>(answer: Promise<T>): Promise<T> {
    const { random, pace } = this.around;
    const isLost = random.chance(pace().lostReplies);
    const value = await this.machine.hear(answer);
    if (isLost) throw new EngineError("unavailable", "the reply was lost");
    return value;
  }
}

/** Appends a message that names the input; creates the log when it is the first. */
export function appendRule(input: Input): Rule<"done"> {
  const payload = new TextEncoder().encode(textOf(input));
  return ({ exists, nextGeneration: generation }, at) => ({
    outcome: "done",
    changes: [
      ...(exists ? [] : [{ op: "begin", generation, at: { generation, seq: 0 } } as const]),
      { op: "append", messages: [{ payload, at }] },
    ],
  });
}

/** A failed commit may have happened; any fault but a failing storage is a defect. */
export function unknown(fault: unknown): "unknown" {
  if (fault instanceof EngineError) return "unknown";
  throw fault;
}
