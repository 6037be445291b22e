/**
 * A cursor on one log for one connection: it catches up page by page at the client's pace, then takes frames from the feed of the
 * log. Routes give a connection one follower per log.
 *
 * Invariants: it sends every message exactly once. A follower is in a feed or catches up, never both. A stopped follower is in no
 * feed, sends no byte and calls no callback. It follows one incarnation of its log through failovers: another one ends it.
 */
import { comparePositions, type Position, ZERO } from "@sluice/protocol";
import type { Connection, Paced } from "./connection.ts";
import {
  type Codec,
  encodePage,
  type Feed,
  type FeedReader,
  type Feeds,
  type Frame,
  type Log,
  type LogHead,
  type LogPage,
} from "./feed.ts";

/**
 * Why a log has no more messages for this reader. `over`: it was closed. `gone`: it was deleted, or trimmed past the reader.
 * `replaced`: it was deleted and created anew. `fault`: the store could not be read.
 */
export type FollowEnd = "over" | "gone" | "replaced" | "fault";

export interface FollowerParts<P extends LogPage> {
  readonly log: Log<P>;
  readonly feeds: Feeds<P>;
  readonly connection: Connection;
  readonly codec: Codec<P>;
  /** The reader's variant of the codec, asked for every page. */
  readonly variant?: (() => number) | undefined;
  /** Whether the follower stays when the log is gone, until a new one begins. */
  readonly waits?: boolean | undefined;
  /** Called once, after the last page was sent; not called if the connection ended first. */
  onEnd(why: FollowEnd): void;
}

export class Follower<P extends LogPage> implements FeedReader<P>, Paced {
  position: Position = ZERO;
  /** The last known generation of the followed incarnation; 0 before there is one. */
  private generation = 0;
  private feed: Feed<P> | undefined = undefined;
  private isStopped: boolean;

  constructor(private readonly parts: FollowerParts<P>) {
    const { connection } = parts;
    this.isStopped = connection.hasEnded;
    connection.add(this);
  }

  /** Begins with a page that the caller has read. */
  begin(page: P): void {
    this.generation = page.head.generation;
    this.write(page);
    const { log, connection } = this.parts;
    if (this.isStopped) return;
    if (log.isOver(page)) this.end("over");
    else if (page.atTail && !connection.isLoaded) this.join(0);
    else this.resync();
  }

  /** Begins after a position, in turn with the other followers of the connection. */
  resume(position: Position): void {
    this.position = position;
    this.resync();
  }

  stop(): void {
    this.isStopped = true;
    this.leaveFeed();
    this.parts.connection.remove(this);
  }

  take(frame: Frame<P>): void {
    const { page } = frame;
    if (this.isStopped || this.endIfReplaced(page)) return;
    const { log, connection, codec, variant } = this.parts;
    // Pages of other followers fill the connection, which does not make the client slow. So this log takes turns with them.
    if (connection.isPacing && connection.isLoaded) {
      this.resync();
      return;
    }
    this.position = page.next;
    connection.send(frame.encoded(codec, variant === undefined ? 0 : variant()), true);
    if (log.isOver(page)) this.end("over");
    // A burst of several pages comes faster than any network takes it, so the follower sends the rest at the client's pace.
    else if (!page.atTail && connection.isLoaded) this.resync();
  }

  resync(): void {
    if (this.isStopped) return;
    this.leaveFeed();
    this.parts.connection.queue(this);
  }

  lose(why: "gone" | "fault"): void {
    if (why === "fault" || !this.parts.waits) this.end(why);
  }

  /** One page of catching up. */
  async turn(): Promise<void> {
    const { log, feeds } = this.parts;
    const asOf = feeds.clock;
    try {
      const page = await log.read(this.position);
      if (this.isStopped) return;
      if (page !== undefined) this.advance(page, asOf);
      else if (this.parts.waits) this.join(asOf);
      else this.end("gone");
    } catch {
      this.end("fault");
    }
  }

  private advance(page: P, asOf: number): void {
    const { log, connection } = this.parts;
    if (this.endIfReplaced(page)) return;
    // Frames of other logs have filled the connection during the read, so a later turn reads this page again.
    if (connection.isLoaded) {
      connection.queue(this);
      return;
    }
    const isOver = log.isOver(page);
    const isNews = page.messages.length > 0 || isOver || comparePositions(page.next, this.position) > 0;
    if (isNews) this.write(page);
    if (isOver) this.end("over");
    // At the tail with many bytes buffered, the follower looks again when the client has taken them, and joins the feed then.
    else if (page.atTail && (!isNews || !connection.isLoaded)) this.join(asOf);
    else connection.queue(this);
  }

  private join(asOf: number): void {
    const { feeds, log } = this.parts;
    this.feed = feeds.join(log, this, asOf);
    if (this.feed === undefined) this.resync();
  }

  private leaveFeed(): void {
    this.feed?.leave(this);
    this.feed = undefined;
  }

  /** Ends the follower if its log was deleted and created anew, because the client was told that it reads the earlier one. */
  private endIfReplaced({ head }: P): boolean {
    if (this.generation === 0 || this.hasFailedOver(head)) this.generation = head.generation;
    if (head.generation === this.generation) return false;
    this.end("replaced");
    return true;
  }

  /** Whether this is the same log after a failover that kept every message the client has seen. */
  private hasFailedOver({ start, survived }: LogHead): boolean {
    return (
      survived !== undefined && start.generation <= this.generation && comparePositions(this.position, survived) <= 0
    );
  }

  private write(page: P): void {
    const { connection, codec, variant } = this.parts;
    this.position = page.next;
    connection.send(encodePage(codec, page, variant === undefined ? 0 : variant()));
  }

  private end(why: FollowEnd): void {
    if (this.isStopped) return;
    this.stop();
    this.parts.onEnd(why);
  }
}
