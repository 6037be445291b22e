/**
 * Finds every stored entity of a kind, in all projects, and has its feature adopt each. It runs at the start, again after a
 * failure, and periodically if other nodes create entities too. Wakes and session fan-out own one each.
 *
 * Invariants: one pass runs at a time, none after `stop`. An entity that fails to be adopted does not stop the others, and every
 * pass retries it. Each adoption has a turn of its own, because an engine may answer within the turn: a server that starts on a
 * million entities serves requests from the first turn on.
 */
import { type BackoffFigures, backoffMs } from "../core/backoff.ts";
import { type Cancel, nextTurn, type World } from "../core/world.ts";
import type { Engine } from "./contract.ts";

export interface Discovered {
  readonly kind: string;
  /** The plural noun for such entities in a report. */
  readonly noun: string;
  /**
   * Adopts one entity. Must be idempotent, because later passes call it again. Its cost must not grow with the entity's rows,
   * because most entities need nothing.
   */
  readonly adopt: (project: string, id: string) => Promise<void>;
  /** Ids per page of the listing. */
  readonly page: number;
  readonly backoff: BackoffFigures;
  /** How often a pass looks for entities of other nodes; undefined if another mechanism finds them. */
  readonly recheckMs?: number | undefined;
  readonly report: (what: string, fault: unknown) => void;
}

/** One report for all failures of a pass, because an outage fails thousands of entities for one reason. */
interface Failure {
  count: number;
  /** The first entity that failed. */
  readonly name: string;
  readonly fault: unknown;
}

export class Discovery {
  /** Resolves when the current pass has ended. */
  ready: Promise<void> = Promise.resolve();
  private isStopped = false;
  private failures = 0;
  private cancel: Cancel | undefined;

  constructor(
    private readonly engine: Engine,
    private readonly world: World,
    private readonly wanted: Discovered,
  ) {}

  start(): void {
    this.ready = this.pass().then(
      (failure) => (failure === undefined ? this.recheckLater() : this.retryLater(failure)),
      (fault) => this.retryLater({ count: 0, name: "listing them", fault }),
    );
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    this.cancel?.();
    await this.ready;
  }

  private async pass(): Promise<Failure | undefined> {
    const { kind, page, adopt } = this.wanted;
    let failure: Failure | undefined;
    for (const project of await this.engine.projects(kind)) {
      for (let after: string | undefined = ""; after !== undefined; ) {
        const listing = await this.engine.list(project, kind, "", after, page);
        for (const id of listing.ids) {
          await nextTurn(this.world);
          if (this.isStopped) return undefined;
          try {
            await adopt(project, id);
          } catch (fault) {
            failure ??= { count: 0, name: `${project}/${id}`, fault };
            failure.count++;
          }
        }
        after = listing.next;
      }
    }
    return failure;
  }

  private recheckLater(): void {
    this.failures = 0;
    const { recheckMs } = this.wanted;
    if (recheckMs !== undefined && !this.engine.exclusive) this.startAfter(recheckMs);
  }

  private retryLater({ count, name, fault }: Failure): void {
    if (this.isStopped) return;
    const { noun, backoff, report } = this.wanted;
    const ms = backoffMs(++this.failures, backoff);
    const others = count > 1 ? ` and ${count - 1} more` : "";
    report(`adopting the stored ${noun} failed: ${name}${others}; next attempt in ${ms} ms`, fault);
    this.startAfter(ms);
  }

  private startAfter(ms: number): void {
    if (!this.isStopped) this.cancel = this.world.after(ms, () => this.start());
  }
}
