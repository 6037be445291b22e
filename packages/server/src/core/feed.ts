/**
 * The feed of a log: after a commit it reads the new messages once, and every reader at the tail gets the same frame. A frame is
 * encoded once per codec, for any number of readers and formats. Streams and channels provide their logs; followers join.
 *
 * Invariants: a log has one feed while it has a reader, and none otherwise. A reader gets a frame only if it stands exactly where
 * the frame begins; the feed tells any other reader to catch up by itself.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { concat } from "./bytes.ts";

/** What tells a log from another one at its place: a new log begins in a new generation, and a failover only raises it. */
export interface LogHead {
  readonly generation: number;
  readonly start: Position;
  /** Where the log ended at the last failover. */
  readonly survived?: Position | undefined;
}

/** A piece of a log, with the fields that followers need. */
export interface LogPage {
  readonly head: LogHead;
  readonly messages: readonly unknown[];
  /** A reader's position after these messages. */
  readonly next: Position;
  /** Whether no committed message lies after `next`. */
  readonly atTail: boolean;
}

/** One log as its followers read it, in any format. */
export interface Log<P extends LogPage> {
  /** Names the log within its `Feeds`. */
  readonly key: string;
  /** Undefined if the log is gone or cannot be read from that position. */
  read(after: Position): Promise<P | undefined>;
  /** Calls `wake` after commits; returns the function that ends the watch. */
  watch(wake: () => void): () => void;
  /** Whether no message will follow this page. */
  isOver(page: P): boolean;
}

/** How pages become bytes on a connection. There is one object per format, because frames tell codecs apart by identity. */
export interface Codec<P extends LogPage> {
  encode(page: P): Uint8Array;
  /** The bytes after the messages. Readers of the same variant share them. */
  trailer?(page: P, variant: number): Uint8Array;
  /** Called once with every page that readers at the tail share, before the first of them gets it. */
  onShared?(page: P): void;
}

/** Encodes a page for one reader; shared pages are `Frame`s. */
export function encodePage<P extends LogPage>(codec: Codec<P>, page: P, variant: number): Uint8Array {
  const data = codec.encode(page);
  return codec.trailer === undefined ? data : concat([data, codec.trailer(page, variant)]);
}

interface Encoding {
  readonly data: Uint8Array;
  readonly variants: Map<number, Uint8Array>;
}

/** A page for many readers, with its encodings so far. */
export class Frame<P extends LogPage> {
  private readonly encodings = new Map<Codec<P>, Encoding>();
  // The encoding that the last reader got. Most readers of a log want the same one, and this runs for each of them.
  private lastCodec: Codec<P> | undefined = undefined;
  private lastVariant = 0;
  private lastBytes: Uint8Array | undefined = undefined;

  constructor(readonly page: P) {}

  encoded(codec: Codec<P>, variant: number): Uint8Array {
    if (codec === this.lastCodec && variant === this.lastVariant) return this.lastBytes!;
    const bytes = this.lookUp(codec, variant);
    this.lastCodec = codec;
    this.lastVariant = variant;
    this.lastBytes = bytes;
    return bytes;
  }

  private lookUp(codec: Codec<P>, variant: number): Uint8Array {
    let encoding = this.encodings.get(codec);
    if (encoding === undefined) {
      codec.onShared?.(this.page);
      encoding = { data: codec.encode(this.page), variants: new Map() };
      this.encodings.set(codec, encoding);
    }
    const { data, variants } = encoding;
    if (codec.trailer === undefined) return data;
    let bytes = variants.get(variant);
    if (bytes === undefined) {
      bytes = concat([data, codec.trailer(this.page, variant)]);
      variants.set(variant, bytes);
    }
    return bytes;
  }
}

export interface FeedReader<P extends LogPage> {
  readonly position: Position;
  /** Takes the frame, which begins exactly where the reader stands. */
  take(frame: Frame<P>): void;
  /** The feed is at another position: the reader leaves it and reads on by itself. */
  resync(): void;
  /** The log is gone, or the store failed to read it. A reader that waits for the log to come back may stay. */
  lose(why: "gone" | "fault"): void;
}

export class Feeds<P extends LogPage> {
  private readonly feeds = new Map<string, Feed<P>>();
  private moves = 0;

  /** How many logs have readers at their tail. */
  get size(): number {
    return this.feeds.size;
  }

  /** Grows with every move of any feed. A reader notes it before it reads by itself. */
  get clock(): number {
    return this.moves;
  }

  tick(): number {
    return ++this.moves;
  }

  /**
   * Joins a reader that has found no message after its position since the clock stood at `asOf`. Undefined if the feed has moved
   * past the reader since; then the reader must catch up and join again.
   */
  join(log: Log<P>, reader: FeedReader<P>, asOf: number): Feed<P> | undefined {
    let feed = this.feeds.get(log.key);
    if (feed === undefined) {
      feed = new Feed(this, log, reader.position);
      this.feeds.set(log.key, feed);
    }
    return feed.admit(reader, asOf) ? feed : undefined;
  }

  remove(key: string): void {
    this.feeds.delete(key);
  }
}

export class Feed<P extends LogPage> {
  private readonly readers = new Set<FeedReader<P>>();
  private readonly unwatch: () => void;
  /** The clock of all feeds at this feed's last move. */
  private movedAt: number;
  private pumping = false;
  private woken = false;

  /** Only `Feeds` makes one. */
  constructor(
    private readonly feeds: Feeds<P>,
    private readonly log: Log<P>,
    private position: Position,
  ) {
    this.movedAt = feeds.tick();
    this.unwatch = log.watch(() => this.wake());
  }

  admit(reader: FeedReader<P>, asOf: number): boolean {
    const isBehind = comparePositions(reader.position, this.position) < 0;
    // A reader may stand before the feed without a message in between: both wait for a log to begin, and one has seen an earlier
    // log.
    if (isBehind && this.movedAt > asOf) return false;
    this.readers.add(reader);
    // A commit may have come between the reader's last read and the watch.
    this.wake();
    return true;
  }

  leave(reader: FeedReader<P>): void {
    if (!this.readers.delete(reader) || this.readers.size > 0) return;
    this.unwatch();
    this.feeds.remove(this.log.key);
  }

  private wake(): void {
    this.woken = true;
    if (this.pumping) return;
    this.pumping = true;
    // If the store cannot be read, clients reconnect, and the answer to that request says why.
    this.pump().catch(() => this.lose("fault"));
  }

  private async pump(): Promise<void> {
    try {
      while (this.woken && this.readers.size > 0) {
        this.woken = false;
        const page = await this.log.read(this.position);
        if (page === undefined) this.lose("gone");
        else this.deliver(page);
      }
    } finally {
      this.pumping = false;
    }
  }

  /** Readers leave during this loop, which a Set allows. */
  private lose(why: "gone" | "fault"): void {
    for (const reader of this.readers) reader.lose(why);
  }

  private deliver(page: P): void {
    if (!page.atTail) this.woken = true;
    const isOver = this.log.isOver(page);
    if (page.messages.length === 0 && !isOver) return;
    const from = this.position;
    const frame = new Frame(page);
    this.position = page.next;
    this.movedAt = this.feeds.tick();
    for (const reader of this.readers) {
      if (comparePositions(reader.position, from) === 0) reader.take(frame);
      else if (comparePositions(reader.position, page.next) < 0 || isOver) reader.resync();
    }
  }
}
