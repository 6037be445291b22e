/**
 * The directory: the ids of all buckets, merged in order. The engine calls it for `list` and `projects`. A page asks each bucket
 * for its share and a little more, and asks again if a bucket has more than that.
 */
import { compareBytewise } from "../../core/bytewise.ts";
import type { Listing } from "../contract.ts";
import type { Calls } from "./calls.ts";
import { BUCKETS, type Keys } from "./keys.ts";

export class Directory {
  constructor(
    private readonly calls: Calls,
    private readonly keys: Keys,
  ) {}

  async list(project: string, kind: string, prefix: string, after: string, limit: number): Promise<Listing> {
    const found: string[] = [];
    let from = after;
    let isEnd = false;
    // One more than the limit, which shows whether there is a next page.
    while (found.length <= limit && !isEnd) {
      const share = Math.ceil((2 * (limit + 1 - found.length)) / BUCKETS) + 1;
      const page = await this.round(project, kind, prefix, from, share);
      found.push(...page.ids);
      isEnd = page.isEnd;
      from = page.through;
    }
    const ids = found.slice(0, limit);
    return { ids, next: found.length > limit ? ids.at(-1) : undefined };
  }

  /** The ids that are certain after each bucket gave `share` ids: all up to the first end of a bucket that may have more. */
  private async round(project: string, kind: string, prefix: string, after: string, share: number) {
    const lowest = compareBytewise(after, prefix) < 0 ? `[${prefix}` : `(${after}`;
    // No UTF-8 text holds this byte, so it sorts after every id with the prefix.
    const highest = Buffer.concat([Buffer.from(`(${prefix}`), Buffer.of(0xff)]);
    const pages = await Promise.all(
      buckets().map(async (bucket) => {
        const range = [this.keys.ids(bucket, kind, project), lowest, highest, "BYLEX", "LIMIT", "0", String(share)];
        return ((await this.calls.command(bucket, ["ZRANGE", ...range])) as Buffer[]).map(String);
      }),
    );
    const ends = pages.filter((page) => page.length === share).map((page) => page.at(-1)!);
    const all = pages.flat().sort(compareBytewise);
    if (ends.length === 0) return { ids: all, isEnd: true, through: after };
    const through = ends.reduce((a, b) => (compareBytewise(a, b) <= 0 ? a : b));
    return { ids: all.filter((id) => compareBytewise(id, through) <= 0), isEnd: false, through };
  }

  async projects(kind: string): Promise<readonly string[]> {
    const found = await Promise.all(
      buckets().map(
        (bucket) => this.calls.command(bucket, ["SMEMBERS", this.keys.projects(bucket, kind)]) as Promise<Buffer[]>,
      ),
    );
    return [...new Set(found.flat().map(String))];
  }
}

function buckets(): number[] {
  return Array.from({ length: BUCKETS }, (_, bucket) => bucket);
}
