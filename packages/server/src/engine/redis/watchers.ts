/**
 * Wakes the watchers of entities. A commit publishes on its entity's channel, and this node subscribes to the channels that it
 * watches. `open.ts` owns it and starts it once Redis has proved fit.
 *
 * Invariants: a lost notification costs latency, never the wake, because every watched entity is compared with Redis every
 * `pollMs`. A poll takes one call per bucket and `pollBatch` entities; a bucket that does not answer delays no other.
 */
import type { Cancel, World } from "../../core/world.ts";
import type { Entity, Unwatch } from "../contract.ts";
import { BUCKETS, type Keys } from "./keys.ts";
import type { RedisLimits } from "./options.ts";
import type { Subscriber } from "./topology.ts";

interface Watched {
  /** The name of the entity's head, which is also its channel. */
  readonly channel: string;
  readonly wakes: Set<{ readonly wake: () => void }>;
  /** The newest known rev; undefined before the first comparison. */
  rev: string | undefined;
}

/** Watched entities of one bucket, and whether a poll of them is in flight. */
interface Bucket {
  readonly watched: Set<Watched>;
  isPolling: boolean;
}

/**
 * The revs of many heads of a bucket, in their order. A plain command, because a function that returns only the differences saves
 * bandwidth but takes a master twice the time.
 */
export type LoadRevs = (bucket: number, heads: readonly string[]) => Promise<readonly string[]>;

export class Watchers {
  private readonly watched = new Map<string, Watched>();
  private readonly buckets: readonly Bucket[] = Array.from({ length: BUCKETS }, () => ({
    watched: new Set<Watched>(),
    isPolling: false,
  }));
  private lastPolled = 0;
  /** When the next bucket should be polled. */
  private pollDueMs = 0;
  private timer: Cancel | undefined;
  private isClosed = false;

  constructor(
    private readonly subscriber: Subscriber,
    private readonly keys: Keys,
    private readonly world: World,
    private readonly limits: Pick<RedisLimits, "pollMs" | "pollBatch">,
    private readonly loadRevs: LoadRevs,
  ) {
    subscriber.on("smessageBuffer", (channel: Buffer, rev: Buffer) => {
      const watched = this.watched.get(String(channel));
      if (watched !== undefined) this.heard(watched, String(rev));
    });
  }

  start(): void {
    this.pollDueMs = this.world.monotonicMs();
    this.pollNext();
  }

  watch(e: Entity, wake: () => void): Unwatch {
    const { bucket, head: channel } = this.keys.entity(e);
    let found = this.watched.get(channel);
    if (found === undefined) {
      found = { channel, wakes: new Set(), rev: undefined };
      this.watched.set(channel, found);
      this.buckets[bucket]!.watched.add(found);
      void this.subscribe(found);
    }
    const watched = found;
    const watcher = { wake };
    watched.wakes.add(watcher);
    return () => {
      watched.wakes.delete(watcher);
      if (watched.wakes.size > 0 || this.watched.get(channel) !== watched) return;
      this.watched.delete(channel);
      this.buckets[bucket]!.watched.delete(watched);
      void this.unsubscribe(channel);
    };
  }

  /** Wakes after a commit of this node at once, without the way through Redis. */
  committed(channel: string, rev: number): void {
    const watched = this.watched.get(channel);
    if (watched !== undefined) queueMicrotask(() => this.heard(watched, String(rev)));
  }

  subscribeAgain(): void {
    for (const watched of this.watched.values()) void this.subscribe(watched);
  }

  close(): void {
    this.isClosed = true;
    this.timer?.();
    this.watched.clear();
    for (const { watched } of this.buckets) watched.clear();
  }

  private heard(watched: Watched, rev: string): void {
    if (watched.rev === rev) return;
    watched.rev = rev;
    wakeAll(watched);
  }

  /** Subscribes and then wakes the watchers, because no notification reports commits from before the subscription. */
  private async subscribe(watched: Watched): Promise<void> {
    try {
      await this.subscriber.ssubscribe(watched.channel);
      wakeAll(watched);
    } catch {
      // The poll finds the commits that this entity's watchers miss.
    }
  }

  private async unsubscribe(channel: string): Promise<void> {
    try {
      await this.subscriber.sunsubscribe(channel);
    } catch {
      // A notification without a watcher is ignored.
    }
  }

  /**
   * Polls one bucket after the other, evenly spread, because all at once would delay a master and the commits behind the polls.
   */
  private pollNext(): void {
    const { pollMs } = this.limits;
    const now = this.world.monotonicMs();
    const lateMs = now - this.pollDueMs;
    // The next poll makes up for a late timer, so that a round takes at most `pollMs`. It does not make up for a paused process.
    this.pollDueMs = (lateMs < pollMs ? this.pollDueMs : now) + pollMs / BUCKETS;
    this.timer = this.world.after(Math.max(0, this.pollDueMs - now), () => {
      this.lastPolled = (this.lastPolled + 1) % BUCKETS;
      const bucket = this.buckets[this.lastPolled]!;
      if (bucket.watched.size > 0 && !bucket.isPolling) void this.poll(this.lastPolled, bucket);
      this.pollNext();
    });
  }

  private async poll(number: number, bucket: Bucket): Promise<void> {
    bucket.isPolling = true;
    const all = [...bucket.watched];
    const { pollBatch } = this.limits;
    try {
      for (let i = 0; i < all.length && !this.isClosed; i += pollBatch) {
        await this.compare(number, all.slice(i, i + pollBatch));
      }
    } catch {
      // Operations report that Redis does not answer; the next poll tries again.
    }
    bucket.isPolling = false;
  }

  private async compare(number: number, batch: readonly Watched[]): Promise<void> {
    const heads = batch.map(({ channel }) => channel);
    const revs = await this.loadRevs(number, heads);
    for (const [i, watched] of batch.entries()) this.heard(watched, revs[i]!);
  }
}

function wakeAll({ wakes }: Watched): void {
  for (const watcher of [...wakes]) if (wakes.has(watcher)) watcher.wake();
}
