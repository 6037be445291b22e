/**
 * The keeper of one entity in this process. It runs inputs through the rules one at a time on the newest state, commits
 * their effects together, and releases the outcomes when they are durable. Features call it through `Keepers`.
 *
 * Invariants: at most one commit is in flight. An outcome that rests on uncommitted state (a refusal or a "duplicate"
 * included) is released only with that state's commit. On a conflict the inputs run again on the returned state. A commit
 * carries the inputs of one owner at most, and a fence refuses that owner's inputs only.
 */
import {
  type Conflict,
  type Done,
  type Effect,
  type Engine,
  EngineError,
  type Entity,
  type Fenced,
  type Owner,
  type RowKey,
  type Snapshot,
} from "./contract.ts";
import { type Change, Draft } from "./draft.ts";
import { KeeperMeter } from "./keeper-meter.ts";
import { sameOwner } from "./ownership.ts";
import type { Table } from "./table.ts";

/** What a rule sees of its entity: the newest state, the changes of earlier inputs of the same batch included. */
export interface View extends Pick<Draft, "exists" | "head" | "nextGeneration"> {
  get<T>(table: Table<T>, key: string): T | undefined;
}

export interface Decision<O> {
  readonly outcome: O;
  readonly changes?: readonly Change[] | undefined;
}

/** A decision of the product: pure, so it can run again after a conflict. */
export type Rule<O> = (view: View, now: number) => Decision<O>;

/** The ownership that an input runs under: it changes nothing, and its outcome is `FENCED`, unless that ownership stands. */
export interface Under {
  readonly owner: Owner;
}

/** The outcome of an input whose ownership has ended. The input changed nothing and never will. */
export const FENCED: Fenced = { kind: "fenced" };

export interface KeeperLimits {
  /** Inputs waiting for one entity; beyond that the next is refused as overloaded. */
  readonly queuedInputs: number;
  /** Inputs and appended bytes that go into one commit. */
  readonly batchInputs: number;
  readonly batchBytes: number;
  /** Conflicts in a row before the inputs are refused as overloaded. */
  readonly conflicts: number;
  /** Rows of its entity that a keeper remembers between commits. */
  readonly rows: number;
}

export const KEEPER_LIMITS: KeeperLimits = {
  queuedInputs: 10_000,
  batchInputs: 1_000,
  batchBytes: 4 * 1024 * 1024,
  conflicts: 100,
  rows: 1_000,
};

/** Keepers of idle entities that are kept for the next input. */
export const MAX_KEEPERS = 20_000;

interface Input {
  readonly keys: readonly RowKey[];
  readonly rule: Rule<unknown>;
  readonly owner: Owner | undefined;
  readonly release: (outcome: unknown) => void;
  readonly refuse: (fault: unknown) => void;
  /** By then the caller has been refused, so the rule must not run any more. */
  readonly untilMs: number;
  outcome: unknown;
  fault: unknown;
}

/** How many inputs of a batch ran, and the ownership that their commit needs. */
interface Decided {
  readonly ran: number;
  readonly owner: Owner | undefined;
}

type Result = (Done | Conflict | Fenced)["kind"];

export class Keeper {
  private readonly draft: Draft;
  private queue: Input[] = [];
  private running = false;
  private conflicts = 0;

  constructor(
    readonly entity: Entity,
    private readonly engine: Engine,
    private readonly runSoon: (keeper: Keeper) => void,
    private readonly limits: KeeperLimits = KEEPER_LIMITS,
    private readonly meter: KeeperMeter = new KeeperMeter(),
  ) {
    this.draft = new Draft(limits.rows);
  }

  get idle(): boolean {
    return !this.running && this.queue.length === 0;
  }

  /** Runs the rule once the rows it needs are at hand; resolves with its outcome when that is durable. */
  submit<O>(keys: readonly RowKey[], rule: Rule<O>, owner?: Owner): Promise<O | Fenced> {
    if (this.queue.length >= this.limits.queuedInputs) {
      const refusal = new EngineError(
        "overloaded",
        `more than ${this.limits.queuedInputs} requests wait for one entity`,
      );
      return Promise.reject(refusal);
    }
    const { deadline } = this.engine;
    return new Promise<O | Fenced>((resolve, reject) => {
      this.queue.push({
        keys,
        rule,
        owner,
        release: resolve as (outcome: unknown) => void,
        refuse: reject,
        untilMs: deadline === undefined ? Number.POSITIVE_INFINITY : deadline.now() + deadline.ms,
        outcome: undefined,
        fault: undefined,
      });
      if (this.running) return;
      this.running = true;
      // Whatever else has arrived in this turn of the event loop joins the batch.
      this.runSoon(this);
    });
  }

