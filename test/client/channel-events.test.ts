import { type ChannelEvent, type ChannelReadOptions, Encoded } from "@sluice/client";
import { expect, test } from "vitest";
import { describeOnEngines, eventually, serverForTest, within } from "../e2e/server.ts";
import { FakeChannelServer } from "./fake-channel-server.ts";
import { faultyFetch } from "./faulty-fetch.ts";
import { numbersTo, openClient } from "./open-client.ts";

async function eventsOf(
  channel: { events(options: ChannelReadOptions): AsyncIterable<ChannelEvent> },
  options: ChannelReadOptions = {},
): Promise<ChannelEvent[]> {
  const all: ChannelEvent[] = [];
  for await (const event of channel.events(options)) all.push(event);
  return all;
}

const inShort = (event: ChannelEvent) =>
  event.event !== "stream" ? event.event : `${event.message.phase} ${/"payload":(.*)\}$/.exec(event.data)![1]}`;

describeOnEngines("a channel step by step", (engine) => {
  test("stores each message once, as it was encoded, under its publisher's number", async () => {
    const { url } = await serverForTest(engine);
    const { fetch } = faultyFetch(({ method }, index) =>
      method === "POST" && index % 2 === 0 ? { kind: "lose-answer" } : undefined,
    );
    const channel = openClient(url, { fetch }).channel("steps/1");
    await channel.publish({ phase: "START", sequence: 5 });
    const first = await channel.publish({ phase: "DELTA", sequence: 6, payload: "a", messageId: "m1" });
    const again = await channel.publish({ phase: "DELTA", sequence: 6, payload: "a", messageId: "m1" });
    expect(again).toEqual(first);
    await channel.publish({ phase: "DELTA", sequence: 7, payload: new Encoded("12345678901234567890") });
    expect(await channel.publish({ phase: "DELTA", sequence: 9, payload: [] })).toMatchObject({ gap: { expected: 8 } });
    await channel.publish({ phase: "END", sequence: 10 });
    const events = await eventsOf(channel);
    expect(events.map(inShort)).toEqual([
      "START null",
      'DELTA "a"',
      "DELTA 12345678901234567890",
      "DELTA []",
      "END null",
    ]);
    expect(events[3]).toMatchObject({ message: { sequence: 9, gap: { expected: 8 } } });
    expect(await eventsOf(channel, { from: events[2]!.offset })).toEqual(events.slice(3));
  });

  test("accepts a publisher that starts at a given number, which knows how much the server has accepted", async () => {
    const { url } = await serverForTest(engine);
    const channel = openClient(url).channel("steps/2");
    const answer = channel.publisher({ sequence: 40, start: new Encoded("1e2") });
    expect(answer.offset).toBeUndefined();
    void answer.write("one ");
    void answer.write(new Encoded('"a line"'));
    void answer.write(new Encoded('"another"'));
    await answer.flush();
    const { offset } = answer;
    await answer.end();
    const events = await eventsOf(channel);
    expect(events.map(inShort)).toEqual(["START 1e2", 'DELTA "one "', 'DELTA "a line"', 'DELTA "another"', "END null"]);
    expect(events[0]).toMatchObject({ message: { sequence: 40 } });
    expect([events[3]!.offset, events[4]!.offset]).toEqual([offset, answer.offset]);
  });

  test("is followed from now on, without earlier messages", async () => {
    const { url } = await serverForTest(engine);
    const channel = openClient(url).channel("steps/3");
    const answer = channel.publisher();
    await answer.write("before");
    await answer.flush();
    const seen: string[] = [];
    const reading = (async () => {
      for await (const event of channel.events({ from: "now" })) seen.push(inShort(event));
    })();
    // Once the reader sees the message after the end, it has found the end of the channel.
    await eventually(async () => {
      await answer.write(new Encoded('"after"'));
      await answer.flush();
      expect(seen).toContain('DELTA "after"');
    });
    await answer.end();
    await reading;
    expect([...new Set(seen)]).toEqual(['DELTA "after"', "END null"]);
    expect((await eventsOf(channel, { from: "beginning" })).map(inShort)[1]).toBe('DELTA "before"');
  });
});

test("events arrive once and in order over connections that are cut, with each gap in its place", async () => {
  let cuts = 0;
  const server = await FakeChannelServer.open({ keep: 8, cutAfter: () => (cuts++ % 3) + 1 });
  const channel = openClient(server.url).channel("cut");
  const answer = channel.publisher({ intervalMs: 1 });
  for (const n of numbersTo(12)) void answer.write({ n });
  await answer.end();
  const events = await eventsOf(channel);
  const numbers = events.slice(1).map((event) => event.event === "stream" && event.message.sequence);
  expect(events[0]!.event).toBe("gap");
  expect(numbers).toEqual([6, 7, 8, 9, 10, 11, 12, 13]);
  expect(cuts).toBeGreaterThan(3);
});

test("a reader that waits forever leaves the waiting to the server", async () => {
  const { url, server } = await serverForTest("memory");
  const { fetch, sent } = faultyFetch();
  const channel = openClient(url, { fetch }).channel("late");
  const text = channel.text({ waitMs: Number.POSITIVE_INFINITY });
  await eventually(() => expect(server.tail.readers).toBe(1));
  await openClient(url).channel("late").publisher().end();
  expect(await within(10_000, "the channel", text)).toBe("");
  expect(sent.map(({ url: address }) => new URL(address).search)).toEqual(["?wait=true"]);
});

test("connections that the server ends regularly on a quiet channel are no failures", async () => {
  const { url } = await serverForTest("memory", { tail: { sseMs: 1_100 } });
  const { fetch, sent } = faultyFetch();
  const failures: string[] = [];
  const retries = { minMs: 1, maxMs: 10, onRetry: ({ error }: { error: Error }) => void failures.push(error.message) };
  const publisher = openClient(url).channel("quiet").publisher();
  await publisher.flush();
  const text = openClient(url, { fetch, retries }).channel("quiet").text();
  await eventually(() => expect(sent.length).toBeGreaterThanOrEqual(4), 20_000);
  await publisher.end();
  expect(await text).toBe("");
  expect(failures).toEqual([]);
});
