/**
 * One SSE connection: it reads on by itself until it is at the tail, then takes frames from the feed. Opened by the live routes.
 *
 * What must stay true: nothing is written twice or left out; a client that does not read is cut off at a byte limit and
 * costs a page beyond it at most, while one that reads slowly is given the next page only when it has taken the last;
 * whoever has left is in no feed and has no timer but the one that ends its connection.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { concat } from "../core/bytes.ts";
import type { LiveEnd, Sink } from "../core/http.ts";
import type { Cancel, World } from "../core/world.ts";
import { currentCursor } from "./cursor.ts";
import type { FeedReader, Feeds, Frame } from "./feed.ts";
import type { StreamPage } from "./reading.ts";
import { type Format, renderControl, renderData } from "./render.ts";
import type { Streams } from "./service.ts";

export interface SseSource {
  readonly streams: Streams;
  readonly feeds: Feeds;
  readonly project: string;
  readonly path: string;
  readonly format: Format;
}

export interface SseLimits {
  /** The connection is ended after this time, and cut when as much again was not enough to read what is left. */
  readonly sseMs: number;
  /** What may wait in the socket of a reader that does not read. */
  readonly slowReaderBytes: number;
  readonly pageBytes: number;
}

export class SseReader implements FeedReader {
  position: Position = { generation: 0, seq: 0 };
  private generation = 0;
  private unjoin: (() => void) | undefined;
  private proceed: (() => void) | undefined;
  private readonly recycle: Cancel;
  private ended = false;
  private catchingUp = false;

  constructor(
    private readonly source: SseSource,
    private readonly world: World,
    private readonly limits: SseLimits,
    private readonly cursorFloor: number,
    private readonly sink: Sink,
  ) {
    this.recycle = world.after(limits.sseMs, () => this.end("time"));
  }

  begin(page: StreamPage): void {
    this.generation = page.head.generation;
    this.write(page);
    if (this.ended) return;
    if (isOver(page)) this.end();
    else if (page.atTail && !this.isLoaded) this.join();
    else this.resync();
  }

  take({ page, data, withControl }: Frame): void {
    if (this.ended || this.endIfAnother(page)) return;
    const cursor = this.cursor();
    let bytes = withControl.get(cursor);
    if (bytes === undefined) {
      bytes = concat([data, this.control(page, cursor)]);
      withControl.set(cursor, bytes);
    }
    this.position = page.next;
    this.send(bytes);
    if (isOver(page)) this.end();
    // A burst of several pages comes faster than any network takes it; from here on at the client's own pace.
    else if (!page.atTail && this.isLoaded) this.resync();
  }

  resync(): void {
    if (this.ended || this.catchingUp) return;
    this.unjoin?.();
    this.unjoin = undefined;
    this.catchingUp = true;
    this.catchUp().then(
      (page) => {
        this.catchingUp = false;
        if (page === undefined || this.ended) return;
        if (isOver(page)) this.end();
        else this.join();
      },
      () => this.end("fault"),
    );
  }

  end(why: LiveEnd = "stream"): void {
    if (this.ended) return;
    this.leave();
    this.sink.end(why);
    const cancel = this.world.after(this.limits.sseMs, () => this.sink.cut("slow-reader"));
    this.sink.onGone(cancel);
  }

  leave(): void {
    this.ended = true;
    this.recycle();
    this.unjoin?.();
    this.unjoin = undefined;
    this.proceed?.();
  }

  private join(): void {
    const { feeds, project, path, format } = this.source;
    const unjoin = feeds.join(project, path, format, this);
    // The feed may be further on already, and have sent us to catch up; what it brings meanwhile would come twice.
    if (this.catchingUp) unjoin();
    else this.unjoin = unjoin;
  }

  /** Reads page by page, each only when the client has taken the one before. Returns the page at the tail. */
  private async catchUp(): Promise<StreamPage | undefined> {
    const { streams, project, path } = this.source;
    for (;;) {
      await this.drained();
      if (this.ended) return undefined;
      const page = await streams.read(project, path, this.position, this.limits.pageBytes);
      if (this.ended) return undefined;
      if (page.kind !== "page") {
        this.end();
        return undefined;
      }
      if (this.endIfAnother(page)) return undefined;
      const isNews = page.messages.length > 0 || comparePositions(page.next, this.position) > 0 || isOver(page);
      if (isNews) this.write(page);
      // At the tail with much on its way: look again when that has been taken, and join the others then.
      if (page.atTail && (isOver(page) || !isNews || !this.isLoaded)) return page;
    }
  }

  private drained(): Promise<void> {
    if (this.sink.buffered === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.proceed = resolve;
      this.sink.onDrain(resolve);
    });
  }

  /** A stream that was deleted and created anew is not the one whose content type this client was told. */
  private endIfAnother(page: StreamPage): boolean {
    if (page.head.generation === this.generation) return false;
    this.end();
    return true;
  }

  /** So much is on its way that the next frame might find the client slow, though it reads as fast as it can. */
  private get isLoaded(): boolean {
    return this.sink.buffered > this.limits.slowReaderBytes / 2;
  }

  private write(page: StreamPage): void {
    const data = renderData(page.meta.config.contentType, this.source.format, page.messages);
    this.position = page.next;
    this.send(concat([data, this.control(page, this.cursor())]));
  }

  private control({ next, atTail, meta }: StreamPage, cursor: number): Uint8Array {
    return renderControl({ next, atTail, closed: atTail && meta.closed, cursor });
  }

  private cursor(): number {
    return Math.max(currentCursor(this.world.now()), this.cursorFloor);
  }

  private send(bytes: Uint8Array): void {
    // A page may be larger than the limit by itself; what counts is what was not taken before.
    if (this.sink.buffered > this.limits.slowReaderBytes) {
      this.leave();
      this.sink.cut("slow-reader");
      return;
    }
    this.sink.write(bytes);
  }
}

function isOver(page: StreamPage): boolean {
  return page.atTail && page.meta.closed;
}
