/**
 * Who wants to hear of commits. A commit publishes on a channel of its entity; this node listens to the channels of what it watches.
 * A notification can be lost with a connection, so watched entities are also looked at every few seconds: a loss costs
 * latency, never a message.
 */
import type { Cancel, World } from "../../core/world.ts";
import type { Entity, Unwatch } from "../contract.ts";
import { bucketOf, type Keys } from "./keys.ts";
import type { RedisLimits } from "./options.ts";
import type { Subscriber } from "./topology.ts";

interface Watched {
  readonly key: string;
  readonly bucket: number;
  readonly wakes: Set<{ readonly wake: () => void }>;
  /** The newest rev heard of or seen; undefined before the first look. */
  rev: string | undefined;
}

export class Watchers {
  private readonly watched = new Map<string, Watched>();
  private timer: Cancel | undefined;
  private isClosed = false;

  constructor(
    private readonly subscriber: Subscriber,
    private readonly keys: Keys,
    private readonly world: World,
    private readonly limits: Pick<RedisLimits, "pollMs" | "pollBatch">,
    /** The start of an entity's head, by the head's name. */
    private readonly peek: (bucket: number, channel: string) => Promise<string>,
  ) {
    subscriber.on("smessage", (channel: string, rev: string) => this.heard(channel, rev));
    this.lookLater();
  }

  watch(e: Entity, wake: () => void): Unwatch {
    const channel = this.keys.entity(e).head;
    let found = this.watched.get(channel);
    if (found === undefined) {
      found = { key: e.key, bucket: bucketOf(e.key), wakes: new Set(), rev: undefined };
      this.watched.set(channel, found);
      void this.subscribe(channel, found);
    }
    const { wakes } = found;
    const watcher = { wake };
    wakes.add(watcher);
    return () => {
      wakes.delete(watcher);
      if (wakes.size > 0 || this.watched.get(channel) !== found) return;
      this.watched.delete(channel);
      void this.unsubscribe(channel);
    };
  }

  /** After a commit of this node: quicker than the way around. */
  committed(channel: string, rev: number): void {
    if (this.watched.has(channel)) queueMicrotask(() => this.heard(channel, String(rev)));
  }

  close(): void {
    this.isClosed = true;
    this.timer?.();
    this.watched.clear();
  }

  private heard(channel: string, rev: string): void {
    const watched = this.watched.get(channel);
    if (watched === undefined || watched.rev === rev) return;
    watched.rev = rev;
    wakeAll(watched);
  }

  subscribeAgain(): void {
    for (const [channel, watched] of this.watched) void this.subscribe(channel, watched);
  }

  /** What was committed before the subscription stood, nobody told us. */
  private async subscribe(channel: string, watched: Watched): Promise<void> {
    try {
      await this.subscriber.ssubscribe(channel);
      wakeAll(watched);
    } catch {
      // It is looked at every so often all the same.
    }
  }

  private async unsubscribe(channel: string): Promise<void> {
    try {
      await this.subscriber.sunsubscribe(channel);
    } catch {
      // What is still heard is for nobody.
    }
  }

  private lookLater(): void {
    this.timer = this.world.after(this.limits.pollMs, () => {
      void this.look().finally(() => {
        if (!this.isClosed) this.lookLater();
      });
    });
  }

  private async look(): Promise<void> {
    const all = [...this.watched];
    const { pollBatch } = this.limits;
    for (let i = 0; i < all.length && !this.isClosed; i += pollBatch) {
      await Promise.all(
        all.slice(i, i + pollBatch).map(async ([channel, { bucket }]) => {
          try {
            this.heard(channel, await this.peek(bucket, channel));
          } catch {
            // Whoever reads will be told that Redis does not answer; this is a hint.
          }
        }),
      );
    }
  }
}

function wakeAll({ wakes }: Watched): void {
  for (const watcher of [...wakes]) if (wakes.has(watcher)) watcher.wake();
}
