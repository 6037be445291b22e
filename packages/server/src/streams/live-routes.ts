/**
 * Live reads: long-poll and SSE. A live reader waits for commits, is counted against a limit, and leaves no trace when its
 * client goes away. A reader that does not read is cut off at a byte limit; nobody else notices.
 */
import { BEGINNING, comparePositions, formatOffset, header, NOW, type Position } from "@sluice/protocol";
import { concat } from "../core/bytes.ts";
import { type Headers, type HttpRequest, queryValue, Refusal, type Reply, type Sink } from "../core/http.ts";
import type { Cancel, World } from "../core/world.ts";
import { currentCursor, nextCursor } from "./cursor.ts";
import { type FeedReader, Feeds, type Frame } from "./feed.ts";
import type { From } from "./parse.ts";
import type { StreamPage } from "./reading.ts";
import { unreadable } from "./refusals.ts";
import { contentTypeFor, type Format, needsBase64, renderBody, renderControl, renderData } from "./render.ts";
import type { Streams } from "./service.ts";

export interface LiveLimits {
  readonly longPollMs: number;
  /** An SSE connection is ended after this time, so that proxies and balancers can move it. */
  readonly sseMs: number;
  /** Long-polls and SSE connections together. */
  readonly readers: number;
  /** What may wait in the socket of a reader that does not read. */
  readonly slowReaderBytes: number;
  readonly pageBytes: number;
}

/** Where a reader stands, and whether a page at hand already answers it. */
interface Start {
  readonly after: Position | undefined;
  readonly page: StreamPage;
}

export class LiveRoutes {
  private readonly feeds: Feeds;
  private count = 0;
  private readonly open = new Set<SseReader>();
  private readonly polls = new Set<() => void>();
  private draining = false;

  constructor(
    private readonly streams: Streams,
    private readonly world: World,
    private readonly limits: LiveLimits,
  ) {
    this.feeds = new Feeds(streams, limits.pageBytes);
  }

  /** Live readers now, and streams they read: both return to zero when the clients have gone. */
  get readers(): number {
    return this.count;
  }

  get watchedStreams(): number {
    return this.feeds.size;
  }

  /** Sends everyone home: they reconnect elsewhere, from where they are. */
  drain(): void {
    this.draining = true;
    for (const reader of [...this.open]) reader.end();
    for (const finish of [...this.polls]) finish();
  }

  handle(
    mode: string,
    project: string,
    path: string,
    from: From | undefined,
    format: Format,
    request: HttpRequest,
  ): Promise<Reply> {
    if (mode !== "long-poll" && mode !== "sse") {
      throw new Refusal("bad-query", "the query parameter live must be long-poll or sse");
    }
    if (from === undefined) throw new Refusal("bad-query", "a live read needs the query parameter offset");
    if (this.draining) throw new Refusal("draining", "the server is shutting down", [header.retryAfter, "1"]);
    if (this.count >= this.limits.readers) {
      throw new Refusal("too-many-waiters", `${this.limits.readers} readers are waiting already`, [
        header.retryAfter,
        "1",
      ]);
    }
    const cursor = queryValue(request.search, "cursor");
    if (mode === "sse") return this.sse(project, path, from, format, cursor);
    return this.longPoll(project, path, from, format, cursor, request);
  }

  private async start(project: string, path: string, from: From): Promise<Start> {
    if (from === NOW) {
      const described = await this.streams.describe(project, path);
      if (described.kind !== "live") throw unreadable(described, path);
      await this.streams.touch(project, path);
      const { meta, head } = described;
      const page: StreamPage = { kind: "page", meta, head, messages: [], next: head.last, atTail: true };
      return { after: head.last, page };
    }
    const after = from === BEGINNING ? undefined : from;
    const page = await this.streams.read(project, path, after, this.limits.pageBytes);
    if (page.kind !== "page") throw unreadable(page, path);
    return { after: page.messages.length === 0 ? page.next : after, page };
  }

  private async longPoll(
    project: string,
    path: string,
    from: From,
    format: Format,
    cursor: string | undefined,
    request: HttpRequest,
  ): Promise<Reply> {
    const { page, after } = await this.start(project, path, from);
    const answer =
      page.messages.length > 0 || page.meta.closed ? page : await this.wait(project, path, after, page, request);
    return this.renderPoll(answer, format, cursor);
  }

  /** The first page with something in it, or the last empty one when the time is up or the client has gone. */
  private wait(
    project: string,
    path: string,
    after: Position | undefined,
    empty: StreamPage,
    request: HttpRequest,
  ): Promise<StreamPage> {
    this.count++;
    return new Promise<StreamPage>((resolve, reject) => {
      let last = empty;
      let looking = false;
      let again = false;
      const look = async (): Promise<void> => {
        again = true;
        if (looking) return;
        looking = true;
        try {
          while (again) {
            again = false;
            const page = await this.streams.read(project, path, after, this.limits.pageBytes);
            if (page.kind !== "page") throw unreadable(page, path);
            last = page;
            if (page.messages.length > 0 || page.meta.closed) return finish();
          }
        } catch (fault) {
          leave();
          reject(fault);
        } finally {
          looking = false;
        }
      };
      const unwatch = this.streams.watch(project, path, () => void look());
      const cancel = this.world.after(this.limits.longPollMs, () => finish());
      let left = false;
      const leave = () => {
        if (left) return;
        left = true;
        this.count--;
        this.polls.delete(finish);
        unwatch();
        cancel();
      };
      const finish = () => {
        leave();
        resolve(last);
      };
      this.polls.add(finish);
      request.onGone(finish);
      // Something may have been committed between the first read and the watch.
      void look();
    });
  }

