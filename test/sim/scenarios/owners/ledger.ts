/**
 * The actions and answers of the contenders for one entity, the engine's grants, and the contradictions among them.
 * Contenders write it as things happen; `audit` compares it with the entity's log.
 *
 * Invariants: every message of the log names the epoch it was committed under (0: without an owner), its writer and a
 * number.
 */
import type { Engine, Entity, Owner } from "../../../../packages/server/src/engine/contract.ts";

export type Fate = "open" | "done" | "fenced" | "unknown";

export interface Input {
  readonly epoch: number;
  readonly writer: string;
  readonly number: number;
  fate: Fate;
}

interface Grant {
  readonly node: string;
  untilMs: number;
  /** The engine forgot it early: its owner cannot know until it asks. */
  isForgotten: boolean;
}

export class Ledger {
  readonly violations: string[] = [];
  readonly story: string[] = [];
  private readonly inputs = new Map<string, Input>();
  private readonly grants = new Map<number, Grant>();
  /** By contender: the epoch of the term that it has gained and not lost. */
  private readonly terms = new Map<string, number>();
  private readonly lastEpochs = new Map<string, number>();

  constructor(
    private readonly e: Entity,
    private readonly now: () => number,
  ) {}

  /** Records each grant of the engine when it happens. */
  watch(engine: Engine): void {
    const { claim, release } = engine;
    engine.claim = async (e, node, ttlMs, held) => {
      const answer = await claim.call(engine, e, node, ttlMs, held);
      if (e.key === this.e.key && answer.kind === "owner") this.granted(answer, node, this.now() + ttlMs);
      return answer;
    };
    engine.release = async (e, owner) => {
      await release.call(engine, e, owner);
      const grant = this.grants.get(owner.epoch);
      if (grant) grant.untilMs = Math.min(grant.untilMs, this.now());
    };
  }

  private granted({ epoch }: Owner, node: string, untilMs: number): void {
    const known = this.grants.get(epoch);
    if (known === undefined) this.grants.set(epoch, { node, untilMs, isForgotten: false });
    else if (known.node !== node) this.object(`epoch ${epoch} was granted to ${known.node} and to ${node}`);
    else known.untilMs = untilMs;
    this.note(`${node} is granted ${epoch}`);
  }

  gained(contender: string, epoch: number): void {
    this.note(`${contender} gains ${epoch}`);
    if (this.terms.has(contender))
      this.object(`${contender} gained ${epoch} before it lost ${this.terms.get(contender)}`);
    if (epoch <= (this.lastEpochs.get(contender) ?? 0)) this.object(`${contender} gained ${epoch} again, or late`);
    this.terms.set(contender, epoch);
    this.lastEpochs.set(contender, epoch);
    this.decided(contender, epoch);
  }

  lost(contender: string, epoch: number, why: string): void {
    this.note(`${contender} loses ${epoch}: ${why}`);
    if (this.terms.get(contender) !== epoch) this.object(`${contender} lost ${epoch}, which it did not hold`);
    this.terms.delete(contender);
  }

  /** A contender has acted outside of the entity, where no engine can fence it, because `isHeld` allowed it. */
  decided(contender: string, epoch: number): void {
    const { untilMs, isForgotten } = this.grants.get(epoch)!;
    if (this.now() >= untilMs && !isForgotten)
      this.object(`${contender} acted as owner ${epoch}, ${this.now() - untilMs} ms too late`);
  }

  submitted(epoch: number, writer: string, number: number): Input {
    const input: Input = { epoch, writer, number, fate: "open" };
    this.inputs.set(textOf(input), input);
    return input;
  }

  told(input: Input, fate: Fate): void {
    input.fate = fate;
    this.note(`${textOf(input)} ${fate}`);
    if (fate === "fenced" && input.epoch === 0) this.object(`${textOf(input)} has no owner, yet it was fenced`);
  }

  /** An input of this term was fenced: its owner must know by the time its caller does. */
  mustBeOver(contender: string, epoch: number, isHeld: boolean): void {
    if (isHeld || this.terms.get(contender) === epoch) this.object(`${contender} was fenced as ${epoch}, and goes on`);
  }

  /** Forgets an ownership, like a failover that loses the newest writes. */
  forgotten({ epoch }: Owner): void {
    this.note(`${epoch} is forgotten`);
    this.grants.get(epoch)!.isForgotten = true;
  }

  /** `log`: every message of the entity, in order. */
  audit(log: readonly string[]): void {
    const seen = new Set<string>();
    const lastNumbers = new Map<string, number>();
    let epoch = 0;
    for (const text of log) {
      const input = this.inputs.get(text);
      if (input === undefined || seen.has(text))
        this.object(`${text} is in the log ${input ? "twice" : "and was never sent"}`);
      seen.add(text);
      if (input === undefined) continue;
      if (input.fate === "fenced") this.object(`${text} was fenced and is in the log`);
      if (input.epoch > 0 && input.epoch < epoch) this.object(`${text} follows a commit of epoch ${epoch}`);
      epoch = Math.max(epoch, input.epoch);
      this.auditOrder(input, lastNumbers);
    }
    for (const [text, { fate }] of this.inputs) {
      if (fate === "done" && !seen.has(text)) this.object(`${text} was acknowledged and is not in the log`);
    }
  }

  /** An epoch belongs to one contender, and its commits are in the order of their submission. */
  private auditOrder(input: Input, lastNumbers: Map<string, number>): void {
    const { epoch, writer, number } = input;
    const owner = this.grants.get(epoch)?.node;
    if (epoch > 0 && owner !== writer) this.object(`${textOf(input)} is of an epoch of ${owner}`);
    const name = `${epoch} ${writer}`;
    if (number < (lastNumbers.get(name) ?? 0)) this.object(`${textOf(input)} comes after ${lastNumbers.get(name)}`);
    lastNumbers.set(name, number);
  }

  note(line: string): void {
    this.story.push(`+${this.now()} ${line}`);
  }

  object(what: string): void {
    this.violations.push(`[owners] ${what}`);
    this.note(`VIOLATION ${what}`);
  }
}

export function textOf({ epoch, writer, number }: Pick<Input, "epoch" | "writer" | "number">): string {
  return `${epoch} ${writer} ${number}`;
}
