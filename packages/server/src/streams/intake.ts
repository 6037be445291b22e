/**
 * What a caller may ask of a stream through any door: paths, producers, bodies. `Streams` checks every request here
 * before it runs a rule.
 *
 * Invariants: no stream is created at a path that is refused here. Streams stored before a rule existed stay readable
 * and deletable. A message in a JSON stream is valid JSON.
 */
import { header } from "@sluice/protocol";
import { isLonger } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";
import { refuseReserved } from "../core/reserved.ts";
import { isAmongShards, SHARD_LEVEL, shardPath } from "../core/shard-path.ts";
import type { Append } from "./append.ts";
import { jsonMessages } from "./json.ts";
import type { StreamLimits } from "./limits.ts";
import { isJson } from "./state.ts";

export const MAX_PATH_BYTES = 1_024;

/**
 * A level that is `.` or `..`. Clients resolve it before they send a request, so no client could address such a stream.
 */
const DOTS = /(^|\/)\.\.?(\/|$)/;
/** Whitespace and control characters break listings, logs and headers; `+` and `#` are wildcards of topic filters. */
const NOT_IN_NEW_PATHS = /[\p{White_Space}\p{Cc}+#]/u;
const RESERVED_PRODUCER = "fanout:";

/** Throws a Refusal for a path that no stream can have. */
export function checkPath(path: string): string {
  if (path === "") throw new Refusal("bad-path", "the path is empty; a stream needs a path of at least one character");
  if (isLonger(path, MAX_PATH_BYTES)) {
    throw new Refusal("bad-path", `the path is longer than ${MAX_PATH_BYTES} bytes`);
  }
  if (hasControlCharacter(path)) throw new Refusal("bad-path", "the path holds a control character");
  if (path.includes(".") && DOTS.test(path)) {
    throw new Refusal(
      "bad-path",
      `the path ${path} has a level of dots, which clients resolve; use another name for that level`,
    );
  }
  return path;
}

function hasControlCharacter(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x20 || code === 0x7f) return true;
  }
  return false;
}

/** Throws a Refusal for a path at which no stream may be created. `shards` is given for a topic. */
export function checkNewPath(path: string, shards: number | undefined): void {
  checkPath(path);
  refuseReserved(path);
  refuseAmongShards(path);
  if (NOT_IN_NEW_PATHS.test(path)) {
    const shown = JSON.stringify(path);
    throw new Refusal("bad-path", `a new path must not hold whitespace, control characters, + or #; got ${shown}`);
  }
  if (shards === undefined) return;
  const longest = shardPath(path, shards - 1);
  if (isLonger(longest, MAX_PATH_BYTES)) {
    const tail = longest.slice(path.length);
    throw new Refusal(
      "bad-path",
      `the path leaves no room for its shards: ${MAX_PATH_BYTES} bytes with ${tail} at its end`,
    );
  }
}

/** Throws a Refusal for a shard's path, because shards are created and deleted only with their topic. */
export function refuseAmongShards(path: string): void {
  if (!isAmongShards(path)) return;
  const detail = `paths with the level ${SHARD_LEVEL} are reserved for the shards of topics, which are created and deleted with their topic`;
  throw new Refusal("reserved-name", detail);
}

/** An append as a door passes it on: the body of one request, or separate messages. */
export interface AppendRequest extends Omit<Append, "payloads" | "topicId"> {
  readonly body?: Uint8Array | undefined;
  readonly payloads?: readonly Uint8Array[] | undefined;
}

/** Throws a Refusal for an append that no stream accepts. */
export function takeAppend(path: string, request: AppendRequest, limits: StreamLimits): Append {
  refuseReserved(path);
  const { body, payloads, contentType, close, seq, producer, messageId, messageKey, attributes } = request;
  if (producer?.id.startsWith(RESERVED_PRODUCER)) {
    throw new Refusal("reserved-name", `${header.producerId} must not start with ${RESERVED_PRODUCER}`);
  }
  const messages = payloads ? checked(payloads, contentType, limits) : split(body, contentType, limits);
  if (messages.length === 0) {
    if (body !== undefined && body.length > 0)
      throw new Refusal("empty-body", "an empty array appends nothing; send at least one message");
    if (!close) throw new Refusal("empty-body", "an append needs a body, or Stream-Closed: true");
  } else if (contentType === undefined) {
    throw new Refusal("bad-header", `${header.contentType} is missing; send the media type of the stream`);
  }
  return { payloads: messages, contentType, close, seq, producer, messageId, messageKey, attributes };
}

/** The messages in a body: a JSON array is flattened by one level, any other body is one message. Throws a Refusal. */
export function split(
  body: Uint8Array | undefined,
  contentType: string | undefined,
  limits: Pick<StreamLimits, "bodyBytes" | "bodyMessages">,
): readonly Uint8Array[] {
  if (body === undefined || body.length === 0) return [];
  if (body.length > limits.bodyBytes) throw tooLarge(limits);
  if (contentType === undefined || !isJson(contentType)) return [body];
  const json = jsonMessages(body, limits.bodyMessages);
  if (json.kind === "invalid") throw new Refusal("bad-body", `the body is not JSON: ${json.why}`);
  if (json.kind === "too-many") throw tooMany(limits);
  return json.payloads;
}

/** Separate messages have the same limits as a body. */
export function checked(
  payloads: readonly Uint8Array[],
  contentType: string | undefined,
  limits: Pick<StreamLimits, "bodyBytes" | "bodyMessages">,
): readonly Uint8Array[] {
  if (payloads.length > limits.bodyMessages) throw tooMany(limits);
  let bytes = 0;
  for (const payload of payloads) bytes += payload.length;
  if (bytes > limits.bodyBytes) throw tooLarge(limits);
  if (contentType === undefined || !isJson(contentType)) return payloads;
  for (const [i, payload] of payloads.entries()) {
    const json = jsonMessages(payload);
    if (json.kind === "invalid") throw new Refusal("bad-body", `message ${i} is not JSON: ${json.why}`);
  }
  return payloads;
}

export function tooLarge({ bodyBytes }: Pick<StreamLimits, "bodyBytes">): Refusal {
  return new Refusal("too-large", `a body may have at most ${bodyBytes} bytes`);
}

function tooMany({ bodyMessages }: Pick<StreamLimits, "bodyMessages">): Refusal {
  return new Refusal("too-large", `a body may have at most ${bodyMessages} messages`);
}
