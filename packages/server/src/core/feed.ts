/**
 * The feed of a log: after a commit the new messages are read once, and every reader at the tail gets the same frame. A frame is
 * encoded once per codec, whatever number of readers and formats there are. Streams and channels bring their logs; followers join.
 *
 * Invariants: one feed per log that has a reader, none otherwise. A reader gets a frame only if it stands exactly where the frame
 * begins; any other reader is told to catch up by itself.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { concat } from "./bytes.ts";

/** A piece of a log, as far as its followers need to know it. */
export interface LogPage {
  readonly head: { readonly generation: number };
  readonly messages: readonly unknown[];
  /** Where a reader stands after these messages. */
  readonly next: Position;
  /** Nothing committed lies after `next`. */
  readonly atTail: boolean;
}

/** One log as its followers read it, whatever format they want. */
export interface Log<P extends LogPage> {
  /** Names the log within its `Feeds`. */
  readonly key: string;
  /** Undefined when the log is gone or cannot be read on from there. */
  read(after: Position): Promise<P | undefined>;
  /** Calls `wake` after commits; returns how to stop that. */
  watch(wake: () => void): () => void;
  /** Whether nothing will follow this page. */
  isOver(page: P): boolean;
}

/** How pages become bytes on a connection. There is one object per format, because frames tell codecs apart by identity. */
export interface Codec<P extends LogPage> {
  encode(page: P): Uint8Array;
  /** What follows the messages. Readers of the same variant share it. */
  trailer?(page: P, variant: number): Uint8Array;
}

/** The page as one reader gets it; for a page that is not shared. */
export function encodePage<P extends LogPage>(codec: Codec<P>, page: P, variant: number): Uint8Array {
  const data = codec.encode(page);
  return codec.trailer === undefined ? data : concat([data, codec.trailer(page, variant)]);
}

interface Encoding {
  readonly data: Uint8Array;
  readonly variants: Map<number, Uint8Array>;
}

/** A page that many readers get, and its encodings so far. */
export class Frame<P extends LogPage> {
  private readonly encodings = new Map<Codec<P>, Encoding>();
  // What the last reader got. Most readers of a log want the same, and this runs for each of them.
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
  /** The feed is elsewhere: the reader leaves it and reads on by itself. */
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

  /** Grows with every move of any feed. A reader notes it before it reads on by itself. */
  get clock(): number {
    return this.moves;
  }

  tick(): number {
    return ++this.moves;
  }

  /**
   * For a reader that has found nothing after its position since the clock stood at `asOf`. Undefined when the feed has moved
   * past the reader since: then the reader must catch up and ask again.
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
  /** When it came to its position, by the clock of all feeds. */
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
    // A reader may stand before the feed with nothing in between: both wait for a log to begin, and one has seen an earlier one.
    if (isBehind && this.movedAt > asOf) return false;
    this.readers.add(reader);
    // A commit may have come between the reader's last look and our watch.
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
    // When the store cannot be read, clients reconnect, and the answer to their request says why.
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

  /** Readers leave while this goes over them, which a Set allows. */
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
