/**
 * The Durable Streams protocol over the request/reply shape: parse, call the service, render. One route, one function.
 * Reads that wait are in tail-routes.ts.
 */
import { BEGINNING, formatOffset, header, NOW, type Position } from "@sluice/protocol";
import { type Headers, type HttpRequest, queryValue, Refusal, type Reply } from "../core/http.ts";
import type { AppendOutcome } from "./append.ts";
import { jsonMessages } from "./json.ts";
import type { StreamLimits } from "./limits.ts";
import {
  checkPath,
  checkTopicPath,
  isReserved,
  parseClosed,
  parseConfig,
  parseContentType,
  parseCount,
  parseFrom,
  parseMetadata,
  parsePath,
  parseProducer,
  parseSeq,
  refuseAmongShards,
  refuseReserved,
} from "./parse.ts";
import type { StreamPage } from "./reading.ts";
import { absent, gone, refuseTopic, unreadable } from "./refusals.ts";
import { contentTypeFor, type Format, renderBody } from "./render.ts";
import type { CreateResult, Fork, Streams } from "./service.ts";
import { isJson, type Meta } from "./state.ts";
import type { TailRoutes } from "./tail-routes.ts";

export type RouteLimits = Pick<StreamLimits, "bodyBytes" | "bodyMessages" | "pageBytes">;

export class StreamRoutes {
  constructor(
    private readonly streams: Streams,
    private readonly tail: TailRoutes,
    private readonly limits: RouteLimits,
  ) {}

  async append(project: string, path: string, request: HttpRequest): Promise<Reply> {
    return renderAppend(await this.appended(project, path, request), path);
  }

  /** The append that a request asks for, carried out. */
  async appended(project: string, path: string, request: HttpRequest): Promise<AppendOutcome> {
    refuseReserved(path);
    const close = parseClosed(request);
    const contentType = parseContentType(request);
    const seq = parseSeq(request);
    const producer = parseProducer(request);
    const { messageId, messageKey, attributes } = parseMetadata(request);
    const payloads = await this.payloads(request, contentType);
    if (payloads.length === 0 && !close)
      throw new Refusal("empty-body", "an append needs a body, or Stream-Closed: true");
    if (payloads.length > 0 && contentType === undefined) {
      throw new Refusal("bad-header", `${header.contentType} is missing`);
    }
    const append = { payloads, contentType, close, seq, producer, messageId, messageKey, attributes };
    return this.streams.append(project, path, append);
  }

  async create(project: string, path: string, request: HttpRequest): Promise<Reply> {
    refuseReserved(path);
    refuseAmongShards(path);
    const config = parseConfig(request);
    const fork = parseFork(project, request);
    if (config.shards !== undefined) checkTopic(path, config.shards, fork);
    if (fork) await request.access?.demand({ action: "stream.read", project, stream: fork.source });
    const contentType = config.contentType ?? (fork && (await this.contentTypeOf(project, fork.source)));
    const payloads = await this.payloads(request, contentType);
    if (config.shards !== undefined && payloads.length > 0) {
      throw new Refusal(
        "bad-body",
        "a body cannot go with Stream-Shards: a sharded topic begins empty, so that a repeated PUT appends nothing twice",
      );
    }
    const created = await this.streams.create(project, path, { config, closed: parseClosed(request), payloads, fork });
    if (created.kind !== "created" && created.kind !== "exists") throw createRefusal(created, path, fork);
    const headers: Headers = [
      header.contentType,
      created.meta.config.contentType,
      ...tailHeaders(created.next, created.meta),
    ];
    if (config.shards !== undefined) headers.push(header.streamShards, String(config.shards));
    if (created.kind === "created") headers.push(header.location, request.origin + request.path);
    return { status: created.kind === "created" ? 201 : 200, headers };
  }

  private async contentTypeOf(project: string, path: string): Promise<string | undefined> {
    const described = await this.streams.describe(project, path);
    return described.kind === "live" ? described.meta.config.contentType : undefined;
  }

  /** The messages in the body: a JSON array is flattened by one level, anything else is one message. */
  private async payloads(request: HttpRequest, contentType: string | undefined): Promise<readonly Uint8Array[]> {
    const body = await request.body(this.limits.bodyBytes);
    if (body.kind === "too-large") {
      throw new Refusal("too-large", `a body may have at most ${this.limits.bodyBytes} bytes`);
    }
    if (body.bytes.length === 0) return [];
    if (contentType === undefined || !isJson(contentType)) return [body.bytes];
    const json = jsonMessages(body.bytes, this.limits.bodyMessages);
    if (json.kind === "invalid") throw new Refusal("bad-body", `the body is not JSON: ${json.why}`);
    if (json.kind === "too-many") {
      throw new Refusal("too-large", `a body may have at most ${this.limits.bodyMessages} messages`);
    }
    if (json.payloads.length === 0 && request.method === "POST") {
      throw new Refusal("empty-body", "an empty array appends nothing");
    }
    return json.payloads;
  }

