/**
 * The keeper of one entity in this process. Features call it through `Keepers`; every change of an entity goes through it.
 *
 * A request reaches a service, which submits an input: the rows that it needs and a rule. A rule is a pure function of the view,
 * the time and its arguments; it returns an outcome and changes. The keeper loads the missing rows and runs the inputs of one
 * turn one at a time on the newest state (`draft.ts`). It commits their changes together. It releases the outcomes when the
 * commit is durable. Reads bypass the keeper: they go to the engine and see committed state only, so a reader never waits for a
 * writer.
 *
 * Invariants:
 * - At most one commit is in flight per entity.
 * - An outcome that rests on uncommitted state, a refusal or a "duplicate" included, is released only with that state's commit.
 * - On a conflict the inputs run again on the returned state, up to `conflicts` times in a row; then they are refused as
 *   overloaded.
 * - A failed commit refuses its inputs and never runs them again, because its outcome is unknown. The next batch loads the stored
 *   state.
 * - An input that its caller's deadline has already refused never runs.
 * - A commit carries the inputs of at most one owner, and a fence refuses that owner's inputs only.
 * - Queued inputs, batches and remembered rows are bounded, and idle keepers are evicted.
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

/** A rule's view of its entity: the newest state, with the changes of earlier inputs of the same batch. */
export interface View extends Pick<Draft, "exists" | "head" | "nextGeneration"> {
  get<T>(table: Table<T>, key: string): T | undefined;
}

export interface Decision<O> {
  readonly outcome: O;
  readonly changes?: readonly Change[] | undefined;
}

/** A decision of the product. Pure, because a conflict runs it again. */
export type Rule<O> = (view: View, now: number) => Decision<O>;

/** The ownership that an input runs under. Unless it stands, the input changes nothing and its outcome is `FENCED`. */
export interface Under {
  readonly owner: Owner;
}

/** The outcome of an input whose ownership has ended. The input changed nothing and never will. */
export const FENCED: Fenced = { kind: "fenced" };

export interface KeeperLimits {
  /** Inputs that may wait for one entity; the next one is refused as overloaded. */
  readonly queuedInputs: number;
  /** The most inputs, and appended bytes, in one commit. */
  readonly batchInputs: number;
  readonly batchBytes: number;
  /** Conflicts in a row after which the inputs are refused as overloaded. */
  readonly conflicts: number;
  /** Rows of its entity that a keeper keeps between commits; all keepers together keep `kept` times as many. */
  readonly rows: number;
}

export const KEEPER_LIMITS: KeeperLimits = {
  queuedInputs: 10_000,
  batchInputs: 1_000,
  batchBytes: 4 * 1024 * 1024,
  conflicts: 100,
  rows: 100,
};

/** Idle keepers that stay for the next input. */
export const MAX_KEEPERS = 20_000;

interface Input {
  readonly keys: readonly RowKey[];
  readonly rule: Rule<unknown>;
  readonly owner: Owner | undefined;
  readonly release: (outcome: unknown) => void;
  readonly refuse: (fault: unknown) => void;
  /** At this time the caller is refused, so the rule must not run any more. */
  readonly untilMs: number;
  outcome: unknown;
  fault: unknown;
}

/** The number of inputs of a batch that ran, and the ownership that their commit needs. */
interface Decided {
  readonly ran: number;
  readonly owner: Owner | undefined;
}

/** `committing` is undefined if there is nothing to commit or check. */
interface Committing extends Decided {
  readonly isChange: boolean;
  readonly committing: Promise<Result> | undefined;
}

type Result = Done | Conflict | Fenced;

/**
 * The queue of every idle keeper. With an array of its own, a keeper that is seldom used would put each input into an old array. The
 * collector then takes the input and its promises for alive, and moves them, until it next looks at old memory.
 */
const NO_INPUTS: Input[] = [];

export class Keeper {
  private readonly draft: Draft;
  private queue = NO_INPUTS;
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

  /** Runs the rule once its rows are loaded; resolves with the outcome when that is durable. */
  submit<O>(keys: readonly RowKey[], rule: Rule<O>, owner?: Owner): Promise<O | Fenced> {
    if (this.queue.length >= this.limits.queuedInputs) {
      const refusal = new EngineError(
        "overloaded",
        `more than ${this.limits.queuedInputs} requests wait for one entity; retry later`,
      );
      return Promise.reject(refusal);
    }
    const { deadline } = this.engine;
    return new Promise<O | Fenced>((resolve, reject) => {
      const input: Input = {
        keys,
        rule,
        owner,
        release: resolve as (outcome: unknown) => void,
        refuse: reject,
        untilMs: deadline === undefined ? Number.POSITIVE_INFINITY : deadline.now() + deadline.ms,
        outcome: undefined,
        fault: undefined,
      };
      if (this.queue === NO_INPUTS) this.queue = [input];
      else this.queue.push(input);
      if (this.running) return;
      this.running = true;
      // Every input that arrives in this turn of the event loop joins the batch.
      this.runSoon(this);
    });
  }

