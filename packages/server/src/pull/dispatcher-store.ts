/**
 * The rows of a subscription as its dispatcher reads and stores them, under the dispatcher's ownership.
 *
 * Invariants: one commit is in flight; what is acknowledged meanwhile shares the next one. A caller that waits for durability is
 * answered after a commit that began later than its call. A commit that fails is repeated, and its callers learn that the outcome
 * is unknown.
 */
import type { Cancel, World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { FENCED } from "../engine/keeper.ts";
import { rowsOf } from "../engine/table-rows.ts";
import type { Term } from "../engine/term.ts";
import type { Block } from "../leases/block-row.ts";
import { blockOfKey, blockTable } from "../leases/block-table.ts";
import { streamEntity } from "../streams/state.ts";
import type { AckOutcome } from "./contract.ts";
import { parseFilter } from "./filter.ts";
import { type LogParts, PulledLog } from "./pulled-log.ts";
import { beginTermRule, dropBlocksRule, endRule, isSliding, type LogState, storeRule } from "./rules.ts";
import { logPaths, logTable, META, metaTable, type PullerMeta } from "./state.ts";

export interface StoreParts {
  readonly engine: Engine;
  readonly world: World;
  readonly limits: {
    readonly pageRows: number;
    readonly retryMs: number;
    readonly checkMs: number;
    readonly cacheBytes: number;
  };
  readonly report: (what: string, fault: unknown) => void;
}

export interface StoreEvents {
  /** Acknowledgements are durable. */
  stored(): void;
  /** The subscription was changed elsewhere; undefined if it was deleted. */
  changed(meta: PullerMeta | undefined): void;
  /** Another dispatcher has begun. */
  failed(): void;
  /** Whether clients use the subscription. */
  isUsed(): boolean;
}

type Waiter = (outcome: AckOutcome) => void;

export class DispatcherStore {
  logs: readonly PulledLog[] = [];
  private meta: PullerMeta | undefined;
  private waiters: Waiter[] = [];
  private isStoring = false;
  private isMarked = false;
  private isStopped = false;
  private cancelCheck: Cancel | undefined;

  constructor(
    private readonly parts: StoreParts,
    private readonly term: Term,
    private readonly events: StoreEvents,
  ) {}

  /** Undefined if there is no such subscription, or the ownership has ended. */
  async begin(): Promise<PullerMeta | undefined> {
    const { node } = this.parts.engine;
    const meta = await this.term.submit([META], (view, now) => beginTermRule(view, now, node));
    return meta === FENCED ? undefined : (meta as PullerMeta | undefined);
  }

  async load(meta: PullerMeta, parts: Omit<LogParts, "filter" | "cacheBytes">): Promise<PulledLog[]> {
    const { engine, limits } = this.parts;
    const { entity } = this.term;
    this.meta = meta;
    const paths = logPaths(meta.topic);
    const { rows } = await engine.load(
      entity,
      paths.map((path) => logTable.at(path)),
    );
    const blocks = await this.loadBlocks(meta);
    const heads = await Promise.all(paths.map((path) => engine.load(streamEntity(entity.project, path), [])));
    const { filter: text } = meta.options;
    const filter = text === undefined || text === "" ? undefined : parseFilter(text);
    return paths.map((path, index) => {
      const row = rows[index] && logTable.decode(rows[index]);
      if (row === undefined) throw new Error(`the subscription ${entity.key} has no row of ${path}`);
      const { cacheBytes } = limits;
      const start = { ...row, head: heads[index]!.head.last };
      return new PulledLog({ ...parts, filter, cacheBytes }, index, path, start, blocks.get(path) ?? [], engine.now());
    });
  }

  /** Rows of an earlier edition are of no use any more. */
  private async loadBlocks({ edition }: PullerMeta): Promise<Map<string, Map<number, Block>>> {
    const { engine, limits } = this.parts;
    const found = new Map<string, Map<number, Block>>();
    const stale: string[] = [];
    for await (const { key, value } of rowsOf(engine, this.term.entity, blockTable, limits.pageRows)) {
      const block = blockOfKey(key);
      const known = found.get(block.path) ?? new Map();
      if (block.edition === edition) found.set(block.path, known.set(block.number, value));
      else if (block.edition < edition) stale.push(key);
    }
    for (let at = 0; at < stale.length; at += limits.pageRows) {
      await this.term.submit([], () => dropBlocksRule(stale.slice(at, at + limits.pageRows)));
    }
    return found;
  }

  /** Something differs from the stored rows. */
  mark(): void {
    if (this.isStopped || this.isMarked) return;
    this.isMarked = true;
    if (!this.isStoring) this.parts.world.soon(() => void this.store());
  }

  /** Resolves with `done` when everything up to now is stored. */
  durable(): Promise<AckOutcome> {
    if (this.isStopped) return Promise.resolve("failed");
    this.mark();
    return new Promise((resolve) => this.waiters.push(resolve));
  }

  private async store(): Promise<void> {
    if (this.isStoring || this.isStopped || this.meta === undefined) return;
    this.isStoring = true;
    while (this.isMarked && !this.isStopped) {
      this.isMarked = false;
      const { meta } = this;
      const waiters = this.waiters;
      this.waiters = [];
      const taken = new Map<PulledLog, LogState>();
      for (const log of this.logs) if (log.isChanged) taken.set(log, log.takeChanges());
      await this.commit(meta, taken, waiters);
    }
    this.isStoring = false;
  }

  private async commit(meta: PullerMeta, taken: Map<PulledLog, LogState>, waiters: Waiter[]): Promise<void> {
    const answer = (outcome: AckOutcome) => {
      for (const waiter of waiters) waiter(outcome);
    };
    const rows = new Map([...taken].map(([log, state]) => [log.path, state]));
    try {
      const outcome = await this.term.submit([META], (view, now) => storeRule(view, now, meta, rows));
      if (outcome === "stored") {
        for (const [log, { at }] of taken) log.durableFloor = at;
        answer("done");
        this.events.stored();
        return;
      }
      // A seek or a deletion voids every ack id. After the loss of ownership the acknowledgement may be repeated elsewhere.
      answer(outcome === "changed" ? "gone" : "failed");
      if (outcome === "changed") await this.check();
      else this.events.failed();
    } catch (fault) {
      answer("failed");
      for (const [log, state] of taken) log.redo(state);
      if (this.isStopped) return;
      const { report, world, limits } = this.parts;
      report(`storing acknowledgements of ${this.term.entity.key} failed; it is repeated`, fault);
      world.after(limits.retryMs, () => this.mark());
    }
  }

  /** Callers whose acknowledgements a seek has voided. */
  abandon(): void {
    this.logs = [];
    const waiters = this.waiters;
    this.waiters = [];
    for (const waiter of waiters) waiter("gone");
  }

  topicGone(): void {
    this.term
      .submit([META], (view) => endRule(view, "isTopicDeleted"))
      .catch((fault) => {
        this.parts.report(`storing that the topic of ${this.term.entity.key} is gone failed`, fault);
      });
  }

  /** A change on another node must not wait for the next acknowledgement. */
  checkLater(): void {
    if (this.isStopped) return;
    this.cancelCheck = this.parts.world.after(this.parts.limits.checkMs, async () => {
      await this.check();
      this.checkLater();
    });
  }

  private async check(): Promise<void> {
    try {
      const { rows } = await this.parts.engine.load(this.term.entity, [META]);
      if (this.isStopped || !this.term.isHeld()) return;
      const meta = rows[0] && metaTable.decode(rows[0]);
      if (meta !== undefined && this.meta !== undefined && meta.term !== this.meta.term) this.events.failed();
      else this.events.changed(meta);
      // An idle stream is a use too, and a node that sweeps the subscription sees only what is stored.
      if (meta !== undefined && this.events.isUsed() && isSliding(meta, this.parts.engine.now())) this.mark();
    } catch {
      // The store does not answer, which renewals of the claim notice too.
    }
  }

  stop(): void {
    this.isStopped = true;
    this.cancelCheck?.();
    const waiters = this.waiters;
    this.waiters = [];
    for (const waiter of waiters) waiter("failed");
  }
}
