/**
 * Finds every stored entity of a kind, in all projects, and has its feature adopt each: at the start, again after a failure, and
 * from time to time where other nodes create entities too. Wakes and session fan-out own one each.
 *
 * Invariants: one pass at a time, none after `stop`; an entity that cannot be adopted does not keep the others from being
 * adopted, and is tried again until it is.
 */
import { type BackoffFigures, backoffMs } from "../core/backoff.ts";
import type { Cancel, World } from "../core/world.ts";
import type { Engine } from "./contract.ts";

export interface Discovered {
  readonly kind: string;
  /** What such an entity is called in a report, in the plural. */
  readonly noun: string;
  /** Takes up one entity. Called again for the same one in later passes. */
  readonly adopt: (project: string, id: string) => Promise<void>;
  /** Ids that are listed at a time. */
  readonly page: number;
  readonly backoff: BackoffFigures;
  /** How often entities of other nodes are looked for; undefined where something else finds them. */
  readonly recheckMs?: number | undefined;
  readonly report: (what: string, fault: unknown) => void;
}

/** One for all that failed in a pass: an outage fails thousands for one reason. */
interface Failure {
  count: number;
  /** The first of them. */
  readonly name: string;
  readonly fault: unknown;
}

export class Discovery {
  /** Resolves when the pass under way has ended. */
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
