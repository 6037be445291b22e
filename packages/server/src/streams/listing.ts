/** `GET /v1/{project}/streams`: the streams of a project, page by page, by prefix or topic filter. */
import { formatOffset } from "@sluice/protocol";
import { utf8 } from "../core/bytes.ts";
import { type HttpRequest, queryValue, Refusal, type Reply } from "../core/http.ts";
import { matchesFilter, parseFilter, type TopicFilter } from "../core/topic.ts";
import { LIST_LIMITS, type ListLimits } from "./limits.ts";
import { isReserved, MAX_PATH_BYTES } from "./parse.ts";
import type { Streams } from "./service.ts";
import { endsAt } from "./state.ts";

export async function listStreams(
  streams: Streams,
  project: string,
  request: HttpRequest,
  limits: ListLimits = LIST_LIMITS,
): Promise<Reply> {
  const { search } = request;
  const limit = parseLimit(queryValue(search, "limit"), limits);
  const filter = parseFilterParameter(pathValue(search, "filter"));
  const prefix = pathValue(search, "prefix") ?? filter?.literalPrefix ?? "";
  let after = pathValue(search, "after") ?? "";
  const found: object[] = [];
  let next: string | undefined;
  for (let scanned = 0; ; ) {
    const page = await streams.list(project, prefix, after, limit - found.length);
    for (const path of page.ids) {
      after = path;
      if (isReserved(path) || (filter && !matchesFilter(filter, path))) continue;
      const entry = await describeEntry(streams, project, path);
      if (entry) found.push(entry);
    }
    scanned += page.ids.length;
    next = page.next === undefined ? undefined : after;
    if (next === undefined || found.length >= limit || scanned >= limits.scanned) break;
  }
  const body = JSON.stringify({ streams: found, next });
  return { status: 200, headers: ["Content-Type", "application/json", "Cache-Control", "no-store"], body };
}

async function describeEntry(streams: Streams, project: string, path: string): Promise<object | undefined> {
  const described = await streams.describe(project, path);
  if (described.kind !== "live") return undefined;
  const { meta, head } = described;
  return {
    path,
    contentType: meta.config.contentType,
    nextOffset: formatOffset(head.last),
    messages: head.last.seq - head.start.seq,
    bytes: head.bytes - head.startBytes,
    closed: meta.closed,
    createdAt: meta.createdAt,
    lastAppendAt: head.at === 0 ? null : head.at,
    expiresAt: endsAt(meta, head) ?? null,
  };
}

/** A parameter that is compared with paths, and therefore as long as one at most. */
function pathValue(search: string, name: string): string | undefined {
  const text = queryValue(search, name);
  if (text !== undefined && utf8(text).length > MAX_PATH_BYTES) {
    throw new Refusal("bad-query", `the query parameter ${name} is longer than ${MAX_PATH_BYTES} bytes`);
  }
  return text;
}

function parseLimit(text: string | undefined, { defaultStreams, streams }: ListLimits): number {
  if (text === undefined) return defaultStreams;
  const limit = Number(text);
  if (!/^\d{1,9}$/.test(text) || limit < 1 || limit > streams) {
    throw new Refusal("bad-query", `the query parameter limit must be a number from 1 to ${streams}`);
  }
  return limit;
}

function parseFilterParameter(text: string | undefined): TopicFilter | undefined {
  if (text === undefined) return undefined;
  const filter = parseFilter(text);
  if (filter === undefined) throw new Refusal("bad-query", "the query parameter filter is not a topic filter");
  return filter;
}
