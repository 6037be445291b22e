/**
 * Hears every event of every stream and notifies the subscriptions concerned. The service connects it to the streams.
 *
 * Invariants: an append pays for one map entry, whatever subscriptions exist; the rest runs in a later turn. If the
 * queue overflows, every subscription is checked again, so no event is lost.
 */
import type { World } from "../core/world.ts";
import type { StreamEvent } from "../streams/service.ts";
import { WAKE_LIMITS } from "./defaults.ts";
import type { SubscriptionIndex } from "./matching.ts";
import type { Waker } from "./waking.ts";

/** What happened to one stream since the last turn. */
interface Heard {
  readonly project: string;
  readonly path: string;
  hasGone: boolean;
  isThere: boolean;
  isNew: boolean;
}

export class Follower {
  private queue = new Map<string, Heard>();
  private isScheduled = false;
  private isOverrun = false;

  constructor(
    private readonly index: SubscriptionIndex,
    private readonly waker: Waker,
    private readonly world: World,
    /** Streams whose events may wait for the next turn. */
    private readonly maxQueued = WAKE_LIMITS.queuedStreams,
  ) {}

  hear({ kind, project, path }: StreamEvent): void {
    if (!this.index.has(project)) return;
    const key = `${project}/${path}`;
    const heard = this.queue.get(key) ?? { project, path, hasGone: false, isThere: false, isNew: false };
    this.schedule();
    if (this.queue.size < this.maxQueued) this.queue.set(key, heard);
    else if (!this.queue.has(key)) this.isOverrun = true;
    heard.isThere = kind !== "deleted";
    if (kind === "deleted") heard.hasGone = true;
    if (kind === "created") heard.isNew = true;
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    this.world.soon(() => this.flush());
  }

  /** Processes the queue now instead of in the next turn, so that a request after an append sees its effect. */
  flush(): void {
    this.isScheduled = false;
    const queue = this.queue;
    this.queue = new Map();
    for (const { project, path, hasGone, isThere, isNew } of queue.values()) {
      for (const subscription of this.index.match(project, path)) {
        subscription.hear(path, hasGone, isThere);
        this.waker.follow(subscription);
      }
      // A wake stream that did not exist before.
      if (isNew)
        for (const subscription of this.index.writers(project, path)) void this.waker.tick(subscription, "retry");
    }
    if (!this.isOverrun) return;
    this.isOverrun = false;
    for (const subscription of this.index.all()) {
      subscription.isUnsure = true;
      void this.waker.tick(subscription, "time");
    }
  }
}
