/**
 * Live readers of one stream that stand at its tail. After a commit the new messages are read and encoded once, and the same
 * bytes go to every reader. A reader that stands elsewhere catches up by itself and comes back. Used by the SSE route.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Unwatch } from "../engine/contract.ts";
import type { StreamPage } from "./reading.ts";
import { type Format, renderData } from "./render.ts";
import type { Streams } from "./service.ts";

/** New messages, encoded, and the page they came from. */
export interface Frame {
  readonly page: StreamPage;
  readonly data: Uint8Array;
  /** Control events by cursor, encoded once for all who share it. */
  readonly withControl: Map<number, Uint8Array>;
}

export interface FeedReader {
  readonly position: Position;
  /** Takes the frame, which starts exactly where the reader stands. */
  take(frame: Frame): void;
  /** The feed is elsewhere: read on by yourself from where you are. */
  resync(): void;
  /** The stream is gone or cannot be read any more. */
  end(): void;
}

export class Feeds {
  private readonly feeds = new Map<string, Feed>();

  constructor(
    private readonly streams: Streams,
    private readonly pageBytes: number,
  ) {}

  /** How many streams have live readers. */
  get size(): number {
    return this.feeds.size;
  }

  /** Returns how to leave. */
  join(project: string, path: string, format: Format, reader: FeedReader): () => void {
    const key = `${format} ${project}/${path}`;
    let feed = this.feeds.get(key);
    if (feed === undefined) {
      feed = new Feed(this.streams, project, path, format, this.pageBytes, reader.position);
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

class Feed {
  private readonly readers = new Set<FeedReader>();
  private readonly unwatch: Unwatch;
  private pumping = false;
  private woken = false;

  constructor(
    private readonly streams: Streams,
    private readonly project: string,
    private readonly path: string,
    private readonly format: Format,
    private readonly pageBytes: number,
    private position: Position,
  ) {
    this.unwatch = streams.watch(project, path, () => this.wake());
  }

  get isEmpty(): boolean {
    return this.readers.size === 0;
  }

  add(reader: FeedReader): void {
    this.readers.add(reader);
    if (comparePositions(reader.position, this.position) < 0) reader.resync();
    // Something may have been committed between the reader's last look and our watch.
    else this.wake();
  }

  remove(reader: FeedReader): void {
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
        const page = await this.streams.read(this.project, this.path, this.position, this.pageBytes);
        if (page.kind !== "page") return this.endAll();
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

  private deliver(page: StreamPage): void {
    const from = this.position;
    const isOver = page.meta.closed && page.atTail;
    if (page.messages.length === 0 && !isOver) return;
    const data = renderData(page.meta.config.contentType, this.format, page.messages);
    const frame: Frame = { page, data, withControl: new Map() };
    this.position = page.next;
    for (const reader of [...this.readers]) {
      const order = comparePositions(reader.position, from);
      if (order === 0) reader.take(frame);
      else if (comparePositions(reader.position, page.next) < 0 || isOver) reader.resync();
    }
  }
}
