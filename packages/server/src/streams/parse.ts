/**
 * What the stream routes read from a request: paths, offsets, headers. A malformed value is refused here with the name
 * of its header or parameter. Rules that hold for every protocol are checked by the service (paths.ts, bodies.ts,
 * stream-config.ts).
 */
import { BEGINNING, header, NOW, type Position, parseOffset } from "@sluice/protocol";
import { isLonger } from "../core/bytes.ts";
import { type HttpRequest, queryValue } from "../core/http.ts";
import { Refusal } from "../core/refusal.ts";
import { parseTime } from "../core/rfc3339.ts";
import { checkPath } from "./paths.ts";
import type { ProducerTriple, Retention, StreamConfig } from "./state.ts";
import { checkConfig, checkContentType } from "./stream-config.ts";

export const MAX_ID_BYTES = 512;
export const MAX_SEQ_CHARS = 1_024;
export const MAX_KEY_BYTES = 1_024;
export const MAX_ATTRIBUTES_BYTES = 4_096;

/** A stream's path from its percent-encoded form. */
export function parsePath(encoded: string): string {
  return checkPath(encoded.includes("%") ? decodePath(encoded) : encoded);
}

function decodePath(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw new Refusal("bad-path", "the path has a malformed percent escape; escapes must be UTF-8 in the form %XX");
  }
}

/** Where a GET starts: at the earliest message kept, at the tail, or after a position. */
export type From = typeof BEGINNING | typeof NOW | Position;

/** Where else a GET may start: with the last n messages, or with the first message since a time. */
export type Back = { readonly last: number } | { readonly sinceMs: number } | { readonly agoMs: number };

export function isBack(from: From | Back | undefined): from is Back {
  return typeof from === "object" && !("seq" in from);
}

export function parseFrom(search: string): From | Back | undefined {
  const last = queryValue(search, "last");
  const since = queryValue(search, "since");
  const offset = queryValue(search, "offset");
  const given = [last, since, offset].filter((text) => text !== undefined).length;
  if (given > 1)
    throw new Refusal(
      "bad-query",
      "the query parameter offset excludes last and since, and they exclude each other; give one of the three",
    );
  if (last !== undefined) return parseLast(last);
  return since === undefined ? parseOffsetParameter(offset) : parseSince(since);
}

function parseLast(text: string): Back {
  const count = Number(text);
  if (!/^\d{1,16}$/.test(text) || !Number.isSafeInteger(count)) {
    throw new Refusal(
      "bad-query",
      `the query parameter last must be a number of messages, like 100; got ${shown(text)}`,
    );
  }
  return { last: count };
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function parseSince(text: string): Back {
  const [, digits = "", unit = ""] = /^(\d{1,16})(ms|s|m|h|d)?$/.exec(text) ?? [];
  const amount = Number(digits) * (UNITS_MS[unit] ?? 1);
  if (digits === "" || !Number.isSafeInteger(amount)) {
    const allowed = "a time in epoch milliseconds, or a duration like 500ms, 30s, 10m, 2h or 7d";
    throw new Refusal("bad-query", `the query parameter since must be ${allowed}; got ${shown(text)}`);
  }
  return unit === "" ? { sinceMs: amount } : { agoMs: amount };
}

const MAX_SHOWN_CHARS = 40;

function shown(text: string): string {
  return JSON.stringify(text.slice(0, MAX_SHOWN_CHARS));
}

function parseOffsetParameter(text: string | undefined): From | undefined {
  if (text === undefined || text === BEGINNING || text === NOW) return text;
  const position = parseOffset(text);
  if (position === undefined)
    throw new Refusal(
      "bad-offset",
      `the query parameter offset must be an offset from this server, ${BEGINNING} or ${NOW}; got ${shown(text)}`,
    );
  return position;
}

/** A decimal number as the protocol requires it: no sign, leading zero, point or exponent. */
export function parseCount(request: HttpRequest, name: string): number | undefined {
  const text = request.header(name.toLowerCase());
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!/^(0|[1-9]\d*)$/.test(text) || !Number.isSafeInteger(value)) {
    throw new Refusal(
      "bad-header",
      `${name} must be a whole number from 0 to 2^53-1 in plain decimal; got ${shown(text)}`,
    );
  }
  return value;
}