  /** Works until nothing waits. Outcomes are told while the next commit is already on its way to the disk. */
  async run(): Promise<void> {
    let durable: readonly Input[] = [];
    while (this.queue.length > 0) {
      const batch = this.takeBatch();
      if (batch.length === 0) continue;
      try {
        const loading = this.load(batch);
        if (loading) {
          release(durable);
          durable = [];
          await loading;
        }
        const { ran, owner, committing } = this.decideAndCommit(batch);
        release(durable);
        durable = [];
        const result = committing === undefined ? "done" : await committing;
        if (result === "done") durable = batch.slice(0, ran);
        this.requeue(result === "done" ? batch.slice(ran) : result === "fenced" ? fence(batch, owner!) : batch);
      } catch (fault) {
        this.meter.failures++;
        // The outcome of the commit is unknown; the next batch starts from what is stored.
        this.draft.forget();
        for (const input of batch) input.refuse(fault);
      }
    }
    this.running = false;
    release(durable);
  }

  /** Takes the inputs that are still in time. Inputs that waited too long behind a hung commit are refused; they never run. */
  private takeBatch(): Input[] {
    const batch = this.queue.splice(0, this.limits.batchInputs);
    const { deadline } = this.engine;
    if (deadline === undefined) return batch;
    const now = deadline.now();
    if (batch.every(({ untilMs }) => untilMs > now)) return batch;
    const fault = new EngineError("unavailable", `waited for more than ${deadline.ms} ms, nothing was done`);
    for (const { untilMs, refuse } of batch) if (untilMs <= now) refuse(fault);
    return batch.filter(({ untilMs }) => untilMs > now);
  }

  private requeue(inputs: readonly Input[]): void {
    if (inputs.length > 0) this.queue.unshift(...inputs);
  }

  /** Apart from `run`, which waits: effects held by its frame would stay in memory until the commit is durable. */
  private decideAndCommit(batch: readonly Input[]): Decided & { readonly committing: Promise<Result> | undefined } {
    const { ran, owner } = this.decideAll(batch);
    const effects = this.draft.takeEffects();
    if (effects.length > 0) this.meter.batch.add(ran);
    return { ran, owner, committing: this.commit(effects, owner) };
  }

  /** Runs inputs in order until the commit is full, or the next input has another owner than the commit. */
  private decideAll(batch: readonly Input[]): Decided {
    const { draft, limits } = this;
    const now = this.engine.now();
    let owner: Owner | undefined;
    for (let i = 0; i < batch.length; i++) {
      const input = batch[i]!;
      if (input.owner !== undefined) {
        if (owner !== undefined && !sameOwner(owner, input.owner)) return { ran: i, owner };
        owner = input.owner;
      }
      const changes = this.decide(input, now);
      if (changes) for (const change of changes) draft.apply(change);
      if (draft.sealed || draft.appendedBytes >= limits.batchBytes) return { ran: i + 1, owner };
    }
    return { ran: batch.length, owner };
  }

  private decide(input: Input, now: number): readonly Change[] | undefined {
    try {
      const { outcome, changes } = input.rule(this.draft, now);
      input.outcome = outcome;
      return changes;
    } catch (defect) {
      // A rule that throws has changed nothing, so the other inputs of the batch go on.
      input.fault = defect;
      return undefined;
    }
  }

  /** After a conflict the draft holds what the winner left; after a fence, nothing. Undefined when there is nothing to do. */
  private commit(effects: readonly Effect[], owner: Owner | undefined): Promise<Result> | undefined {
    // Other writers can make a refusal wrong, and an ownership can end: both are checked before an outcome is released.
    if (effects.length === 0 && this.engine.exclusive && owner === undefined) return undefined;
    const at = { rev: this.draft.rev, keys: this.draft.keys, owner };
    const isChange = effects.length > 0;
    return this.engine.commit(this.entity, at, effects).then((result) => {
      if (result.kind === "done" && isChange) this.meter.commits++;
      this.settle(result, owner);
      return result.kind;
    });
  }

