/**
 * The Durable Streams protocol as requests and replies: parse, call the service, render. The router calls one function
 * per route. Reads that wait are in tail-routes.ts.
 */
import { BEGINNING, formatOffset, header, NOW, type Position } from "@sluice/protocol";
import { type Awaitable, andThen } from "../core/awaitable.ts";
import { type Headers, type HttpRequest, linkBase, perHeaders, queryValue, type Reply } from "../core/http.ts";
import { Refusal } from "../core/refusal.ts";
import { isSessionPath } from "../core/reserved.ts";
import type { CallTo } from "../core/route.ts";
import type { AppendOutcome } from "./append.ts";
import { type AppendRequest, tooLarge } from "./bodies.ts";
import type { StreamLimits } from "./defaults.ts";
import {
  type Back,
  isBack,
  parseClosed,
  parseConfig,
  parseContentType,
  parseCount,
  parseFrom,
  parseMetadata,
  parsePath,
  parseProducer,
  parseSeq,
} from "./parse.ts";
import { checkPath } from "./paths.ts";
import type { Live, StreamPage } from "./reading.ts";
import { absent, appendRefusal, createRefusal, gone, refuseTopic, unreadable } from "./refusals.ts";
import { contentTypeFor, type Format, renderBody } from "./render.ts";
import type { Fork, Streams } from "./service.ts";
import type { Meta } from "./state.ts";
import type { TailRoutes } from "./tail-routes.ts";

/** Where a stream is addressed. */
export const STREAM_ADDRESS = "/v1/{project}/stream/{path}";
type StreamCall = CallTo<typeof STREAM_ADDRESS>;

export type RouteLimits = Pick<StreamLimits, "bodyBytes" | "pageBytes">;

export class StreamRoutes {
  constructor(
    private readonly streams: Streams,
    private readonly tail: TailRoutes,
    private readonly limits: RouteLimits,
  ) {}

  append({ project, stream }: StreamCall, request: HttpRequest): Awaitable<Reply> {
    return andThen(parseAppend(request, this.limits), (append) =>
      this.streams.append(project, stream, append).then((outcome) => renderAppend(outcome, stream)),
    );
  }

  async create({ project, stream, access }: StreamCall, request: HttpRequest): Promise<Reply> {
    const config = parseConfig(request);
    const fork = parseFork(project, request);
    const body = await readBody(request, this.limits);
    const asked = { config, closed: parseClosed(request), body, fork };
    const created = await this.streams.create(project, stream, asked, access);
    if (created.kind !== "created" && created.kind !== "exists") throw createRefusal(created, stream, fork);
    const headers: Headers = [
      header.contentType,
      created.meta.config.contentType,
      ...tailHeaders(created.next, created.meta),
    ];
    if (config.shards !== undefined) headers.push(header.streamShards, String(config.shards));
    if (created.kind === "created") headers.push(header.location, linkBase(request) + request.path);
    return { status: created.kind === "created" ? 201 : 200, headers };
  }

  async head({ project, stream: path, access }: StreamCall): Promise<Reply> {
    if (isSessionPath(path)) await this.streams.demandReader(project, path, access);
    const described = await this.streams.describe(project, path);
    if (described.kind !== "live") throw unreadable(described, path);
    const { meta, head } = described;
    const headers: Headers = [header.contentType, meta.config.contentType, header.cacheControl, "no-store"];
    headers.push(...tailHeaders(head.last, meta));
    const { ttlSeconds, expiresAt, retention, shards } = meta.config;
    if (shards !== undefined) headers.push(header.streamShards, String(shards));
    if (ttlSeconds !== undefined) headers.push(header.streamTtl, String(ttlSeconds));
    if (expiresAt !== undefined) headers.push(header.streamExpiresAt, new Date(expiresAt).toISOString());
    if (retention?.maxMessages !== undefined) headers.push(header.streamMaxMessages, String(retention.maxMessages));
    if (retention?.maxBytes !== undefined) headers.push(header.streamMaxBytes, String(retention.maxBytes));
    if (retention?.maxAgeMs !== undefined) headers.push(header.streamMaxAgeSeconds, String(retention.maxAgeMs / 1_000));
    return { status: 200, headers };
  }

  async delete({ project, stream: path }: StreamCall): Promise<Reply> {
    const outcome = await this.streams.delete(project, path);
    if (outcome.kind === "absent") throw absent(path);
    if (outcome.kind === "gone") throw gone(path);
    return { status: 204, headers: [] };
  }

