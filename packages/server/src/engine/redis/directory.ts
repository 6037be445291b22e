/**
 * The directory: the ids of all buckets, merged in order. The engine calls it for `list` and `projects`.
 *
 * Invariants: a page costs one command per bucket, and one more for each bucket that holds more than twice its share of the page.
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
    // One more than the limit, which shows whether there is a next page.
    const share = Math.ceil((2 * (limit + 1)) / BUCKETS) + 1;
    const from = compareBytewise(after, prefix) < 0 ? `[${prefix}` : `(${after}`;
    const parts = buckets().map((bucket) => new Part(this.calls, this.keys.ids(bucket, kind, project), bucket, prefix));
    let limiting = parts;
    for (;;) {
      await Promise.all(limiting.map((part) => part.more(share, from)));
      // Ids up to the first end of a bucket that has more are certain.
      const open = parts.filter(({ isEnd }) => !isEnd).map(({ ids }) => ids.at(-1)!);
      const through = open.length === 0 ? undefined : open.reduce((a, b) => (compareBytewise(a, b) <= 0 ? a : b));
      const all = parts.flatMap(({ ids }) => ids);
      const certain = through === undefined ? all : all.filter((id) => compareBytewise(id, through) <= 0);
      if (through === undefined || certain.length > limit) {
        const ids = certain.sort(compareBytewise).slice(0, limit);
        return { ids, next: certain.length > limit ? ids.at(-1) : undefined };
      }
      limiting = parts.filter(({ isEnd, ids }) => !isEnd && ids.at(-1) === through);
    }
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

/** The ids that one bucket has given so far. */
class Part {
  readonly ids: string[] = [];
  isEnd = false;

  constructor(
    private readonly calls: Calls,
    private readonly key: string,
    private readonly bucket: number,
    private readonly prefix: string,
  ) {}

  /** Asks for `count` more ids, the first ones after `from`. */
  async more(count: number, from: string): Promise<void> {
    const last = this.ids.at(-1);
    // No UTF-8 text holds this byte, so it sorts after every id with the prefix.
    const end = Buffer.concat([Buffer.from(`(${this.prefix}`), Buffer.of(0xff)]);
    const range = [this.key, last === undefined ? from : `(${last}`, end, "BYLEX", "LIMIT", "0", String(count)];
    const found = (await this.calls.command(this.bucket, ["ZRANGE", ...range])) as Buffer[];
    for (const id of found) this.ids.push(String(id));
    this.isEnd = found.length < count;
  }
}
