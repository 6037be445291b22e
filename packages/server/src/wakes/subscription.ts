/**
 * What this process remembers of one subscription besides what is stored: who waits for whom, which streams may have work,
 * when to look again. All of it can be lost and built anew. The index holds one per subscription; the waker works on it.
 *
 * What must stay true: the steps of one subscription run one after another, and a link that is not suspected has nothing
 * pending, as long as this process hears of every append.
 */
import { Refusal } from "../core/http.ts";
import { isReserved } from "../core/reserved.ts";
import type { Cancel, World } from "../core/world.ts";
import type { Rev } from "../engine/contract.ts";
import { type Glob, matchesGlob, parseGlob } from "./glob.ts";
import { WAKE_LIMITS, type WakeLimits } from "./limits.ts";
import { type Config, isWakeStream, type Meta } from "./state.ts";

export class Subscription {
  readonly config: Config;
  readonly incarnation: string;
  readonly glob: Glob | undefined;
  /** Streams linked by name: what the index looks up besides the pattern. */
  readonly explicit = new Set<string>();
  /** What happened to streams and is not taken note of yet. */
  readonly toLink = new Set<string>();
  readonly toUnlink = new Set<string>();
  /** The generation whose notification is on its way; time does not start another. */
  inFlight: number | undefined;
  /** A step that takes note of what happened is waiting already. */
  isFollowing = false;
  /** Something may have been missed, by a restart or a fault: everything is looked at again. */
  isUnsure = true;
  /** What was stored when this node last looked for changes of others. */
  lookedAt: Rev = 0;
  /** Faults in a row. */
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

  /** Whether the pattern wants this stream. Its own wake stream never does: each wake would cause the next. */
  wants(path: string): boolean {
    if (this.glob === undefined || isWakeStream(this.config, path) || isReserved(path)) return false;
    return matchesGlob(this.glob, path);
  }

  /** Refuses a request when too many others wait for this subscription already. */
  admit(): void {
    const { queuedRequests } = this.limits;
    if (this.waiting < queuedRequests) return;
    throw new Refusal("overloaded", `more than ${queuedRequests} requests wait for one subscription`);
  }

  /** Runs the step after all that were asked for before, whatever becomes of those. */
  serially<T>(step: () => Promise<T>): Promise<T> {
    this.waiting++;
    const run = this.last.then(step).finally(() => this.waiting--);
    this.last = run.catch(() => {});
    return run;
  }

  /** Resolves when everything asked for so far is done. */
  get settled(): Promise<unknown> {
    return this.last;
  }

  /** Something happened to a stream: it has gone, or it is there and may have work, or first one and then the other. */
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
   * The links that may have work, or undefined when every link may; from now on none does until suspected again. Taken
   * before anything is read, so that what is appended in the meantime is not forgotten.
   */
  takeSuspects(): ReadonlySet<string> | undefined {
    const taken = this.suspects;
    this.suspects = new Set();
    return taken;
  }

  /** Looks again at a time; replaces the earlier time. */
  arm(world: World, atMs: number | undefined, task: () => void): void {
    this.timer?.();
    this.timer = undefined;
    if (atMs === undefined || this.isStopped) return;
    this.timer = world.after(Math.max(0, atMs - world.now()), () => {
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
