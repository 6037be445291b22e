/** The client's channels against the real server, on every engine: the proof that the fake server and the real one agree. */
import type { ChannelItem } from "@sluice/client";
import { expect, test } from "vitest";
import { describeOnEngines, serverForTest } from "../e2e/server.ts";
import { noUnhandledRejections, openClient } from "./open-client.ts";

function offsetOf(item: ChannelItem): string {
  if (item.type === "gap") throw new Error("nothing is missing here");
  return item.offset;
}

describeOnEngines("a channel over the client", (engine) => {
  test("is written token by token and read by an early, a late and a returning reader", async () => {
    noUnhandledRejections();
    const { url } = await serverForTest(engine, { internal: { channel: { heartbeatMs: 5 } } });
    const channel = openClient(url).channel("answer:1");
    const answer = channel.publisher({ start: { model: "m" } });
    await answer.write("Hel");
    const early = channel.text({ waitMs: 10_000 });
    const seen: ChannelItem[] = [];
    const reading = (async () => {
      for await (const item of channel.read({ waitMs: 10_000 })) seen.push(item);
    })();
    for (const token of ["lo", " ", "wor", "ld"]) await answer.write(token);
    await answer.end();
    await reading;
    expect(await early).toBe("Hello world");
    expect(await channel.text()).toBe("Hello world");
    expect(seen.at(0)).toMatchObject({ type: "start", payload: { model: "m" } });
    expect(seen.at(-1)).toMatchObject({ type: "end" });
    const middle: ChannelItem[] = [];
    for await (const item of channel.read({ from: offsetOf(seen[0]!) })) middle.push(item);
    expect(middle).toEqual(seen.slice(1));
  });

  test("that has ended has nothing more for a reader that has seen its END", async () => {
    noUnhandledRejections();
    const { url } = await serverForTest(engine);
    const channel = openClient(url).channel("over");
    const answer = channel.publisher();
    await answer.write("done");
    await answer.end();
    let last: string | undefined;
    for await (const item of channel.read()) last = offsetOf(item);
    const more: ChannelItem[] = [];
    for await (const item of channel.read({ from: last! })) more.push(item);
    expect(more).toEqual([]);
  });

  test("refuses a second publisher, whose answer differs from the first one, before and after END", async () => {
    noUnhandledRejections();
    const { url } = await serverForTest(engine);
    const channel = openClient(url).channel("taken");
    const first = channel.publisher();
    await first.write("A");
    await first.flush();
    const second = channel.publisher();
    await second.write("B");
    await expect(second.flush()).rejects.toMatchObject({ status: 409, code: "channel-sequence" });
    await first.end();
    const third = channel.publisher();
    await third.write("C");
    await expect(third.end()).rejects.toMatchObject({ status: 409, code: "channel-ended" });
    expect(await channel.text()).toBe("A");
  });

  test("that fails reports why, and ends", async () => {
    noUnhandledRejections();
    const { url } = await serverForTest(engine);
    const channel = openClient(url).channel("failing");
    const answer = channel.publisher();
    await answer.write("half");
    await answer.fail("the model has gone");
    const seen: ChannelItem[] = [];
    for await (const item of channel.read()) seen.push(item);
    expect(seen.map(({ type }) => type)).toEqual(["start", "delta", "error", "end"]);
  });
});
