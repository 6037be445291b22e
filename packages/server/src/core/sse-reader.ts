/**
 * One SSE connection: it reads on by itself until it is at the tail, then takes frames from the feed. Opened by the routes of
 * streams and channels.
 *
 * What must stay true: nothing is written twice or left out; a client that does not read is cut off at a byte limit and
 * costs a page beyond it at most, while one that reads slowly is given the next page only when it has taken the last;
 * whoever has left is in no feed and has no timer but the one that ends its connection.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { concat, utf8 } from "./bytes.ts";
import type { FeedReader, Feeds, Frame, LivePage, LiveSource } from "./feed.ts";
import type { LiveEnd, Sink } from "./http.ts";
import type { Cancel, World } from "./world.ts";

export interface SseLimits {
  /** The connection is ended after this time, and cut when as much again was not enough to read what is left. */
  readonly sseMs: number;
  /** What may wait in the socket of a reader that does not read. */
  readonly slowReaderBytes: number;
  /** How often a comment goes out, so that nobody on the way takes a quiet connection for a dead one; never unless given. */
  readonly heartbeatMs?: number | undefined;
}

/** What follows the messages, for each reader its own; readers with the same key share the bytes. */
export interface Trailer<P extends LivePage> {
  key(): number;
  render(page: P, key: number): Uint8Array;
}

export interface SseParts<P extends LivePage> {
  readonly source: LiveSource<P>;
  readonly feeds: Feeds<P>;
  readonly world: World;
  readonly limits: SseLimits;
  readonly trailer?: Trailer<P> | undefined;
}

const HEARTBEAT = utf8(":\n\n");

export class SseReader<P extends LivePage> implements FeedReader<P> {
  position: Position = { generation: 0, seq: 0 };
  /** Of the log that is read; 0 as long as there is none. */
  private generation = 0;
  private unjoin: (() => void) | undefined;
  private proceed: (() => void) | undefined;
  private readonly recycle: Cancel;
  private heartbeat: Cancel | undefined;
  private ended = false;
  private catchingUp = false;

  constructor(
    private readonly parts: SseParts<P>,
    private readonly sink: Sink,
  ) {
    this.recycle = parts.world.after(parts.limits.sseMs, () => this.end("time"));
    this.beat();
  }

  begin(page: P): void {
    this.generation = page.head.generation;
    this.write(page);
    if (this.ended) return;
    if (this.isOver(page)) this.end();
    else if (page.atTail && !this.isLoaded) this.join();
    else this.resync();
  }

  take({ page, data, variants }: Frame<P>): void {
    if (this.ended || this.endIfAnother(page)) return;
    this.position = page.next;
    this.send(this.shared(page, data, variants));
    if (this.isOver(page)) this.end();
    // A burst of several pages comes faster than any network takes it; from here on at the client's own pace.
    else if (!page.atTail && this.isLoaded) this.resync();
  }

  private shared(page: P, data: Uint8Array, variants: Map<number, Uint8Array>): Uint8Array {
    const { trailer } = this.parts;
    if (trailer === undefined) return data;
    const key = trailer.key();
    let bytes = variants.get(key);
    if (bytes === undefined) {
      bytes = concat([data, trailer.render(page, key)]);
      variants.set(key, bytes);
    }
    return bytes;
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
        if (this.isOver(page)) this.end();
        else this.join();
      },
      () => this.end("fault"),
    );
  }

  end(why: LiveEnd = "stream"): void {
    if (this.ended) return;
    this.leave();
    this.sink.end(why);
    const cancel = this.parts.world.after(this.parts.limits.sseMs, () => this.sink.cut("slow-reader"));
    this.sink.onGone(cancel);
  }

  leave(): void {
    this.ended = true;
    this.recycle();
    this.heartbeat?.();
    this.unjoin?.();
    this.unjoin = undefined;
    this.proceed?.();
  }

  private join(): void {
    const unjoin = this.parts.feeds.join(this.parts.source, this);
    // The feed may be further on already, and have sent us to catch up; what it brings meanwhile would come twice.
    if (this.catchingUp) unjoin();
    else this.unjoin = unjoin;
  }

  /** Reads page by page, each only when the client has taken the one before. Returns the page at the tail. */
  private async catchUp(): Promise<P | undefined> {
    for (;;) {
      await this.drained();
      if (this.ended) return undefined;
      const page = await this.parts.source.read(this.position);
      if (this.ended) return undefined;
      if (page === undefined) {
        this.end();
        return undefined;
      }
      if (this.endIfAnother(page)) return undefined;
      const isNews = page.messages.length > 0 || comparePositions(page.next, this.position) > 0 || this.isOver(page);
      if (isNews) this.write(page);
      // At the tail with much on its way: look again when that has been taken, and join the others then.
      if (page.atTail && (this.isOver(page) || !isNews || !this.isLoaded)) return page;
    }
  }

  private drained(): Promise<void> {
    if (this.sink.buffered === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.proceed = resolve;
      this.sink.onDrain(resolve);
    });
  }

  /** What was deleted and created anew is not what this client was told that it reads. */
  private endIfAnother(page: P): boolean {
    const { generation } = page.head;
    if (this.generation === 0) this.generation = generation;
    if (generation === this.generation) return false;
    this.end();
    return true;
  }

  /** So much is on its way that the next frame might find the client slow, though it reads as fast as it can. */
  private get isLoaded(): boolean {
    return this.sink.buffered > this.parts.limits.slowReaderBytes / 2;
  }

  private isOver(page: P): boolean {
    return this.parts.source.isOver(page);
  }

  private write(page: P): void {
    const { source, trailer } = this.parts;
    const data = source.render(page);
    this.position = page.next;
    this.send(trailer === undefined ? data : concat([data, trailer.render(page, trailer.key())]));
  }

  private send(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    // A page may be larger than the limit by itself; what counts is what was not taken before.
    if (this.sink.buffered > this.parts.limits.slowReaderBytes) {
      this.leave();
      this.sink.cut("slow-reader");
      return;
    }
    this.sink.write(bytes);
  }

  private beat(): void {
    const { heartbeatMs } = this.parts.limits;
    if (heartbeatMs === undefined) return;
    this.heartbeat = this.parts.world.after(heartbeatMs, () => {
      // What has not been taken yet says as well that we are there.
      if (this.sink.buffered === 0) this.sink.write(HEARTBEAT);
      this.beat();
    });
  }
}