export function parseConfig(
  request: HttpRequest,
): Omit<StreamConfig, "contentType"> & { contentType: string | undefined } {
  const config = {
    contentType: parseContentType(request),
    ttlSeconds: parseCount(request, header.streamTtl),
    expiresAt: parseExpiresAt(request),
    retention: parseRetention(request),
    shards: parseCount(request, header.streamShards),
  };
  checkConfig(config);
  return config;
}

function parseExpiresAt(request: HttpRequest): number | undefined {
  const text = request.header("stream-expires-at");
  const expiresAt = text === undefined ? undefined : parseTime(text);
  if (text !== undefined && expiresAt === undefined) {
    throw new Refusal(
      "bad-header",
      `${header.streamExpiresAt} must be an RFC 3339 time on a day that exists, like 2030-01-31T12:00:00Z; got ${shown(text)}`,
    );
  }
  return expiresAt;
}

function parseRetention(request: HttpRequest): Retention | undefined {
  const maxMessages = parseCount(request, header.streamMaxMessages);
  const maxBytes = parseCount(request, header.streamMaxBytes);
  const maxAgeSeconds = parseCount(request, header.streamMaxAgeSeconds);
  if (maxMessages === undefined && maxBytes === undefined && maxAgeSeconds === undefined) return undefined;
  return { maxMessages, maxBytes, maxAgeMs: maxAgeSeconds === undefined ? undefined : maxAgeSeconds * 1_000 };
}

export function parseContentType(request: HttpRequest): string | undefined {
  const text = request.header("content-type")?.trim();
  if (text === undefined || text === "") return undefined;
  checkContentType(text);
  return text;
}

export function parseClosed(request: HttpRequest): boolean {
  return request.header("stream-closed")?.toLowerCase() === "true";
}

export function parseSeq(request: HttpRequest): string | undefined {
  const seq = request.header("stream-seq");
  if (seq !== undefined && (seq === "" || seq.length > MAX_SEQ_CHARS)) {
    throw new Refusal("bad-header", `${header.streamSeq} must have 1 to ${MAX_SEQ_CHARS} characters`);
  }
  return seq;
}

export function parseProducer(request: HttpRequest): ProducerTriple | undefined {
  const id = request.header("producer-id");
  const epoch = parseCount(request, header.producerEpoch);
  const seq = parseCount(request, header.producerSeq);
  if (id === undefined && epoch === undefined && seq === undefined) return undefined;
  if (id === undefined || epoch === undefined || seq === undefined) {
    throw new Refusal("bad-header", "Producer-Id, Producer-Epoch and Producer-Seq must be given together");
  }
  checkSize(header.producerId, id, MAX_ID_BYTES);
  return { id, epoch, seq };
}

export interface Metadata {
  readonly messageId?: string | undefined;
  readonly messageKey?: string | undefined;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
}

export function parseMetadata(request: HttpRequest): Metadata {
  return metadataOf(request.header("message-id"), request.header("message-key"), request.header("message-attributes"));
}

/** The same for a program that gives values instead of headers. */
export function checkMetadata({ messageId, messageKey, attributes }: Metadata): Metadata {
  return metadataOf(messageId, messageKey, attributes && JSON.stringify(attributes));
}

function metadataOf(
  messageId: string | undefined,
  messageKey: string | undefined,
  attributes: string | undefined,
): Metadata {
  if (messageId !== undefined) checkSize(header.messageId, messageId, MAX_ID_BYTES);
  if (messageKey !== undefined) checkSize(header.messageKey, messageKey, MAX_KEY_BYTES);
  return { messageId, messageKey, attributes: parseAttributes(attributes) };
}

function checkSize(name: string, value: string, maxBytes: number): void {
  if (value === "" || isLonger(value, maxBytes)) {
    throw new Refusal("bad-header", `${name} must have 1 to ${maxBytes} bytes`);
  }
}

function parseAttributes(text: string | undefined): Readonly<Record<string, string>> | undefined {
  if (text === undefined) return undefined;
  checkSize(header.messageAttributes, text, MAX_ATTRIBUTES_BYTES);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value) || !Object.values(value).every(isString)) {
    throw new Refusal("bad-header", `${header.messageAttributes} must be a JSON object of strings`);
  }
  return value as Record<string, string>;
}

function isString(value: unknown): value is string {
  return typeof value === "string";
}
