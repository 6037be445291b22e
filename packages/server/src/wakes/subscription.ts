/**
 * What this process remembers of one subscription besides its rows: waiting steps, links that may have work, the next
 * check. All of it can be lost and rebuilt. The index holds one per subscription; the waker works on it.
 *
 * Invariants: the steps of one subscription run one after another. A link that is not suspected has nothing pending, as
 * long as this process hears every append.
 */
import { Refusal } from "../core/refusal.ts";
import { isReserved } from "../core/reserved.ts";
import type { Cancel, World } from "../core/world.ts";
import type { Rev } from "../engine/contract.ts";
import { WAKE_LIMITS, type WakeLimits } from "./defaults.ts";
import { type Glob, matchesGlob, parseGlob } from "./glob.ts";
import { type Config, isWakeStream, type Meta } from "./state.ts";

export class Subscription {
  readonly config: Config;
  readonly incarnation: string;
  readonly glob: Glob | undefined;
  /** Streams linked by name, which the index looks up besides the pattern. */
  readonly explicit = new Set<string>();
  /** Stream events that are not stored yet. */
  readonly toLink = new Set<string>();
  readonly toUnlink = new Set<string>();
  /** The generation whose notification is being delivered; a timer does not start another. */
  inFlight: number | undefined;
  /** A step that stores the events is waiting already. */
  isFollowing = false;
  /** A restart or a fault may have lost events, so the whole subscription is checked again. */
  isUnsure = true;
  /** The revision at this node's last look for changes of other nodes. */
  lookedAt: Rev = 0;
  /** Consecutive faults. */
  doubts = 0;
  /** It was reported that there is no room for more links. */
  isKnownFull = false;
  isStopped = false;
  private suspects: Set<string> | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private waiting = 0;
  private timer: Cancel | undefined;

  constructor(
    readonly project: string,
    readonly id: string,
    meta: Meta,
    private readonly limits: WakeLimits = WAKE_LIMITS,
  ) {
    this.config = meta.config;
    this.incarnation = meta.incarnation;
    this.glob = meta.config.pattern === undefined ? undefined : parseGlob(meta.config.pattern);
  }

  /**
   * Whether the pattern matches this stream. Its own wake stream never matches, because each wake would cause the next.
   */
  wants(path: string): boolean {
    if (this.glob === undefined || isWakeStream(this.config, path) || isReserved(path)) return false;
    return matchesGlob(this.glob, path);
  }

  /** Refuses a request if too many requests already wait for this subscription. */
  admit(): void {
    const { queuedRequests } = this.limits;
    if (this.waiting < queuedRequests) return;
    throw new Refusal("overloaded", `more than ${queuedRequests} requests wait for one subscription; retry later`);
  }

  /** Runs the step after all earlier ones, whether they succeed or fail. */
  serially<T>(step: () => Promise<T>): Promise<T> {
    this.waiting++;
    const run = this.last.then(step).finally(() => this.waiting--);
    this.last = run.catch(() => {});
    return run;
  }

  /** Resolves when all steps so far have settled. */
  get settled(): Promise<unknown> {
    return this.last;
  }

  /** Records a stream event: the stream was deleted, or exists and may have work, or the first and then the second. */
  hear(path: string, hasGone: boolean, isThere: boolean): void {
    if (hasGone) {
      this.toUnlink.add(path);
      this.toLink.delete(path);
    }
    if (isThere) {
      if (this.wants(path)) this.toLink.add(path);
      this.suspect(path);
    }
    if (this.toLink.size + this.toUnlink.size <= this.limits.queuedNotes) return;
    this.toLink.clear();
    this.toUnlink.clear();
    this.isUnsure = true;
  }

  suspect(path: string): void {
    this.suspects?.add(path);
  }

  suspectAll(): void {
    this.suspects = undefined;
  }

  /**
   * The links that may have work; undefined if every link may. From now on no link is suspected. Taken before any read,
   * so that an append in between is not forgotten.
   */
  takeSuspects(): ReadonlySet<string> | undefined {
    const taken = this.suspects;
    this.suspects = new Set();
    return taken;
  }

  /** Schedules the next check; replaces the earlier one. */
  arm(world: World, inMs: number | undefined, task: () => void): void {
    this.timer?.();
    this.timer = undefined;
    if (inMs === undefined || this.isStopped) return;
    this.timer = world.after(inMs, () => {
      this.timer = undefined;
      task();
    });
  }

  stop(): void {
    this.isStopped = true;
    this.timer?.();
    this.timer = undefined;
  }
}
