import type { ChannelItem } from "@sluice/client";
import { describe, expect, test } from "vitest";
import { eventually } from "../e2e/server.ts";
import { FakeChannelServer } from "./fake-channel-server.ts";
import { chance } from "./faulty-fetch.ts";
import { noUnhandledRejections, numbersTo, openClient, QUICK } from "./open-client.ts";

async function itemsOf(items: AsyncIterable<ChannelItem>): Promise<ChannelItem[]> {
  const all: ChannelItem[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe("publishing on a channel (against a fake server)", () => {
  test("parts written in one turn share one request, from START to END", async () => {
    const server = await FakeChannelServer.open();
    const channel = openClient(server.url).channel("a/b ü");
    const answer = channel.publisher({ start: { model: "m" } });
    void answer.write("Hel");
    void answer.write("lo");
    await answer.end();
    expect(server.requests).toMatchObject([{ status: 202 }]);
    expect(server.messages("a/b ü")).toEqual([
      { phase: "START", payload: { model: "m" }, sequence: 0 },
      { phase: "DELTA", payload: "Hello", sequence: 1 },
      { phase: "END", payload: null, sequence: 2 },
    ]);
    expect(await channel.text()).toBe("Hello");
  });

  test("a stream of tokens stays within the rate and the size limit, and arrives whole", async () => {
    const server = await FakeChannelServer.open();
    const channel = openClient(server.url).channel("tokens");
    const answer = channel.publisher();
    const random = chance(7);
    let text = "";
    for (const n of numbersTo(300)) {
      const token = `${n} ${"ü\u{1f600}".repeat(Math.floor(random() * 60))} `;
      text += token;
      await answer.write(token);
      if (n % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await answer.end();
    expect(server.requests.map(({ status }) => status)).not.toContain(429);
    expect(Math.max(...server.requests.map(({ bytes }) => bytes))).toBeLessThanOrEqual(16_384);
    expect(server.requests.length).toBeLessThan(100);
    expect(await channel.text()).toBe(text);
  });

  test("parts that are not text are messages of their own, in their place", async () => {
    const server = await FakeChannelServer.open();
    const channel = openClient(server.url).channel("parts");
    const answer = channel.publisher();
    const part = { tool: "search" };
    void answer.write("a");
    void answer.write(part);
    part.tool = "changed later";
    void answer.write("b");
    await answer.end({ tokens: 2 });
    const items = await itemsOf(channel.read());
    expect(items.map(({ type }) => type)).toEqual(["start", "delta", "delta", "delta", "end"]);
    expect(items.slice(1)).toMatchObject([
      { payload: "a" },
      { payload: { tool: "search" } },
      { payload: "b" },
      { payload: { tokens: 2 } },
    ]);
  });

  test.each([1, 2])("lost answers, resets and refusals lose and repeat nothing (seed %i)", async (seed) => {
    const random = chance(seed);
    const troubles = ["lose-answer", "reset", 503] as const;
    const server = await FakeChannelServer.open({
      perSecond: 1_000,
      publishTrouble: () => (random() < 0.5 ? troubles[Math.floor(random() * 3)] : undefined),
    });
    const channel = openClient(server.url).channel("troubled");
    const answer = channel.publisher({ intervalMs: 1 });
    for (const n of numbersTo(200)) {
      void answer.write(`${n},`);
      if (random() < 0.2) await new Promise((resolve) => setTimeout(resolve, 2));
    }
    await answer.end();
    expect(server.messages("troubled").map(({ sequence }) => sequence)).toEqual(
      numbersTo(server.messages("troubled").length),
    );
    expect(await channel.text()).toBe(
      numbersTo(200)
        .map((n) => `${n},`)
        .join(""),
    );
  });

  test("a refused rate is retried after the time that the server names", async () => {
    const server = await FakeChannelServer.open({ perSecond: 3 });
    const channel = openClient(server.url).channel("slow");
    const answer = channel.publisher({ intervalMs: 1 });
    for (const n of numbersTo(8)) {
      await answer.write(String(n));
      await answer.flush();
    }
    await answer.end();
    expect(server.requests.some(({ status }) => status === 429)).toBe(true);
    expect(await channel.text()).toBe("01234567");
  });

  test("a server that accepts less than usual gets smaller requests", async () => {
    const server = await FakeChannelServer.open({ requestBytes: 1_000, perSecond: 1_000 });
    const channel = openClient(server.url).channel("small");
    const answer = channel.publisher({ intervalMs: 1 });
    const text = "0123456789ü".repeat(1_000);
    void answer.write(text);
    await answer.end();
    expect(await channel.text()).toBe(text);
  });

  test("a failure is reported by end and by later writes, and never as an unhandled rejection", async () => {
    noUnhandledRejections();
    const server = await FakeChannelServer.open({ publishTrouble: () => "reset" });
    const channel = openClient(server.url, { retries: { ...QUICK, giveUpMs: 50 } }).channel("down");
    const answer = channel.publisher();
    void answer.write("x");
    await expect(answer.end()).rejects.toMatchObject({ code: "unreachable" });
    await expect(answer.write("y")).rejects.toMatchObject({ code: "unreachable" });
    await expect(answer.end()).rejects.toMatchObject({ code: "unreachable" });

    const silent = channel.publisher();
    void silent.write("x");
    void silent.fail(new Error("given up"));
    await eventually(() => expect(silent.flush()).rejects.toMatchObject({ code: "unreachable" }));
  });

  test("an end that cannot be sent is an error, and the answer may be ended otherwise", async () => {
    const server = await FakeChannelServer.open();
    const client = openClient(server.url);
    const answer = client.channel("large").publisher();
    await expect(answer.end({ usage: "x".repeat(20_000) })).rejects.toMatchObject({ code: "invalid-value" });
    await answer.end({ usage: 1 });
    expect(server.messages("large").map(({ phase }) => phase)).toEqual(["START", "END"]);
    const failed = client.channel("failed").publisher();
    await failed.fail(undefined);
    expect(server.messages("failed").map(({ phase, payload }) => [phase, payload])).toEqual([
      ["START", null],
      ["ERROR", "undefined"],
      ["END", null],
    ]);
    const begun = client.channel("begun").publisher({ start: { n: 1n } });
    await expect(begun.write("a")).rejects.toThrow("BigInt");
  });

  test("the queue of a publisher is bounded", async () => {
    noUnhandledRejections();
    const server = await FakeChannelServer.open({ publishTrouble: () => 503 });
    const answer = openClient(server.url).channel("full").publisher({ queueSize: 100 });
    void answer.write("x".repeat(90));
    void answer.write("y".repeat(90));
    await expect(answer.end()).rejects.toMatchObject({ code: "queue-full" });
  });

  test("nothing is written after the end, and a second publisher is refused", async () => {
    const server = await FakeChannelServer.open();
    const channel = openClient(server.url).channel("over");
    const answer = channel.publisher();
    void answer.write("all of it");
    await answer.end();
    await expect(answer.write("more")).rejects.toMatchObject({ code: "closed" });
    const second = channel.publisher();
    void second.write("taken for a repetition otherwise");
    await expect(second.flush()).rejects.toMatchObject({ code: "channel-ended" });
    await expect(second.end()).rejects.toMatchObject({ code: "channel-ended" });
  });

  test("a publish that the server refuses for good is an error without a retry", async () => {
    const server = await FakeChannelServer.open();
    const channel = openClient(server.url).channel("misplaced");
    const answer = channel.publisher();
    await answer.flush();
    server.channels.get("misplaced")!.hasEnded = true;
    void answer.write("too late");
    await expect(answer.end()).rejects.toMatchObject({ code: "phase-conflict", status: 409 });
    expect(server.requests).toHaveLength(2);
  });
});

describe("reading a channel (against a fake server)", () => {
  test("a late reader sees the whole answer, and an early reader sees it grow", async () => {
    const server = await FakeChannelServer.open();
    const channel = openClient(server.url).channel("live");
    const answer = channel.publisher({ intervalMs: 1 });
    await answer.write("one ");
    await answer.flush();
    const seen: unknown[] = [];
    const reading = (async () => {
      for await (const part of channel.read()) if (part.type === "delta") seen.push(part.payload);
    })();
    await eventually(() => expect(seen).toEqual(["one "]));
    await answer.write("two");
    await answer.flush();
    await eventually(() => expect(seen).toEqual(["one ", "two"]));
    const late = channel.text();
    await answer.end();
    await reading;
    expect(await late).toBe("one two");
    await eventually(() => expect(server.openReaders).toBe(0));
  });

  test("connections that break after any number of events lose and repeat nothing", async () => {
    const random = chance(3);
    const server = await FakeChannelServer.open({ perSecond: 10_000, cutAfter: () => Math.floor(random() * 6) });
    const channel = openClient(server.url).channel("cut");
    const answer = channel.publisher({ intervalMs: 1 });
    await answer.flush();
    const reading = itemsOf(channel.read());
    for (const n of numbersTo(60)) {
      await answer.write(`${n},`);
      await answer.flush();
    }
    await answer.end();
    const items = await reading;
    expect(items.map((item) => item.type !== "gap" && item.sequence)).toEqual(numbersTo(items.length));
    const text = items.map((item) => (item.type === "delta" ? item.payload : "")).join("");
    expect(text).toBe(
      numbersTo(60)
        .map((n) => `${n},`)
        .join(""),
    );
  });

  test("a trimmed beginning and a middle trimmed meanwhile are reported in their place", async () => {
    const server = await FakeChannelServer.open({ keep: 5, perSecond: 10_000, cutAfter: () => 2 });
    const channel = openClient(server.url).channel("trimmed");
    const answer = channel.publisher({ intervalMs: 1 });
    for (const n of numbersTo(10)) {
      await answer.write(String(n));
      await answer.flush();
    }
    await expect(channel.text()).rejects.toMatchObject({ code: "incomplete", partial: "" });
    const items: ChannelItem[] = [];
    for await (const item of channel.read()) {
      items.push(item);
      if (items.length === 3) {
        for (const n of numbersTo(10)) {
          await answer.write(String(10 + n));
          await answer.flush();
        }
        await answer.end();
      }
    }
    const shape = items.map((item) => (item.type === "gap" ? "gap" : item.sequence));
    expect(shape).toEqual(["gap", 6, 7, "gap", 17, 18, 19, 20, 21]);
    expect(items[0]).toEqual({ type: "gap", expected: undefined, sequence: 6 });
    expect(items[3]).toEqual({ type: "gap", expected: 8, sequence: 17 });
    const offsetAt = (index: number) => (items[index] as { offset: string }).offset;
    const resumed = await itemsOf(channel.read({ from: offsetAt(5) }));
    expect(resumed).toMatchObject([{ sequence: 19 }, { sequence: 20 }, { type: "end" }]);
    const late = await itemsOf(channel.read({ from: offsetAt(1) }));
    expect(late.slice(0, 2)).toMatchObject([{ type: "gap", expected: undefined, sequence: 17 }, { sequence: 17 }]);
  });

  test("the error of a publisher reaches the reader, together with the text so far", async () => {
    const server = await FakeChannelServer.open();
    const channel = openClient(server.url).channel("failed");
    const answer = channel.publisher();
    void answer.write("so f");
    await answer.fail(new Error("the model went away"));
    await expect(channel.text()).rejects.toMatchObject({
      code: "publisher-failed",
      message: "the model went away",
      partial: "so f",
    });
    const items = await itemsOf(channel.read());
    expect(items.map(({ type }) => type)).toEqual(["start", "delta", "error", "end"]);
  });

  test("a missing channel is an error, or the reader waits for it when asked", async () => {
    const server = await FakeChannelServer.open();
    const channel = openClient(server.url).channel("later");
    await expect(channel.text()).rejects.toMatchObject({ status: 404 });
    const waiting = channel.text({ waitMs: 10_000 });
    setTimeout(() => void channel.publisher().end(), 50);
    expect(await waiting).toBe("");
  });

  test("an abort ends the loop without an error and rejects the text with its reason", async () => {
    noUnhandledRejections();
    const server = await FakeChannelServer.open();
    const channel = openClient(server.url).channel("aborted");
    await channel.publisher().flush();
    const abort = new AbortController();
    const reading = itemsOf(channel.read({ signal: abort.signal }));
    const text = channel.text({ signal: abort.signal });
    await eventually(() => expect(server.openReaders).toBe(2));
    abort.abort(new Error("enough"));
    await expect(text).rejects.toThrow("enough");
    expect((await reading).length).toBeLessThanOrEqual(1);
    await eventually(() => expect(server.openReaders).toBe(0));
  });
});