  async head(project: string, path: string): Promise<Reply> {
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

  async delete(project: string, path: string): Promise<Reply> {
    refuseReserved(path);
    refuseAmongShards(path);
    const outcome = await this.streams.delete(project, path);
    if (outcome.kind === "absent") throw absent(path);
    if (outcome.kind === "gone") throw gone(path);
    return { status: 204, headers: [] };
  }

  async read(project: string, path: string, request: HttpRequest): Promise<Reply> {
    const from = parseFrom(request.search);
    const format = parseFormat(request.search);
    const live = queryValue(request.search, "live");
    if (live !== undefined) return this.tail.handle(live, project, path, from, format, request);
    if (from === NOW) return this.readNow(project, path, format);
    const after = from === BEGINNING ? undefined : from;
    const page = await this.streams.read(project, path, after, this.limits.pageBytes);
    if (page.kind !== "page") throw unreadable(page, path);
    this.streams.meter.reads["catch-up"]++;
    return renderPage(page, after, format, request.header("if-none-match"));
  }

  /** The tail, without what is there: where to start when only what comes next is wanted. */
  private async readNow(project: string, path: string, format: Format): Promise<Reply> {
    const described = await this.streams.describe(project, path);
    if (described.kind !== "live") throw unreadable(described, path);
    refuseTopic(described.meta, path);
    await this.streams.touch(project, path);
    this.streams.meter.reads["catch-up"]++;
    const { meta, head } = described;
    const headers: Headers = [
      header.contentType,
      contentTypeFor(meta.config.contentType, format),
      header.cacheControl,
      "no-store",
    ];
    headers.push(header.streamUpToDate, "true", ...tailHeaders(head.last, meta));
    return { status: 200, headers, body: renderBody(meta.config.contentType, format, []) };
  }
}

export function parseFormat(search: string): Format {
  const format = queryValue(search, "format");
  if (format === undefined || format === "raw") return "raw";
  if (format === "envelope") return "envelope";
  throw new Refusal("bad-query", "the query parameter format must be raw or envelope");
}

function checkTopic(path: string, shards: number, fork: Fork | undefined): void {
  if (fork) {
    throw new Refusal("bad-header", `${header.streamShards} and ${header.streamForkedFrom} exclude each other`);
  }
  checkTopicPath(path, shards);
}

/** The source may be named by its URL path or, within the project, by its own path. */
function parseFork(project: string, request: HttpRequest): Fork | undefined {
  const from = request.header("stream-forked-from");
  const offset = request.header("stream-fork-offset");
  const subOffset = parseCount(request, header.streamForkSubOffset);
  if (from === undefined) {
    if (offset !== undefined || subOffset !== undefined) {
      throw new Refusal(
        "bad-header",
        `${header.streamForkOffset} and ${header.streamForkSubOffset} need ${header.streamForkedFrom}`,
      );
    }
    return undefined;
  }
  const url = /^\/v1\/(?:([\w-]+)\/)?stream\/(.+)$/.exec(from);
  if (url && (url[1] ?? "default") !== project) {
    throw new Refusal("bad-header", `${header.streamForkedFrom} must name a stream of the same project`);
  }
  return {
    source: parseSource(url ? () => parsePath(url[2]!) : () => checkPath(from)),
    offset,
    subOffset: subOffset ?? 0,
  };
}

function parseSource(parse: () => string): string {
  let source: string;
  try {
    source = parse();
  } catch (fault) {
    if (fault instanceof Refusal) throw new Refusal("bad-header", `${header.streamForkedFrom}: ${fault.message}`);
    throw fault;
  }
  if (isReserved(source)) throw new Refusal("reserved-name", `${header.streamForkedFrom} names a reserved path`);
  return source;
}

function tailHeaders(next: Position, meta: Meta): Headers {
  const headers: Headers = [header.streamNextOffset, formatOffset(next)];
  if (meta.closed) headers.push(header.streamClosed, "true");
  return headers;
}

function renderPage(
  page: StreamPage,
  after: Position | undefined,
  format: Format,
  ifNoneMatch: string | undefined,
): Reply {
  const { meta, next, atTail, messages } = page;
  const isFinal = atTail && meta.closed;
  const etag = `"${after ? formatOffset(after) : BEGINNING}:${formatOffset(next)}${format === "raw" ? "" : ":e"}${isFinal ? ":c" : ""}"`;
  // What lies before the tail never changes; at the tail a cache must ask.
  const cache = atTail ? "no-cache" : "private, max-age=60, stale-while-revalidate=300";
  const headers: Headers = [header.etag, etag, header.cacheControl, cache, header.streamNextOffset, formatOffset(next)];
  if (atTail) headers.push(header.streamUpToDate, "true");
  if (isFinal) headers.push(header.streamClosed, "true");
  if (ifNoneMatch !== undefined && namesEtag(ifNoneMatch, etag)) return { status: 304, headers };
  headers.push(header.contentType, contentTypeFor(meta.config.contentType, format));
  return { status: 200, headers, body: renderBody(meta.config.contentType, format, messages) };
}

/** A cache may know several, and a proxy in between may have weakened them. */
function namesEtag(ifNoneMatch: string, etag: string): boolean {
  return ifNoneMatch.split(",").some((part) => {
    const known = part.trim();
    return known === "*" || known === etag || known === `W/${etag}`;
  });
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
    default: {
      const refusal = appendRefusal(outcome, path);
      if (outcome.shard !== undefined) refusal.headers.push(header.streamShard, String(outcome.shard));
      throw refusal;
    }
  }
}

