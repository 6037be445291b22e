/**
 * A channel whose end is lost in a failover to a replica that lags. Its readers are told, no message comes twice or out of order,
 * and its publisher continues. With a replica waited for, no message is lost.
 */
import { describe, expect, it } from "vitest";
import { channelEntity } from "../../packages/server/src/channels/state.ts";
import { bucketOf } from "../../packages/server/src/engine/redis/keys.ts";
import { Reader, readAll } from "../channels/reader.ts";
import { type Answer, Channel, START } from "../channels/stage.ts";
import { openClient } from "../client/open-client.ts";
import { eventually } from "../support/eventually.ts";
import type { RedisServer } from "../support/redis.ts";
import { failoverStage } from "./stage.ts";
import { keysOn, pair, takeOver } from "./take-over.ts";

const TIMEOUT_MS = 120_000;
const PATIENCE_MS = 30_000;

const stage = failoverStage({ channel: { rate: 1_000_000 } });

/** The id of a started channel on this master, found among many. */
async function channelOn(url: string, master: RedisServer): Promise<string> {
  for (let i = 0; i < 100; i++) {
    const before = await keysOn(master);
    await new Channel(url, `c${i}`).takes(START);
    if ((await keysOn(master)) > before) return `c${i}`;
  }
  throw new Error("no channel came to this master");
}

/** Another channel id in the same shard, and so on the same master. */
function neighborOf(id: string): string {
  const shard = (name: string) => bucketOf(channelEntity("default", name).key);
  for (let i = 0; ; i++) if (shard(`n${i}`) === shard(id)) return `n${i}`;
}

/** Publishes like a client: retries until the answer is not 503. */
async function publish(channel: Channel, sequence: number, phase: "DELTA" | "END" = "DELTA"): Promise<Answer> {
  let answer: Answer | undefined;
  await eventually(async () => {
    answer = await channel.send(phase, sequence, sequence);
    expect(answer.status).not.toBe(503);
  }, PATIENCE_MS);
  return answer!;
}

const upTo = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

/** Follows a channel over any number of connections, like an EventSource. */
async function follow(channel: Channel, onSequence: (sequence: number) => void): Promise<Reader["seen"]> {
  const seen: Reader["seen"][number][] = [];
  const isOver = () => seen.at(-1)?.data.phase === "END";
  while (!isOver()) {
    const lastId = seen.at(-1)?.id;
    const reader = await Reader.open(channel.events, lastId === undefined ? {} : { "Last-Event-ID": lastId });
    if (reader.status !== 200) {
      reader.close();
      await new Promise((resolve) => setTimeout(resolve, 100));
      continue;
    }
    let taken = 0;
    const take = () => {
      for (const one of reader.seen.slice(taken)) {
        seen.push(one);
        if (one.event === "stream") onSequence(one.data.sequence);
      }
      taken = reader.seen.length;
      return isOver();
    };
    await reader.until("the end of the channel or of the connection", take).catch(take);
    reader.close();
  }
  return seen;
}