  read(call: StreamCall, request: HttpRequest): Awaitable<Reply> {
    const { project, stream: path, access } = call;
    if (!isSessionPath(path)) return this.readFrom(call, request);
    return this.streams.demandReader(project, path, access).then(() => this.readFrom(call, request));
  }

  /** No promise without need, because a reader that will wait is counted in the turn in which its request arrived. */
  private readFrom({ project, stream: path }: StreamCall, request: HttpRequest): Awaitable<Reply> {
    const asked = parseFrom(request.search);
    const from = isBack(asked) ? this.resolve(project, path, asked) : asked;
    return andThen(from, (start) => {
      const format = parseFormat(request.search);
      const live = queryValue(request.search, "live");
      if (live !== undefined) return this.tail.handle(live, project, path, start, format, request);
      if (start === NOW) return this.readNow(project, path, format);
      const isPinned = typeof asked === "object" && !isBack(asked);
      return this.readPage(project, path, start === BEGINNING ? undefined : start, isPinned, format, request);
    });
  }

  private async readPage(
    project: string,
    path: string,
    after: Position | undefined,
    isPinned: boolean,
    format: Format,
    request: HttpRequest,
  ): Promise<Reply> {
    const page = await this.streams.read(project, path, after, this.limits.pageBytes);
    if (page.kind !== "page") throw unreadable(page, path);
    const { meter } = this.streams;
    meter.reads["catch-up"]++;
    if (queryValue(request.search, "session") !== undefined) meter.catchUp(page.messages);
    return renderPage(page, isPinned, format, request.header("if-none-match"));
  }

  /** Turns a time or a count into a position. */
  private async resolve(project: string, path: string, from: Back): Promise<Position> {
    const located =
      "last" in from
        ? await this.streams.positionBack(project, path, from.last)
        : await this.streams.positionAt(project, path, "sinceMs" in from ? from.sinceMs : this.streams.ago(from.agoMs));
    if (located.kind !== "position") throw unreadable(located, path);
    return located.position;
  }

  /** Answers with the tail and no messages, for a client that wants only later messages. */
  private readNow(project: string, path: string, format: Format): Awaitable<Reply> {
    return andThen(this.streams.look(project, path), (described) => {
      if (described.kind !== "live") throw unreadable(described, path);
      refuseTopic(described.meta, path);
      this.streams.meter.reads["catch-up"]++;
      return renderTail(described, format);
    });
  }
}

function renderTail({ meta, head }: Live, format: Format): Reply {
  const { contentType } = meta.config;
  const headers: Headers = [header.contentType, contentTypeFor(contentType, format), header.cacheControl, "no-store"];
  headers.push(header.streamUpToDate, "true", ...tailHeaders(head.last, meta));
  return { status: 200, headers, body: renderBody(contentType, format, []) };
}

/** The append that a request asks for. */
export function parseAppend(request: HttpRequest, limits: Pick<StreamLimits, "bodyBytes">): Awaitable<AppendRequest> {
  const { contentType, close, seq, producer, messageId, messageKey, attributes } = parseAppendHeaders(request);
  // Written out, because a spread costs several times as much and this runs for every append.
  return andThen(readBody(request, limits), (body) => {
    return { body, contentType, close, seq, producer, messageId, messageKey, attributes };
  });
}

const parseAppendHeaders = perHeaders((request): Omit<AppendRequest, "body" | "payloads"> => {
  const close = parseClosed(request);
  const contentType = parseContentType(request);
  const seq = parseSeq(request);
  const producer = parseProducer(request);
  const { messageId, messageKey, attributes } = parseMetadata(request);
  return { contentType, close, seq, producer, messageId, messageKey, attributes };
});

function readBody(request: HttpRequest, limits: Pick<StreamLimits, "bodyBytes">): Awaitable<Uint8Array> {
  return andThen(request.body(limits.bodyBytes), (body) => {
    if (body.kind === "too-large") throw tooLarge(limits);
    return body.bytes;
  });
}

export function parseFormat(search: string): Format {
  const format = queryValue(search, "format");
  if (format === undefined || format === "raw") return "raw";
  if (format === "envelope") return "envelope";
  throw new Refusal(
    "bad-query",
    `the query parameter format must be raw or envelope; got ${JSON.stringify(format.slice(0, 40))}`,
  );
}