function appendRefusal(outcome: Exclude<AppendOutcome, { kind: "appended" | "duplicate" }>, path: string): Refusal {
  switch (outcome.kind) {
    case "absent":
      return absent(path);
    case "gone":
      return gone(path);
    case "closed":
      return new Refusal("stream-closed", "the stream is closed; nothing can be appended", [
        header.streamClosed,
        "true",
        header.streamNextOffset,
        formatOffset(outcome.next),
      ]);
    case "wrong-type":
      return new Refusal("content-type-mismatch", `the stream has ${header.contentType} ${outcome.contentType}`);
    case "seq-regression":
      return new Refusal("sequence-regression", `${header.streamSeq} must sort after ${JSON.stringify(outcome.last)}`);
    case "producer-fenced":
      return new Refusal("producer-fenced", `the epoch of this producer is ${outcome.epoch} by now`, [
        header.producerEpoch,
        String(outcome.epoch),
      ]);
    case "producer-epoch-start":
      return new Refusal("producer-epoch-start", `${header.producerSeq} must be 0 in a new epoch`);
    case "producer-gap":
      return new Refusal(
        "producer-gap",
        `expected ${header.producerSeq} ${outcome.expected}, got ${outcome.received}`,
        [header.producerExpectedSeq, String(outcome.expected), header.producerReceivedSeq, String(outcome.received)],
      );
  }
}

function createRefusal(
  result: Exclude<CreateResult, { kind: "created" | "exists" }>,
  path: string,
  fork: Fork | undefined,
): Refusal {
  switch (result.kind) {
    case "differs":
      return new Refusal("stream-exists", `${path} exists and differs in ${result.what}`);
    case "gone":
      return new Refusal("stream-exists", `${path} was deleted but is kept for its forks`);
    case "source-absent":
      return new Refusal("stream-not-found", `${header.streamForkedFrom} names a stream that does not exist`);
    case "source-gone":
      return new Refusal("fork-source-gone", `${header.streamForkedFrom} names a deleted stream`);
    case "source-sharded":
      return new Refusal(
        "stream-sharded",
        `${header.streamForkedFrom} names ${fork!.source}, a sharded topic; its shards can be forked`,
      );
    case "shard-taken":
      return new Refusal(
        "stream-exists",
        `${result.path}, which would be a shard of ${path}, is still there or kept for its forks`,
      );
    case "source-type":
      return new Refusal("content-type-mismatch", `the source has ${header.contentType} ${result.contentType}`);
    case "bad-fork-offset":
      return new Refusal("bad-header", `${header.streamForkOffset} is not an offset of ours`);
    case "fork-ahead":
      return new Refusal("bad-header", `${header.streamForkOffset} lies beyond the end of the source`);
    case "fork-trimmed":
      return new Refusal("bad-header", `${header.streamForkOffset} lies before the earliest message kept`);
    case "fork-sub-offset":
      return new Refusal("bad-header", `${header.streamForkSubOffset} goes beyond what follows the fork offset`);
    case "fork-too-deep":
      return new Refusal("bad-request", `${header.streamForkedFrom} names a fork of too many forks`);
  }
}