  private renderPoll(page: StreamPage, format: Format, cursor: string | undefined): Reply {
    const { meta, next, atTail, messages } = page;
    const headers: Headers = [header.streamNextOffset, formatOffset(next), header.cacheControl, "no-store"];
    headers.push(header.streamCursor, String(nextCursor(cursor, this.world.now(), this.world.random())));
    if (atTail) headers.push(header.streamUpToDate, "true");
    if (atTail && meta.closed) headers.push(header.streamClosed, "true");
    if (messages.length === 0) return { status: 204, headers };
    headers.push(header.contentType, contentTypeFor(meta.config.contentType, format));
    return { status: 200, headers, body: renderBody(meta.config.contentType, format, messages) };
  }

  private async sse(
    project: string,
    path: string,
    from: From,
    format: Format,
    cursor: string | undefined,
  ): Promise<Reply> {
    const { page } = await this.start(project, path, from);
    const headers: Headers = [header.contentType, "text/event-stream", header.cacheControl, "no-cache, no-transform"];
    if (needsBase64(page.meta.config.contentType, format)) headers.push(header.sseDataEncoding, "base64");
    const floor = nextCursor(cursor, this.world.now(), this.world.random());
    const live = (sink: Sink) => {
      this.count++;
      const reader = new SseReader(
        this.streams,
        this.feeds,
        this.world,
        this.limits,
        project,
        path,
        format,
        floor,
        sink,
      );
      this.open.add(reader);
      sink.onGone(() => {
        this.count--;
        this.open.delete(reader);
        reader.leave();
      });
      reader.begin(page);
      if (this.draining) reader.end();
    };
    return { status: 200, headers, live };
  }
}

/** One SSE connection: reads on by itself until it is at the tail, then takes frames from the feed. */
class SseReader implements FeedReader {
  position: Position = { generation: 0, seq: 0 };
  private unjoin: (() => void) | undefined;
  private readonly recycle: Cancel;
  private ended = false;
  private catchingUp = false;

  constructor(
    private readonly streams: Streams,
    private readonly feeds: Feeds,
    private readonly world: World,
    private readonly limits: LiveLimits,
    private readonly project: string,
    private readonly path: string,
    private readonly format: Format,
    private readonly cursorFloor: number,
    private readonly sink: Sink,
  ) {
    this.recycle = world.after(limits.sseMs, () => this.end());
  }

  begin(page: StreamPage): void {
    this.write(page, renderData(page.meta.config.contentType, this.format, page.messages));
    this.goOn(page);
  }

  take(frame: Frame): void {
    if (this.ended) return;
    const { page, data, withControl } = frame;
    const cursor = this.cursor();
    let bytes = withControl.get(cursor);
    if (bytes === undefined) {
      bytes = concat([data, this.control(page, cursor)]);
      withControl.set(cursor, bytes);
    }
    this.position = page.next;
    this.send(bytes);
    if (isOver(page)) this.end();
  }

  resync(): void {
    if (this.ended || this.catchingUp) return;
    this.unjoin?.();
    this.unjoin = undefined;
    this.catchingUp = true;
    this.catchUp().then(
      (page) => {
        this.catchingUp = false;
        if (page) this.goOn(page);
      },
      () => this.end(),
    );
  }

  end(): void {
    if (this.ended) return;
    this.leave();
    this.sink.end();
  }

  leave(): void {
    this.ended = true;
    this.recycle();
    this.unjoin?.();
    this.unjoin = undefined;
  }

  /** After a page is written: the tail, more pages, or the end. */
  private goOn(page: StreamPage): void {
    if (this.ended) return;
    if (isOver(page)) this.end();
    else if (page.atTail) this.unjoin = this.feeds.join(this.project, this.path, this.format, this);
    else this.resync();
  }

  /** Reads page by page, each only when the client has taken the one before. Returns the page at the tail. */
  private async catchUp(): Promise<StreamPage | undefined> {
    for (;;) {
      await this.drained();
      if (this.ended) return undefined;
      const page = await this.streams.read(this.project, this.path, this.position, this.limits.pageBytes);
      if (this.ended) return undefined;
      if (page.kind !== "page") {
        this.end();
        return undefined;
      }
      if (page.messages.length > 0 || comparePositions(page.next, this.position) > 0 || isOver(page)) {
        this.write(page, renderData(page.meta.config.contentType, this.format, page.messages));
      }
      if (page.atTail) return page;
    }
  }

  private drained(): Promise<void> {
    if (this.sink.buffered === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.sink.onDrain(resolve);
      this.sink.onGone(resolve);
    });
  }

  private write(page: StreamPage, data: Uint8Array): void {
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
      this.sink.cut();
      return;
    }
    this.sink.write(bytes);
  }
}

function isOver(page: StreamPage): boolean {
  return page.atTail && page.meta.closed;
}
