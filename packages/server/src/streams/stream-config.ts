/**
 * The settings that a stream may be created with, through any door. `Streams` checks every creation here before it runs a rule;
 * the HTTP routes do so before they read the body.
 *
 * Invariants: every setting that is stored can be shown as a header. No stream has both a TTL and a time to expire.
 */
import { header } from "@sluice/protocol";
import { Refusal } from "../core/refusal.ts";
import { MAX_SHARDS } from "../core/shard-path.ts";
import type { StreamConfig } from "./state.ts";

export const MAX_CONTENT_TYPE_CHARS = 256;
/** A century: longer than any use needs, and safe to add to a time. */
export const MAX_TTL_SECONDS = 100 * 365 * 24 * 3_600;

/** RFC 3339 writes a year with four digits. */
const EARLIEST_MS = Date.parse("0000-01-01T00:00:00.000Z");
const LATEST_MS = Date.parse("9999-12-31T23:59:59.999Z");

/** The characters of a parameter are those that a header may have. */
const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+[\t ]*(;[\t -~\x80-\xff]*)?$/;

type AskedConfig = Omit<StreamConfig, "contentType"> & { readonly contentType?: string | undefined };

/** Throws a Refusal for settings that no stream can have. */
export function checkConfig({ contentType, ttlSeconds, expiresAt, retention = {}, shards }: AskedConfig): void {
  const { maxMessages, maxBytes, maxAgeMs } = retention;
  if (contentType !== undefined) checkContentType(contentType);
  if (ttlSeconds !== undefined && expiresAt !== undefined) {
    throw new Refusal(
      "bad-header",
      `${header.streamTtl} and ${header.streamExpiresAt} exclude each other; send one of them`,
    );
  }
  if (!isWithin(expiresAt, EARLIEST_MS, LATEST_MS)) {
    const detail = `${header.streamExpiresAt} must be a time in the years 0 to 9999; got ${expiresAt} as epoch ms`;
    throw new Refusal("bad-header", detail);
  }
  checkCount(header.streamTtl, ttlSeconds, 0, MAX_TTL_SECONDS);
  checkCount(header.streamMaxMessages, maxMessages, 1, Number.MAX_SAFE_INTEGER);
  checkCount(header.streamMaxBytes, maxBytes, 1, Number.MAX_SAFE_INTEGER);
  checkCount(header.streamShards, shards, 1, MAX_SHARDS);
  // Pull and programs may ask for a fraction of a second, headers may not.
  if (maxAgeMs !== undefined && !(maxAgeMs >= 1 && maxAgeMs <= MAX_TTL_SECONDS * 1_000)) {
    const detail = `${header.streamMaxAgeSeconds} must be from 1 to ${MAX_TTL_SECONDS}; got ${maxAgeMs / 1_000}`;
    throw new Refusal("bad-header", detail);
  }
}

/** Throws a Refusal for a text that is no media type. */
export function checkContentType(text: string): void {
  if (text.length > MAX_CONTENT_TYPE_CHARS || !MEDIA_TYPE.test(text)) {
    throw new Refusal(
      "bad-header",
      `${header.contentType} must be a media type of at most ${MAX_CONTENT_TYPE_CHARS} characters`,
    );
  }
}

function checkCount(name: string, value: number | undefined, least: number, most: number): void {
  if (isWithin(value, least, most)) return;
  throw new Refusal("bad-header", `${name} must be a whole number from ${least} to ${most}; got ${value}`);
}

/** Also true for a setting that is absent. */
function isWithin(value: number | undefined, least: number, most: number): boolean {
  return value === undefined || (Number.isSafeInteger(value) && value >= least && value <= most);
}