describe("a channel without waiting for replicas", () => {
  it("continues after its end was lost: its publisher and late readers are told of the gap, and no message comes twice", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const url = await stage.serve(0);
    const { replica, master } = await pair(stage.cluster);
    const id = await channelOn(url, master);
    const channel = new Channel(url, id);
    await channel.deltas(1, 10);
    await master.admin((redis) => redis.wait(1, 5_000));
    await replica.deafen();
    let last = 0;
    const following = follow(channel, (sequence) => {
      last = sequence;
    });
    for (const sequence of upTo(11, 15)) await publish(channel, sequence);
    await eventually(() => expect(last).toBe(15), PATIENCE_MS);
    await takeOver(master, replica);

    const answer = await publish(channel, 16);
    expect(answer).toMatchObject({ status: 202, body: { sequence: 16, gap: { expected: 11 } } });
    // The repetition of an unanswered publish is recognized, and a skipped sequence cannot come out of order.
    expect((await publish(channel, 16)).body).toEqual(answer.body);
    expect((await publish(channel, 12)).body).toMatchObject({ status: 409, code: "channel-sequence" });
    expect((await publish(channel, 17)).body).toEqual({ sequence: 17, offset: expect.any(String) });
    expect((await publish(channel, 18, "END")).status).toBe(202);

    // A reader that had seen the lost messages continues behind them; offsets only ever grow.
    const seen = (await following).filter(({ event }) => event === "stream");
    expect(seen.map(({ data }) => data.sequence)).toEqual(upTo(0, 18));
    expect(seen.map(({ id: offset }) => offset)).toEqual([...seen.map(({ id: offset }) => offset)].sort());
    expect(seen[16]!.data.gap).toEqual({ expected: 11 });
    // A late reader gets the surviving messages, and a notice in place of the lost ones.
    const late = await readAll(channel.events);
    expect(late.sequences).toEqual([...upTo(0, 10), 16, 17, 18]);
    expect(late.messages.filter(({ data }) => data.gap).map(({ data }) => [data.sequence, data.gap])).toEqual([
      [16, { expected: 11 }],
    ]);
  });

  it("that lost its START no longer exists, and its publisher is told so", { timeout: TIMEOUT_MS }, async () => {
    const url = await stage.serve(0);
    const { replica, master } = await pair(stage.cluster);
    const channel = new Channel(url, neighborOf(await channelOn(url, master)));
    await replica.deafen();
    await channel.takes(START);
    await channel.deltas(1, 3);
    await takeOver(master, replica);
    expect((await publish(channel, 4)).body).toMatchObject({ status: 409, code: "channel-not-started" });
    expect((await fetch(channel.events)).status).toBe(404);
    await channel.takes(START);
    expect((await readAll(channel.events, 0)).sequences).toEqual([0]);
  });

  it("keeps the client's publisher and reader through a failover: the reader gets every word, or is told of a gap", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const url = await stage.serve(0);
    const { replica, master } = await pair(stage.cluster);
    const name = neighborOf(await channelOn(url, master));
    const sluice = openClient(url);
    const answer = sluice.channel(name).publisher({ start: "client" });
    for (const n of upTo(1, 5)) await answer.write(`kept ${n};`);
    await answer.flush();
    await master.admin((redis) => redis.wait(1, 5_000));
    const words: string[] = [];
    const reading = (async () => {
      for await (const item of sluice.channel(name).read()) {
        if (item.type === "gap") words.push("gap");
        else if (item.type === "delta") words.push(String(item.payload));
      }
    })();
    await replica.deafen();
    await answer.write("lost;");
    await answer.flush();
    await eventually(() => expect(words.join("")).toContain("lost;"), PATIENCE_MS);
    await takeOver(master, replica);
    await answer.write("after");
    await answer.end();
    await reading;
    expect(words.join("")).toBe(
      `${upTo(1, 5)
        .map((n) => `kept ${n};`)
        .join("")}lost;after`,
    );
    const late: string[] = [];
    for await (const item of sluice.channel(name).read())
      late.push(item.type === "delta" ? String(item.payload) : item.type);
    expect(late.join(" ")).toMatch(/^start kept 1;.*gap after end$/);
  });
});

describe("a channel with a replica waited for", () => {
  it("loses no acknowledged or shown message in a failover", { timeout: TIMEOUT_MS }, async () => {
    const url = await stage.serve(1);
    const { replica, master } = await pair(stage.cluster);
    const id = await channelOn(url, master);
    const channel = new Channel(url, id);
    await channel.deltas(1, 10);
    const following = follow(channel, () => {});
    await replica.deafen();
    // Not acknowledged while no replica has it, so the publisher retries.
    const publishing = publish(channel, 11);
    await new Promise((resolve) => setTimeout(resolve, 500));
    await takeOver(master, replica);
    await master.start();
    await stage.cluster.settled();
    expect((await publishing).status).toBe(202);
    for (const sequence of upTo(12, 15)) expect((await publish(channel, sequence)).body).not.toHaveProperty("gap");
    expect((await publish(channel, 16, "END")).status).toBe(202);
    const seen = (await following).filter(({ event }) => event === "stream");
    expect(seen.map(({ data }) => data.sequence)).toEqual(upTo(0, 16));
    expect((await readAll(channel.events)).sequences).toEqual(upTo(0, 16));
  });
});
