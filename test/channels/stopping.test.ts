/** Stopping a publisher over HTTP: the answers of later publishes, and the events of followers, on one node and on two. */
import { expect, it } from "vitest";
import { describeAloneAndShared } from "../e2e/server.ts";
import { Reader, readAll } from "./reader.ts";
import { START, stage } from "./stage.ts";

const stop = (address: string, body?: object) =>
  fetch(`${address}/stop`, { method: "POST", ...(body && { body: JSON.stringify(body) }) });
const codeAt = async (response: Response) => [response.status, ((await response.json()) as { code: string }).code];

describeAloneAndShared("A request to stop", (engine) => {
  it("reaches followers once and in its place, and the publisher with its next answer; END is the publisher's", async () => {
    const { channel } = await stage(engine);
    const a = channel("a");
    await a.takes(START);
    const early = await Reader.open(a.events);
    const only = await fetch(`${a.events}?from=now&only=stop`);
    expect((await stop(a.address, { reason: "enough" })).status).toBe(202);
    expect((await stop(a.address)).status).toBe(202);
    expect((await a.send("DELTA", 1, "x")).body).toMatchObject({ sequence: 1, stop: { reason: "enough" } });
    // A listener that comes later gets it first.
    const later = await fetch(`${a.events}?from=now&only=stop`);
    await a.takes({ phase: "END", sequence: 2 });
    await early.untilEnded();
    expect(early.sequences).toEqual([0, 1, 2]);
    const late = await (await fetch(a.events)).text();
    expect(late.match(/^event: \w+/gm)).toEqual(["stream", "stop", "stream", "stream"].map((name) => `event: ${name}`));
    expect(late).toContain('data: {"channelId":"a","reason":"enough"}\n');
    for (const listener of [only, later]) {
      expect((await listener.text()).match(/^event: \w+/gm)).toEqual(["event: stop"]);
    }
    expect((await readAll(a.events)).sequences).toEqual([0, 1, 2]);
  });

  it("is refused for a channel that is not there or has ended, and when its body is wrong", async () => {
    const { channel } = await stage(engine);
    const a = channel("a");
    expect(await codeAt(await stop(a.address))).toEqual([404, "channel-not-found"]);
    await a.takes(START);
    expect(await codeAt(await stop(a.address, { why: 1 }))).toEqual([400, "bad-body"]);
    expect(await codeAt(await stop(a.address, { reason: "é".repeat(600) }))).toEqual([400, "bad-body"]);
    expect(await codeAt(await fetch(`${a.events}?only=start`))).toEqual([400, "bad-query"]);
    await a.takes({ phase: "END", sequence: 1 });
    expect(await codeAt(await stop(a.address))).toEqual([409, "channel-ended"]);
  });
});
