/**
 * The claims of a verified token, parsed once: its subject, scopes, project and streams. `ProjectKeys` creates them;
 * `decide` uses them.
 */
import type { JWTPayload } from "jose";
import { parseFilter, type TopicFilter } from "../core/topic.ts";

/** Bits of `Claims.scopes`. */
export const READ = 1;
export const WRITE = 2;
export const ADMIN = 4;
/** Reading the metrics, and nothing else. */
export const METRICS = 8;

export interface Claims {
  readonly subject: string | undefined;
  readonly scopes: number;
  /** The only project that the token is for, if it names one. */
  readonly project: string | undefined;
  /** The streams that the token is confined to; undefined for all of the project. */
  readonly streams: readonly TopicFilter[] | undefined;
  /** Epoch seconds. */
  readonly expiresAt: number;
}

/** The words of these scopes that another token may carry; `admin` implies the others. */
export function grantedScope(scopes: number): string {
  const has = (scope: number) => (scopes & (scope | ADMIN)) !== 0;
  return [has(READ) ? "read" : "", has(WRITE) ? "write" : ""].join(" ").trim();
}

const SCOPES: Readonly<Record<string, number>> = { read: READ, write: WRITE, admin: ADMIN, metrics: METRICS };
export const SCOPE_WORDS = Object.keys(SCOPES);
const MAX_FILTERS = 100;
const MAX_FILTER_CHARS = 1_024;

/** The claims, or what is wrong with one of them. */
export function readClaims({ sub, scope, project, streams, exp }: JWTPayload): Claims | string {
  if (sub !== undefined && typeof sub !== "string") return "the claim sub must be a string";
  if (scope !== undefined && typeof scope !== "string") return "the claim scope must be a string";
  if (project !== undefined && typeof project !== "string") return "the claim project must be a string";
  if (typeof exp !== "number") return "the claim exp must be a number";
  const filters = streams === undefined ? undefined : readFilters(streams);
  if (typeof filters === "string") return filters;
  return { subject: sub, scopes: readScopes(scope ?? ""), project, streams: filters, expiresAt: exp };
}

/** Unknown scopes are ignored, because tokens may carry scopes of other services. */
export function readScopes(text: string): number {
  let scopes = 0;
  for (const word of text.split(" ")) if (Object.hasOwn(SCOPES, word)) scopes |= SCOPES[word]!;
  return scopes;
}

/** The filters, or what is wrong with them. */
export function readFilters(value: unknown): readonly TopicFilter[] | string {
  if (!Array.isArray(value)) return "streams must be an array of topic filters";
  if (value.length > MAX_FILTERS) return `streams must have at most ${MAX_FILTERS} topic filters`;
  const filters: TopicFilter[] = [];
  for (const [i, text] of value.entries()) {
    const isText = typeof text === "string" && text.length <= MAX_FILTER_CHARS;
    const filter = isText ? parseFilter(text) : undefined;
    if (filter === undefined) return `streams[${i}] is not a topic filter of at most ${MAX_FILTER_CHARS} characters`;
    filters.push(filter);
  }
  return filters;
}
