import { expect, test } from "vitest";
import { entity } from "../contract.ts";
import { EntityState } from "./entity-state.ts";
import { TailCache } from "./tail-cache.ts";

const KIB = 1_024;

test("busy streams fill the memory of evicted blocks again, instead of leaving it to the collector", () => {
  const cache = new TailCache(1_024 * KIB, () => undefined);
  const states = Array.from({ length: 10 }, (_, i) => new EntityState(entity("p", "stream", String(i))));
  const commit = Buffer.alloc(256);
  const memory = new Set<ArrayBufferLike>();
  for (let lsn = 1; lsn <= 100_000; lsn++) {
    const state = states[lsn % states.length]!;
    const range = { generation: 1, firstSeq: Math.ceil(lsn / states.length), count: 1, start: 0, end: commit.length };
    cache.add(state, lsn, commit, range);
    memory.add(state.blocks.last()!.memory.buffer);
    cache.evict(lsn);
  }
  // 25 MB went through a cache of 1 MiB, in pieces of 256 KiB of which some wait for reuse.
  expect(memory.size).toBeLessThan(30);
});
