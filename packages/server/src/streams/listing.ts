/**
 * `GET /v1/{project}/streams`: lists the streams of a project page by page, by prefix or topic filter. Called by
 * `feature.ts`.
 *
 * Invariants: no entry and no `next` names a stream that the caller may not see. A request examines and describes a bounded
 * number of streams; beyond it the page is short, perhaps empty, and `next` continues.
 */
import { formatOffset } from "@sluice/protocol";
import type { Access } from "../core/action.ts";
import { isLonger } from "../core/bytes.ts";
import { compareBytewise } from "../core/bytewise.ts";
import { type HttpRequest, queryValue, type Reply } from "../core/http.ts";
import { Refusal } from "../core/refusal.ts";
import { isReserved } from "../core/reserved.ts";
import type { CallTo } from "../core/route.ts";
import { matchesFilter, parseFilter, type TopicFilter } from "../core/topic.ts";
import { LIST_LIMITS, type ListLimits } from "./defaults.ts";
import { MAX_PATH_BYTES } from "./paths.ts";
import { earliestOf } from "./reading.ts";
import type { Streams } from "./service.ts";
import { endsAt } from "./state.ts";

export const STREAMS_ADDRESS = "/v1/{project}/streams";

export async function listStreams(
  streams: Streams,
  { project, access }: CallTo<typeof STREAMS_ADDRESS>,
  { search }: HttpRequest,
  limits: ListLimits = LIST_LIMITS,
): Promise<Reply> {
  const limit = parseLimit(queryValue(search, "limit"), limits);
  const filter = parseFilterParameter(pathValue(search, "filter"));
  const prefix = pathValue(search, "prefix") ?? filter?.literalPrefix ?? "";
  const after = pathValue(search, "after") ?? "";
  const wanted = { project, filter, limit, limits, prefixes: prefixesWithin(prefix, access) };
  const { found, next } = await list(streams, wanted, after, access);
  const body = JSON.stringify({ streams: found, next });
  return { status: 200, headers: ["Content-Type", "application/json", "Cache-Control", "no-store"], body };
}

interface Wanted {
  readonly project: string;
  readonly filter: TopicFilter | undefined;
  readonly limit: number;
  readonly limits: ListLimits;
  /** Examined one after another, in bytewise order. */
  readonly prefixes: readonly string[];
}

/** `next` is never a name that the caller may not see. */
async function list(streams: Streams, wanted: Wanted, from: string, access: Access) {
  const { project, filter, limit, limits } = wanted;
  const found: object[] = [];
  let resumeAt = from;
  let scanned = 0;
  let described = 0;
  for await (const path of names(streams, wanted, from)) {
    const isSpent = scanned === limits.scanned || described === limits.streams;
    if (isSpent && resumeAt === from) throw tooSparse(limits.scanned);
    if (isSpent || found.length === limit) return { found, next: resumeAt };
    scanned++;
    if (!access.sees(path)) continue;
    resumeAt = path;
    if (isReserved(path) || (filter && !matchesFilter(filter, path))) continue;
    described++;
    const entry = await describeEntry(streams, project, path);
    if (entry) found.push(entry);
  }
  return { found, next: undefined };
}

/**
 * Names of streams in order, in pages that do not depend on how few entries the client asks for: a page of one name would
 * cost a store of many buckets as much as a large one.
 */
async function* names(
  streams: Streams,
  { project, prefixes, limit, limits }: Wanted,
  from: string,
): AsyncGenerator<string> {
  let after = from;
  // One more than the limit, because a later name shows that there is a next page.
  let count = Math.max(limits.firstPage, limit + 1);
  for (const prefix of prefixes) {
    const isPassed = compareBytewise(prefix, after) < 0 && !after.startsWith(prefix);
    for (let isThrough = isPassed; !isThrough; ) {
      const page = await streams.list(project, prefix, after, count);
      yield* page.ids;
      after = page.ids.at(-1) ?? after;
      isThrough = page.next === undefined;
      // The first names were not enough, so few of them match.
      count = limits.page;
    }
  }
}

/** Refused, because `next` would have to name a stream that the caller may not see. */
function tooSparse(scanned: number): Refusal {
  return new Refusal("bad-query", `none of the next ${scanned} streams is visible to this token; send a longer prefix`);
}

/** The prefixes of a confined caller, as far as they lie within the requested prefix. */
function prefixesWithin(asked: string, access: Access): readonly string[] {
  if (access.prefixes === undefined) return [asked];
  const narrowed = access.prefixes.flatMap((own) =>
    own.startsWith(asked) ? [own] : asked.startsWith(own) ? [asked] : [],
  );
  return [...new Set(narrowed)].sort(compareBytewise);
}

async function describeEntry(streams: Streams, project: string, path: string): Promise<object | undefined> {
  const described = await streams.describe(project, path);
  if (described.kind !== "live") return undefined;
  const { meta, head } = described;
  const earliest = await earliestOf(streams.engine, project, meta, head);
  return {
    path,
    contentType: meta.config.contentType,
    nextOffset: formatOffset(head.last),
    // A fork is read from its ancestors' messages on. Numbers go on from theirs to its own.
    messages: head.last.seq - earliest.seq,
    bytes: head.bytes - head.startBytes,
    closed: meta.closed,
    createdAt: meta.createdAt,
    lastAppendAt: head.at === 0 ? null : head.at,
    expiresAt: endsAt(meta, head) ?? null,
    shards: meta.config.shards,
  };
}

/** A parameter that is compared with paths, so it is at most as long as a path. */
function pathValue(search: string, name: string): string | undefined {
  const text = queryValue(search, name);
  if (text !== undefined && isLonger(text, MAX_PATH_BYTES)) {
    throw new Refusal("bad-query", `the query parameter ${name} must have at most ${MAX_PATH_BYTES} bytes`);
  }
  return text;
}

function parseLimit(text: string | undefined, { defaultStreams, streams }: ListLimits): number {
  if (text === undefined) return defaultStreams;
  const limit = Number(text);
  if (!/^\d{1,9}$/.test(text) || limit < 1 || limit > streams) {
    throw new Refusal(
      "bad-query",
      `the query parameter limit must be a number from 1 to ${streams}; got ${JSON.stringify(text.slice(0, 40))}`,
    );
  }
  return limit;
}

function parseFilterParameter(text: string | undefined): TopicFilter | undefined {
  if (text === undefined) return undefined;
  const filter = parseFilter(text);
  if (filter === undefined)
    throw new Refusal(
      "bad-query",
      `the query parameter filter is not a topic filter; + and # must each be a whole level, # the last one`,
    );
  return filter;
}
