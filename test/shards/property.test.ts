/** Every message appended to a topic, in any way, is in exactly one shard; messages that share a key keep their order. */
import { expect, it } from "vitest";
import { type EngineName, serverForTest } from "../e2e/server.ts";
import { Random } from "../sim/random.ts";
import { Topic } from "./topic.ts";

interface Kept {
  readonly payload: { readonly n: number };
  readonly key?: string;
}

it.each<[EngineName, number]>([
  ["memory", 1],
  ["memory", 2],
  ["disk", 3],
  ["redis", 4],
])("every message is in one shard, and in order with the messages of its key (%s, seed %i)", async (engine, seed) => {
  const dice = new Random(seed);
  const shards = 1 + dice.below(9);
  const topic = await new Topic((await serverForTest(engine)).url, "t", shards).create();
  const sent = new Map<string, number[]>();
  const all: number[] = [];
  let n = 0;
  /** One client per key sends one message after the other, sometimes twice, and sometimes in batches. */
  const client = async (key: string) => {
    const order: number[] = [];
    const isProducer = dice.below(2) === 0;
    for (let seq = 0; seq < 12; seq++) {
      const batch = Array.from({ length: 1 + dice.below(3) }, () => n++);
      order.push(...batch);
      all.push(...batch);
      const headers: Record<string, string> = key === "" ? {} : { "Message-Key": key };
      if (isProducer)
        Object.assign(headers, { "Producer-Id": `p-${key}`, "Producer-Epoch": "0", "Producer-Seq": `${seq}` });
      const message = batch.map((at) => ({ n: at }));
      const shard = await topic.add(message, headers);
      if (isProducer && dice.below(3) === 0) expect(await topic.add(message, headers)).toBe(shard);
    }
    sent.set(key, order);
  };
  const keys = ["", ...Array.from({ length: 8 }, (_, i) => `key ${i}`)];
  await Promise.all(keys.map(client));

  const kept: Kept[][] = [];
  for (const path of topic.paths) kept.push((await topic.get("?offset=-1&format=envelope", path)).body);
  const found = kept.flat().map(({ payload }) => payload.n);
  expect(found.sort((a, b) => a - b)).toEqual(all.sort((a, b) => a - b));
  for (const key of keys.slice(1)) {
    const homes = kept.filter((messages) => messages.some((message) => message.key === key));
    expect(homes.length, key).toBe(1);
    const order = homes[0]!.filter((message) => message.key === key).map(({ payload }) => payload.n);
    expect(order, key).toEqual(sent.get(key));
  }
});