/** A client may name the source by its URL path or, within the project, by its stream path. */
function parseFork(project: string, request: HttpRequest): Fork | undefined {
  const from = request.header("stream-forked-from");
  const offset = request.header("stream-fork-offset");
  const subOffset = parseCount(request, header.streamForkSubOffset);
  if (from === undefined) {
    if (offset !== undefined || subOffset !== undefined) {
      throw new Refusal(
        "bad-header",
        `${header.streamForkOffset} and ${header.streamForkSubOffset} need ${header.streamForkedFrom}; send it too`,
      );
    }
    return undefined;
  }
  // `stream` is first, because no project has the name of a route.
  const url = /^\/v1\/(?:stream|([\w-]+)\/stream)\/(.+)$/.exec(from);
  if (url && (url[1] ?? "default") !== project) {
    throw new Refusal("bad-header", `${header.streamForkedFrom} must name a stream of the same project, ${project}`);
  }
  return {
    source: parseSource(url ? () => parsePath(url[2]!) : () => checkPath(from)),
    offset,
    subOffset: subOffset ?? 0,
  };
}

function parseSource(parse: () => string): string {
  try {
    return parse();
  } catch (fault) {
    if (fault instanceof Refusal) throw new Refusal("bad-header", `${header.streamForkedFrom}: ${fault.message}`);
    throw fault;
  }
}

function tailHeaders(next: Position, meta: Meta): Headers {
  const headers: Headers = [header.streamNextOffset, formatOffset(next)];
  if (meta.closed) headers.push(header.streamClosed, "true");
  return headers;
}

/** What a page depends on besides its address. A cache must not give one caller's page to another, nor one in another encoding. */
const CALLER = "Authorization, Cookie, Accept-Encoding";

/** `isPinned`: the address names the offset, so that it means the same messages forever. */
function renderPage(page: StreamPage, isPinned: boolean, format: Format, ifNoneMatch: string | undefined): Reply {
  const { meta, next, atTail, messages } = page;
  const headers: Headers = [header.streamNextOffset, formatOffset(next)];
  const isFinal = atTail && meta.closed;
  if (atTail) headers.push(header.streamUpToDate, "true");
  if (isFinal) headers.push(header.streamClosed, "true");
  if (meta.inbox) headers.push(header.cacheControl, "no-store");
  else {
    const etag = etagOf(page, format);
    const known = ifNoneMatch === undefined ? undefined : namedEtag(ifNoneMatch, etag);
    // At the tail, or from a start that moves, a cache must revalidate.
    const cache = isPinned && !atTail ? "private, max-age=60, stale-while-revalidate=300" : "private, no-cache";
    headers.push(header.etag, known ?? etag, header.cacheControl, cache, header.vary, CALLER);
    if (known !== undefined) return { status: 304, headers };
  }
  headers.push(header.contentType, contentTypeFor(meta.config.contentType, format));
  // An inbox is not cached, and holds what others wrote beside what is the reader's own.
  const mayCompress = !meta.inbox;
  return { status: 200, headers, body: renderBody(meta.config.contentType, format, messages), mayCompress };
}

/**
 * Names the bytes of a page: where it begins and ends, in which life of the stream. Two forks at the same path may inherit
 * different messages under equal offsets, so the stream's own generation is part of it.
 */
function etagOf({ head, meta, from, next, atTail }: StreamPage, format: Format): string {
  const marks = `${format === "raw" ? "" : ":e"}${atTail && meta.closed ? ":c" : ""}`;
  return `"${head.generation}:${formatOffset(from)}:${formatOffset(next)}${marks}"`;
}

/**
 * The form in which the client knows the ETag; undefined if it does not. A cache may send several, and compression or a proxy
 * makes them weak. The same form goes back, because a cache finds the page that it has stored by it.
 */
function namedEtag(ifNoneMatch: string, etag: string): string | undefined {
  for (const part of ifNoneMatch.split(",")) {
    const known = part.trim();
    if (known === "*" || known === etag) return etag;
    if (known === `W/${etag}`) return known;
  }
  return undefined;
}

export function renderAppend(outcome: AppendOutcome, path: string): Reply {
  switch (outcome.kind) {
    case "appended":
    case "duplicate": {
      const headers: Headers = [header.streamNextOffset, formatOffset(outcome.next)];
      if (outcome.shard !== undefined) headers.push(header.streamShard, String(outcome.shard));
      if (outcome.closed) headers.push(header.streamClosed, "true");
      if (outcome.producer === undefined) return { status: 204, headers };
      headers.push(
        header.producerEpoch,
        String(outcome.producer.epoch),
        header.producerSeq,
        String(outcome.producer.seq),
      );
      return { status: outcome.kind === "duplicate" || outcome.isCloseOnly ? 204 : 200, headers };
    }
    default:
      throw appendRefusal(outcome, path);
  }
}