  /** Works until the queue is empty. It releases outcomes while the next commit is already on its way to the disk. */
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
        const { ran, owner, isChange, committing } = this.decideAndCommit(batch);
        release(durable);
        durable = [];
        if (committing !== undefined) {
          const result = await committing;
          if (result.kind === "done" && isChange) this.meter.commits++;
          this.settle(result, owner);
          if (result.kind !== "done") {
            this.requeue(result.kind === "fenced" ? fence(batch, owner!) : batch);
            continue;
          }
        }
        durable = ran === batch.length ? batch : batch.slice(0, ran);
        if (ran < batch.length) this.requeue(batch.slice(ran));
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

  /**
   * Takes the inputs whose deadline has not passed. Inputs that waited too long behind a hung commit are refused and never run.
   */
  private takeBatch(): Input[] {
    const { batchInputs } = this.limits;
    const batch = this.queue.length <= batchInputs ? this.queue : this.queue.slice(0, batchInputs);
    this.queue = this.queue.length <= batchInputs ? NO_INPUTS : this.queue.slice(batchInputs);
    const { deadline } = this.engine;
    if (deadline === undefined) return batch;
    const now = deadline.now();
    if (batch.every(({ untilMs }) => untilMs > now)) return batch;
    const fault = new EngineError(
      "unavailable",
      `the input waited longer than ${deadline.ms} ms and was not run; retry it`,
    );
    for (const { untilMs, refuse } of batch) if (untilMs <= now) refuse(fault);
    return batch.filter(({ untilMs }) => untilMs > now);
  }

  private requeue(inputs: readonly Input[]): void {
    if (inputs.length > 0) this.queue = [...inputs, ...this.queue];
  }

  /** Separate from `run`, because effects in a waiting frame would stay in memory until the commit is durable. */
  private decideAndCommit(batch: readonly Input[]): Committing {
    const { ran, owner } = this.decideAll(batch);
    const effects = this.draft.takeEffects();
    const isChange = effects.length > 0;
    if (isChange) this.meter.batch.add(ran);
    return { ran, owner, isChange, committing: this.commit(effects, owner) };
  }

  /** Runs inputs in order until the commit is full or the next input has another owner. */
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
      // A rule that throws has changed nothing, so the batch continues with its other inputs.
      input.fault = defect;
      return undefined;
    }
  }

  private commit(effects: readonly Effect[], owner: Owner | undefined): Promise<Result> | undefined {
    // Another writer can make a refusal wrong, and an ownership can end. The engine checks both before the keeper releases an
    // outcome.
    if (effects.length === 0 && this.engine.exclusive && owner === undefined) return undefined;
    return this.engine.commit(this.entity, { rev: this.draft.rev, keys: this.draft.keys, owner }, effects);
  }

  /** After a conflict the draft holds the winner's state; after a fence it is empty. */
  private settle(result: Result, owner: Owner | undefined): void {
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
          throw new EngineError(
            "overloaded",
            `${this.limits.conflicts} commits in a row conflicted with another writer; retry later`,
          );
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

  /** Loads all rows again if another writer has committed since the other rows were loaded. */
  private fill(batch: readonly Input[], keys: readonly RowKey[], snapshot: Snapshot): Promise<void> | undefined {
    if (this.draft.fill(keys, snapshot)) return undefined;
    this.draft.forget();
    return this.load(batch);
  }
}

/** Resolves this owner's inputs as fenced; returns the remaining inputs, which run again. */
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

/** Wraps the work on an entity of this kind, for instance to measure its duration. */
export type Around = <O>(kind: string, work: () => Promise<O>) => Promise<O>;

/** The keepers of this process. At most `max` idle ones stay; eviction starts with the least recently used. */
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

  /** With an ownership the outcome may be `FENCED`. That does not affect other callers' inputs in the same commit. */
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

  /** All keepers that got work in one turn run in the next one, so that an engine can batch their commits. */
  private readonly runSoon = (keeper: Keeper): void => {
    this.woken.push(keeper);
    if (this.woken.length > 1) return;
    this.soon(() => {
      const woken = this.woken;
      this.woken = [];
      for (const one of woken) void one.run();
    });
  };

  /**
   * Evicts a tenth, oldest first, and skips keepers at work. A second chance is not worth its bookkeeping, because a reload is
   * cheap.
   */
  private evict(): void {
    let wanted = Math.ceil(this.max / 10);
    for (const [key, keeper] of this.keepers) {
      if (!keeper.idle) continue;
      this.keepers.delete(key);
      if (--wanted === 0) return;
    }
  }
}
