/**
 * Reads that wait at the tail of a stream: long-poll and SSE, the protocol's `live` modes. Called by the stream routes.
 *
 * Invariants: every reader is counted against the limit of the audience before its first read. A reader whose client
 * has gone leaves no watch, timer or count behind.
 */
import { BEGINNING, formatOffset, header, NOW, type Position } from "@sluice/protocol";
import { Audience } from "../core/audience.ts";
import { Connections } from "../core/connection.ts";
import { Feeds } from "../core/feed.ts";
import { Follower } from "../core/follower.ts";
import { type Headers, type HttpRequest, queryValue, type Reply } from "../core/http.ts";
import { Refusal } from "../core/refusal.ts";
import type { Sink } from "../core/sink.ts";
import { endWith, SSE, sseHeaders } from "../core/sse.ts";
import type { World } from "../core/world.ts";
import { nextCursor } from "./cursor.ts";
import type { StreamLimits, TailLimits } from "./defaults.ts";
import type { From } from "./parse.ts";
import type { StreamPage } from "./reading.ts";
import { refuseTopic, unreadable } from "./refusals.ts";
import { contentTypeFor, type Format, needsBase64, renderBody } from "./render.ts";
import type { Streams } from "./service.ts";
import { cursorFrom, SSE_CODECS, StreamLog } from "./tail-log.ts";

/** A reader's position, and a page that may already answer it. */
interface Start {
  readonly after: Position | undefined;
  readonly page: StreamPage;
}

export class TailRoutes {
  private readonly connections: Connections;
  /** Long-polls that are open, and those of them that wait. */
  polls = 0;
  waiters = 0;

  constructor(
    private readonly streams: Streams,
    private readonly world: World,
    private readonly limits: TailLimits & Pick<StreamLimits, "pageBytes">,
    private readonly audience = new Audience(limits.readers),
    private readonly feeds = new Feeds<StreamPage>(),
  ) {
    this.connections = new Connections(world, audience, { ...limits, lifetimeMs: limits.sseMs });
  }

  /** Clients that wait on this node for any log. Zero once all of them have gone. */
  get readers(): number {
    return this.audience.size;
  }

  get watchedStreams(): number {
    return this.feeds.size;
  }

  get sseReaders(): number {
    return this.connections.size;
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
      throw new Refusal(
        "bad-query",
        `the query parameter live must be long-poll or sse; got ${JSON.stringify(mode.slice(0, 40))}`,
      );
    }
    if (from === undefined)
      throw new Refusal("bad-query", "a live read needs the query parameter offset, last or since");
    const cursor = queryValue(request.search, "cursor");
    const leave = this.audience.enter(project, request);
    if (mode === "sse") return this.sse(project, path, from, format, cursor, leave);
    this.polls++;
    return this.longPoll(project, path, from, format, cursor, request).finally(() => {
      this.polls--;
      leave();
    });
  }

  private async start(project: string, path: string, from: From): Promise<Start> {
    if (from === NOW) {
      const described = await this.streams.look(project, path);
      if (described.kind !== "live") throw unreadable(described, path);
      refuseTopic(described.meta, path);
      const { meta, head } = described;
      const { last } = head;
      const page: StreamPage = { kind: "page", path, meta, head, from: last, messages: [], next: last, atTail: true };
      return { after: last, page };
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
    const isAnswer = page.messages.length > 0 || page.meta.closed || this.audience.draining;
    const answer = isAnswer ? page : await this.wait(project, path, after, page, request);
    this.streams.meter.reads["long-poll"]++;
    return this.renderPoll(answer, format, cursor);
  }

  /** The first page with a message; the last empty page if the time is up or the client has gone. */
  private wait(
    project: string,
    path: string,
    after: Position | undefined,
    empty: StreamPage,
    request: HttpRequest,
  ): Promise<StreamPage> {
    request.waits = true;
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
        this.audience.go(guest);
        this.waiters--;
        unwatch();
        cancel();
      };
      const finish = () => {
        leave();
        resolve(last);
      };
      const guest = { sendHome: finish };
      this.audience.stay(guest);
      this.waiters++;
      request.onGone(finish);
      // A message may have been committed between the first read and the watch.
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
    leave: () => void,
  ): Promise<Reply> {
    const { page } = await this.start(project, path, from).catch((fault) => {
      leave();
      throw fault;
    });
    this.streams.meter.reads.sse++;
    const headers = sseHeaders();
    if (needsBase64(page.meta.config.contentType, format)) headers.push(header.sseDataEncoding, "base64");
    const floor = nextCursor(cursor, this.world.now(), this.world.random());
    const live = (sink: Sink) =>
      this.connections.open({ sink, framing: SSE, onGone: leave }, (connection) => {
        const { feeds, world, streams } = this;
        const log = new StreamLog(streams, project, path, this.limits.pageBytes);
        const variant = cursorFrom(world, floor);
        const onEnd = endWith(connection);
        new Follower({ log, feeds, connection, codec: SSE_CODECS[format], variant, onEnd }).begin(page);
      });
    return { status: 200, headers, live };
  }
}
