/**
 * The keeper of one entity in this process. It runs inputs through the rules one at a time on the newest state, commits
 * their effects together, and releases the outcomes when they are durable. Features call it through `Keepers`.
 *
 * What must stay true: at most one commit is in flight; an outcome that rests on uncommitted state (a refusal or a
 * "duplicate" included) is released only with that state's commit; on a conflict the inputs run again on the returned state.
 */
import { type Effect, type Engine, EngineError, type Entity, type RowKey, type Snapshot } from "./contract.ts";
import { type Change, Draft } from "./draft.ts";
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

export interface KeeperLimits {
  /** Inputs waiting for one entity; beyond that the next is refused as overloaded. */
  readonly queuedInputs: number;
  /** Inputs and appended bytes that go into one commit. */
  readonly batchInputs: number;
  readonly batchBytes: number;
  /** Conflicts in a row before the inputs are refused as overloaded. */
  readonly conflicts: number;
}

export const KEEPER_LIMITS: KeeperLimits = {
  queuedInputs: 10_000,
  batchInputs: 1_000,
  batchBytes: 4 * 1024 * 1024,
  conflicts: 100,
};

interface Input {
  readonly keys: readonly RowKey[];
  readonly rule: Rule<unknown>;
  readonly release: (outcome: unknown) => void;
  readonly refuse: (fault: unknown) => void;
  outcome: unknown;
  fault: unknown;
}

export class Keeper {
  private readonly draft = new Draft();
  private queue: Input[] = [];
  private running = false;
  private conflicts = 0;

  constructor(
    readonly entity: Entity,
    private readonly engine: Engine,
    private readonly soon: (task: () => void) => void,
    private readonly limits: KeeperLimits = KEEPER_LIMITS,
  ) {}

  get idle(): boolean {
    return !this.running && this.queue.length === 0;
  }

  /** Runs the rule once the rows it needs are at hand; resolves with its outcome when that is durable. */
  submit<O>(keys: readonly RowKey[], rule: Rule<O>): Promise<O> {
    if (this.queue.length >= this.limits.queuedInputs) {
      const refusal = new EngineError(
        "overloaded",
        `more than ${this.limits.queuedInputs} requests wait for one entity`,
      );
      return Promise.reject(refusal);
    }
    return new Promise<O>((resolve, reject) => {
      this.queue.push({
        keys,
        rule,
        release: resolve as (outcome: unknown) => void,
        refuse: reject,
        outcome: undefined,
        fault: undefined,
      });
      if (this.running) return;
      this.running = true;
      // Whatever else has arrived in this turn of the event loop joins the batch.
      this.soon(this.run);
    });
  }

  private readonly run = async (): Promise<void> => {
    while (this.queue.length > 0) {
      const batch = this.queue.splice(0, this.limits.batchInputs);
      try {
        const rest = await this.runBatch(batch);
        if (rest.length > 0) this.queue.unshift(...rest);
      } catch (fault) {
        // The outcome of the commit is unknown; the next batch starts from what is stored.
        this.draft.forget();
        for (const input of batch) input.refuse(fault);
      }
    }
    this.running = false;
  };

  /** Returns the inputs that have to run again or did not fit into the commit. */
  private async runBatch(batch: readonly Input[]): Promise<readonly Input[]> {
    const loading = this.load(batch);
    if (loading) await loading;

    const ran = this.decideAll(batch);
    const effects = this.draft.takeEffects();
    // Where others write too, even a refusal must be checked against the newest rev before it is told.
    const mustCommit = effects.length > 0 || !this.engine.exclusive;
    if (mustCommit && !(await this.commit(effects))) return batch;
    for (let i = 0; i < ran; i++) {
      const input = batch[i]!;
      if (input.fault === undefined) input.release(input.outcome);
      else input.refuse(input.fault);
    }
    return ran === batch.length ? [] : batch.slice(ran);
  }

  /** Runs inputs in order until the commit is full; returns how many ran. */
  private decideAll(batch: readonly Input[]): number {
    const { draft, limits } = this;
    const now = this.engine.now();
    for (let i = 0; i < batch.length; i++) {
      const input = batch[i]!;
      const changes = this.decide(input, now);
      if (changes) for (const change of changes) draft.apply(change);
      if (draft.sealed || draft.appendedBytes >= limits.batchBytes) return i + 1;
    }
    return batch.length;
  }

  private decide(input: Input, now: number): readonly Change[] | undefined {
    try {
      const { outcome, changes } = input.rule(this.draft, now);
      input.outcome = outcome;
      return changes;
    } catch (defect) {
      // Rules change nothing by themselves, so the others of the batch are not its victims.
      input.fault = defect;
      return undefined;
    }
  }

  /** False on a conflict: the draft then holds what the winner left. */
  private async commit(effects: readonly Effect[]): Promise<boolean> {
    const result = await this.engine.commit(this.entity, { rev: this.draft.rev, keys: this.draft.keys }, effects);
    if (result.kind === "done") {
      this.conflicts = 0;
      this.draft.committed(result.rev);
      return true;
    }
    if (result.kind === "fenced") throw new Error(`${this.entity.key} was committed without an owner, yet fenced`);
    if (++this.conflicts > this.limits.conflicts) {
      this.conflicts = 0;
      throw new EngineError("overloaded", `${this.limits.conflicts} commits in a row met another writer's`);
    }
    this.draft.replace(result.snapshot);
    return false;
  }

  private load(batch: readonly Input[]): Promise<void> | undefined {
    const missing = this.draft.missing(batch);
    if (missing === undefined) return undefined;
    const loaded = this.engine.load(this.entity, missing);
    if (!(loaded instanceof Promise)) return this.fill(batch, missing, loaded);
    return loaded.then((snapshot) => this.fill(batch, missing, snapshot));
  }

  /** When somebody else has committed since the rest was loaded, everything is loaded anew. */
  private fill(batch: readonly Input[], keys: readonly RowKey[], snapshot: Snapshot): Promise<void> | undefined {
    if (this.draft.fill(keys, snapshot)) return undefined;
    this.draft.forget();
    return this.load(batch);
  }
}

/** The keepers of this process, at most `max` idle ones kept; the longest unused go first. */
export class Keepers {
  private readonly keepers = new Map<string, Keeper>();

  constructor(
    private readonly engine: Engine,
    private readonly soon: (task: () => void) => void,
    private readonly max = 10_000,
    private readonly limits: KeeperLimits = KEEPER_LIMITS,
  ) {}

  get size(): number {
    return this.keepers.size;
  }

  submit<O>(entity: Entity, keys: readonly RowKey[], rule: Rule<O>): Promise<O> {
    let keeper = this.keepers.get(entity.key);
    if (keeper === undefined) {
      if (this.keepers.size >= this.max) this.evict();
      keeper = new Keeper(entity, this.engine, this.soon, this.limits);
      this.keepers.set(entity.key, keeper);
    }
    return keeper.submit(keys, rule);
  }

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
