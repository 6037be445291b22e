/**
 * A page of a listing of sessions, channels or wake subscriptions. Their routes call it with a source of ids and a function that
 * describes one.
 *
 * Invariants: no entry and no `next` names something that the caller may not see. A request examines a bounded number of ids;
 * beyond it the page is short, perhaps empty, and `next` continues.
 */
import { isLonger } from "./bytes.ts";
import { queryValue } from "./http.ts";
import { Refusal } from "./refusal.ts";

export const LISTED = 100;
export const MOST_LISTED = 1_000;
const MAX_AFTER_BYTES = 1_024;

export interface ListingPage<T> {
  readonly found: readonly T[];
  /** Pass as `after` for the next page; undefined at the end. */
  readonly next: string | undefined;
}

export interface Listed<T> {
  /** The query of the request, with `limit` and `after`. */
  readonly search: string;
  /** Ids in bytewise order, after this one. */
  ids(after: string, count: number): Promise<readonly string[]> | readonly string[];
  /** `hidden`: the caller may not see it. Undefined: it is over. */
  describe(id: string): Promise<T | "hidden" | undefined>;
}

export async function listPage<T>({ search, ids, describe }: Listed<T>): Promise<ListingPage<T>> {
  const limit = parseLimit(queryValue(search, "limit"));
  const from = parseAfter(queryValue(search, "after"));
  // One more than can be shown or examined, because a later id shows that there is a next page.
  const names = await ids(from, MOST_LISTED + 1);
  const found: T[] = [];
  let resumeAt = from;
  for (const [i, id] of names.entries()) {
    if (found.length === limit || i === MOST_LISTED) {
      if (resumeAt === from) throw tooSparse();
      return { found, next: resumeAt };
    }
    const entry = await describe(id);
    if (entry === "hidden") continue;
    resumeAt = id;
    if (entry !== undefined) found.push(entry);
  }
  return { found, next: undefined };
}

/** Refused, because `next` would have to name something that the caller may not see. */
function tooSparse(): Refusal {
  return new Refusal("bad-query", `none of the next ${MOST_LISTED} entries is visible to this token`);
}

function parseLimit(text: string | undefined): number {
  if (text === undefined) return LISTED;
  const limit = Number(text);
  if (/^\d{1,9}$/.test(text) && limit >= 1 && limit <= MOST_LISTED) return limit;
  const got = JSON.stringify(text.slice(0, 40));
  throw new Refusal("bad-query", `the query parameter limit must be a number from 1 to ${MOST_LISTED}; got ${got}`);
}

function parseAfter(text = ""): string {
  if (!isLonger(text, MAX_AFTER_BYTES)) return text;
  throw new Refusal("bad-query", `the query parameter after must have at most ${MAX_AFTER_BYTES} bytes`);
}
