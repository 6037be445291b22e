/**
 * One term of ownership of an entity: from a granted claim to its end. `OwnedEntity` makes and ends terms; the feature that owns
 * the entity acts through them.
 *
 * Invariants: a term that is over never holds again. Everything submitted through a term carries its ownership, so the engine
 * fences late commits. `isHeld` guards what an engine cannot fence: actions outside of the entity.
 */
import type { Cancel, World } from "../core/world.ts";
import type { Entity, Fenced, Owner, RowKey } from "./contract.ts";
import { FENCED, type Keepers, type Rule } from "./keeper.ts";

/**
 * Why a term ended. `expired`: this node could not renew in time. `fenced`: a commit was refused. `replaced`: a renewal found
 * another ownership. `stopped`: this node gave it up.
 */
export type Ending = "expired" | "fenced" | "replaced" | "stopped";

export interface TermParts {
  readonly entity: Entity;
  readonly keepers: Pick<Keepers, "submit">;
  readonly world: Pick<World, "now" | "after">;
}

export class Term {
  private isOver = false;
  private isTold = false;
  private untilMs = 0;
  private cancel: Cancel = () => {};

  /** `ended` is called once; it must not throw. */
  constructor(
    private readonly parts: TermParts,
    readonly owner: Owner,
    untilMs: number,
    private readonly ended: (term: Term, why: Ending) => void,
  ) {
    this.expireAt(untilMs);
  }

  get entity(): Entity {
    return this.parts.entity;
  }

  /** Once false, false for good, also if the clock is set back. `ended` runs in a later turn. */
  isHeld(): boolean {
    if (this.parts.world.now() >= this.untilMs) this.isOver = true;
    return !this.isOver;
  }

  /** Runs the rule and commits its changes under this ownership. `FENCED` ends the term before the caller learns it. */
  async submit<O>(keys: readonly RowKey[], rule: Rule<O>): Promise<O | Fenced> {
    if (!this.isHeld()) return FENCED;
    const { keepers, entity } = this.parts;
    const outcome = await keepers.submit(entity, keys, rule, { owner: this.owner });
    if (outcome === FENCED) this.end("fenced");
    return outcome;
  }

  /** Records a renewal that stands until then by this node's clock. A term that is over stays over. */
  extend(untilMs: number): void {
    if (this.isHeld()) this.expireAt(untilMs);
  }

  end(why: Ending): void {
    this.isOver = true;
    if (this.isTold) return;
    this.isTold = true;
    this.cancel();
    this.ended(this, why);
  }

  /** The timer covers a clock that is set back; the clock covers a timer that a paused process delayed. */
  private expireAt(untilMs: number): void {
    this.cancel();
    this.untilMs = untilMs;
    const { world } = this.parts;
    this.cancel = world.after(untilMs - world.now(), () => this.end("expired"));
  }
}
