/**
 * Live readers of one log that stand at its tail. After a commit the new messages are read and encoded once, and the same
 * bytes go to every reader. A reader that stands elsewhere catches up by itself and comes back. Streams and channels each
 * bring their own source; SSE readers join.
 */
import { comparePositions, type Position } from "@sluice/protocol";

/** A piece of a log, as far as readers that follow it need to know it. */
export interface LivePage {
  readonly head: { readonly generation: number };
  readonly messages: readonly unknown[];
  /** Where the reader stands after these messages. */
  readonly next: Position;
  /** Nothing committed lies after `next`. */
  readonly atTail: boolean;
}

/** One log as its live readers see it. */
export interface LiveSource<P extends LivePage> {
  /** Readers of sources with the same key get the same bytes. */
  readonly key: string;
  /** Undefined when it is gone or cannot be read on from there. */
  read(after: Position): Promise<P | undefined>;
  /** Calls `wake` after commits; returns how to stop. */
  watch(wake: () => void): () => void;
  render(page: P): Uint8Array;
  /** Whether nothing will follow this page. */
  isOver(page: P): boolean;
}

/** New messages, encoded, and the page they came from. */
export interface Frame<P extends LivePage> {
  readonly page: P;
  readonly data: Uint8Array;
  /** The data with what follows it, encoded once for all readers for whom that is the same. */
  readonly variants: Map<number, Uint8Array>;
}

export interface FeedReader<P extends LivePage> {
  readonly position: Position;
  /** Takes the frame, which starts exactly where the reader stands. */
  take(frame: Frame<P>): void;
  /** The feed is elsewhere: read on by yourself from where you are. */
  resync(): void;
  /** The log is gone or cannot be read any more. */
  end(): void;
}

export class Feeds<P extends LivePage> {
  private readonly feeds = new Map<string, Feed<P>>();

  /** How many logs have live readers. */
  get size(): number {
    return this.feeds.size;
  }

  /** Returns how to leave. */
  join(source: LiveSource<P>, reader: FeedReader<P>): () => void {
    const { key } = source;
    let feed = this.feeds.get(key);
    if (feed === undefined) {
      feed = new Feed(source, reader.position);
      this.feeds.set(key, feed);
    }
    const joined = feed;
    joined.add(reader);
    return () => {
      joined.remove(reader);
      if (joined.isEmpty && this.feeds.get(key) === joined) {
        joined.stop();
        this.feeds.delete(key);
      }
    };
  }
}

class Feed<P extends LivePage> {
  private readonly readers = new Set<FeedReader<P>>();
  private readonly unwatch: () => void;
  private pumping = false;
  private woken = false;

  constructor(
    private readonly source: LiveSource<P>,
    private position: Position,
  ) {
    this.unwatch = source.watch(() => this.wake());
  }

  get isEmpty(): boolean {
    return this.readers.size === 0;
  }

  add(reader: FeedReader<P>): void {
    this.readers.add(reader);
    if (comparePositions(reader.position, this.position) < 0) reader.resync();
    // Something may have been committed between the reader's last look and our watch.
    else this.wake();
  }

  remove(reader: FeedReader<P>): void {
    this.readers.delete(reader);
  }

  stop(): void {
    this.unwatch();
  }

  private wake(): void {
    this.woken = true;
    if (this.pumping) return;
    this.pumping = true;
    // When the store cannot be read, readers come back and are told why by the request itself.
    this.pump().catch(() => this.endAll());
  }

  private async pump(): Promise<void> {
    try {
      while (this.woken && this.readers.size > 0) {
        this.woken = false;
        const page = await this.source.read(this.position);
        if (page === undefined) return this.endAll();
        this.deliver(page);
        if (!page.atTail) this.woken = true;
      }
    } finally {
      this.pumping = false;
    }
  }

  private endAll(): void {
    for (const reader of [...this.readers]) reader.end();
  }

  private deliver(page: P): void {
    const from = this.position;
    const isOver = this.source.isOver(page);
    if (page.messages.length === 0 && !isOver) return;
    const frame: Frame<P> = { page, data: this.source.render(page), variants: new Map() };
    this.position = page.next;
    for (const reader of [...this.readers]) {
      const order = comparePositions(reader.position, from);
      if (order === 0) reader.take(frame);
      else if (comparePositions(reader.position, page.next) < 0 || isOver) reader.resync();
    }
  }
}
