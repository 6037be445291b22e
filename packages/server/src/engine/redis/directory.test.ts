import { describe, expect, it } from "vitest";
import { compareBytewise } from "../../core/bytewise.ts";
import type { Calls } from "./calls.ts";
import { Directory } from "./directory.ts";
import { BUCKETS, bucketOf, Keys } from "./keys.ts";

/** Buckets of sorted ids that answer ZRANGE BYLEX, and the number of commands. */
class Buckets {
  commands = 0;
  private readonly ids: string[][] = Array.from({ length: BUCKETS }, () => []);

  constructor(all: readonly string[], bucket: (id: string) => number) {
    for (const id of [...all].sort(compareBytewise)) this.ids[bucket(id)]!.push(id);
  }

  async command(bucket: number, [, , from, , , , , count]: readonly string[]): Promise<Buffer[]> {
    this.commands++;
    const isAfter = (id: string) => {
      const compared = compareBytewise(id, from!.slice(1));
      return from!.startsWith("[") ? compared >= 0 : compared > 0;
    };
    return this.ids[bucket]!.filter(isAfter)
      .slice(0, Number(count))
      .map((id) => Buffer.from(id));
  }
}

const ALL = Array.from({ length: 3_000 }, (_, i) => `s/${i}`).sort(compareBytewise);

describe("a page of the directory", () => {
  it.each<[string, (id: string) => number, number]>([
    ["spread over the buckets", bucketOf, 100],
    ["all in one bucket", () => 7, BUCKETS + 32],
  ])("has the next ids in order at a bounded number of commands, if they are %s", async (_, bucket, most) => {
    const buckets = new Buckets(ALL, bucket);
    const directory = new Directory(buckets as unknown as Calls, new Keys("t"));
    for (const limit of [1, 7, 100, 1_000, 5_000]) {
      for (let i = 0; i < ALL.length; i += Math.max(limit, 500)) {
        buckets.commands = 0;
        const { ids, next } = await directory.list("p", "stream", "", ALL[i - 1] ?? "", limit);
        expect(ids).toEqual(ALL.slice(i, i + limit));
        expect(next).toBe(i + limit < ALL.length ? ids.at(-1) : undefined);
        expect(buckets.commands).toBeLessThanOrEqual(most);
      }
    }
  });
});