  private settle(result: Done | Conflict | Fenced, owner: Owner | undefined): void {
    switch (result.kind) {
      case "done":
        this.conflicts = 0;
        this.draft.committed(result);
        return;
      case "fenced":
        if (owner === undefined) throw new Error(`${this.entity.key} was committed without an owner, yet fenced`);
        this.draft.forget();
        return;
      case "conflict":
        this.meter.conflicts++;
        if (++this.conflicts > this.limits.conflicts) {
          this.conflicts = 0;
          throw new EngineError("overloaded", `${this.limits.conflicts} commits in a row met another writer's`);
        }
        this.draft.replace(result.snapshot);
    }
  }

  private load(batch: readonly Input[]): Promise<void> | undefined {
    const missing = this.draft.missing(batch);
    if (missing === undefined) return undefined;
    const loaded = this.engine.load(this.entity, missing);
    if (!(loaded instanceof Promise)) return this.fill(batch, missing, loaded);
    return loaded.then((snapshot) => this.fill(batch, missing, snapshot));
  }

  /** When another writer has committed since the other rows were loaded, all of them are loaded anew. */
  private fill(batch: readonly Input[], keys: readonly RowKey[], snapshot: Snapshot): Promise<void> | undefined {
    if (this.draft.fill(keys, snapshot)) return undefined;
    this.draft.forget();
    return this.load(batch);
  }
}

/** Tells this owner's inputs that they are fenced; returns the inputs that are to run again without them. */
function fence(batch: readonly Input[], owner: Owner): readonly Input[] {
  const isFenced = (input: Input) => input.owner !== undefined && sameOwner(input.owner, owner);
  for (const input of batch) if (isFenced(input)) input.release(FENCED);
  return batch.filter((input) => !isFenced(input));
}

function release(inputs: readonly Input[]): void {
  for (const input of inputs) {
    if (input.fault === undefined) input.release(input.outcome);
    else input.refuse(input.fault);
  }
}

/** Runs the work on an entity of this kind, and may look at how long it takes. */
export type Around = <O>(kind: string, work: () => Promise<O>) => Promise<O>;

/** The keepers of this process, at most `max` idle ones kept; the longest unused go first. */
export class Keepers {
  readonly meter = new KeeperMeter();
  private readonly keepers = new Map<string, Keeper>();
  private woken: Keeper[] = [];

  constructor(
    private readonly engine: Engine,
    private readonly soon: (task: () => void) => void,
    private readonly max = MAX_KEEPERS,
    private readonly limits: KeeperLimits = KEEPER_LIMITS,
    private readonly around?: Around | undefined,
  ) {}

  get size(): number {
    return this.keepers.size;
  }

  /** With an ownership the outcome may be `FENCED`; inputs of other callers that share the commit are not harmed by that. */
  submit<O>(entity: Entity, keys: readonly RowKey[], rule: Rule<O>): Promise<O>;
  submit<O>(entity: Entity, keys: readonly RowKey[], rule: Rule<O>, under: Under): Promise<O | Fenced>;
  submit<O>(entity: Entity, keys: readonly RowKey[], rule: Rule<O>, under?: Under): Promise<O | Fenced> {
    let keeper = this.keepers.get(entity.key);
    if (keeper === undefined) {
      if (this.keepers.size >= this.max) this.evict();
      keeper = new Keeper(entity, this.engine, this.runSoon, this.limits, this.meter);
      this.keepers.set(entity.key, keeper);
    }
    if (this.around === undefined) return keeper.submit(keys, rule, under?.owner);
    const known = keeper;
    return this.around(entity.kind, () => known.submit(keys, rule, under?.owner));
  }

  /** All keepers that got work in one turn run in the next one, so that an engine can make one batch of their commits. */
  private readonly runSoon = (keeper: Keeper): void => {
    this.woken.push(keeper);
    if (this.woken.length > 1) return;
    this.soon(() => {
      const woken = this.woken;
      this.woken = [];
      for (const one of woken) void one.run();
    });
  };

  /** Makes room by a tenth, oldest first; a keeper at work stays. Second chance is not worth its bookkeeping: a reload is cheap. */
  private evict(): void {
    let wanted = Math.ceil(this.max / 10);
    for (const [key, keeper] of this.keepers) {
      if (!keeper.idle) continue;
      this.keepers.delete(key);
      if (--wanted === 0) return;
    }
  }
}
