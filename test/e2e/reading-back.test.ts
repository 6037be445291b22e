/**
 * `?last=N` and `?since=T`: reading from elsewhere than an offset, in every mode and format, on a clock that the test moves. How
 * the position is found is in `streams/positions.test.ts`.
 */
import { describe, expect, it } from "vitest";
import { appInTime } from "./app-in-time.ts";
import { expectProblem } from "./problem.ts";
import { appended, create } from "./server.ts";
import { SseClient } from "./sse-client.ts";

const JSON_TYPE = "application/json";
const MINUTE_MS = 60_000;

/** Ten messages, a minute apart: the last one is as old as the clock. */
async function tenMinutes(headers: Record<string, string> = {}) {
  const on = await appInTime("memory");
  const url = `${on.url}/v1/stream/log`;
  expect((await create(url, { "Content-Type": JSON_TYPE, ...headers })).status).toBe(201);
  const at: number[] = [];
  for (let i = 1; i <= 10; i++) {
    await on.advance(MINUTE_MS);
    at.push(on.now());
    await appended(url, JSON_TYPE, String(i));
  }
  return { ...on, url, at };
}

// biome-ignore lint/suspicious/noExplicitAny: messages are whatever the test expects of them.
async function messagesOf(response: Response): Promise<any[]> {
  expect(response.status).toBe(200);
  expect(response.headers.get("stream-next-offset")).toMatch(/^\d{16}_\d{16}$/);
  return (await response.json()) as never;
}

describe("a read from elsewhere than an offset", () => {
  it("starts with the last so many messages, or with those since a time or a duration", async () => {
    const { url, at } = await tenMinutes();
    const read = async (query: string) => messagesOf(await fetch(`${url}?${query}`));
    expect(await read("last=3")).toEqual([8, 9, 10]);
    expect(await read("last=0")).toEqual([]);
    expect(await read("last=99")).toHaveLength(10);
    expect(await read(`since=${at[6]}`)).toEqual([7, 8, 9, 10]);
    expect(await read(`since=${at[6]! + 1}`)).toEqual([8, 9, 10]);
    expect(await read(`since=${at[9]! + 1}`)).toEqual([]);
    expect(await read("since=0")).toHaveLength(10);
    expect(await read("since=2m")).toEqual([8, 9, 10]);
    expect(await read("since=120s")).toEqual([8, 9, 10]);
    expect(await read("since=1d")).toHaveLength(10);
    const envelopes = await read("last=2&format=envelope");
    expect(envelopes).toMatchObject([
      { payload: 9, publishedAt: at[8] },
      { payload: 10, publishedAt: at[9] },
    ]);
    expect(await read(`offset=${envelopes[0].offset}`)).toEqual([10]);
  });

  it("goes on live from there: SSE and long-poll", async () => {
    const { url } = await tenMinutes();
    const sse = await SseClient.open(`${url}?last=2&live=sse`);
    const polled = await fetch(`${url}?since=0m&live=long-poll`);
    expect(await messagesOf(polled)).toEqual([10]);
    const next = await appended(url, JSON_TYPE, "11");
    await sse.upTo(next);
    sse.close();
    expect(sse.text.match(/\d+(?=\])|(?<=\[)\d+/g)).toEqual(expect.arrayContaining(["9", "10", "11"]));
    expect(sse.text).not.toContain("8");
  });

  it("knows retention and forks", async () => {
    const { url, at } = await tenMinutes({ "Stream-Max-Messages": "5" });
    const kept = await messagesOf(await fetch(url));
    expect(kept.length).toBeLessThan(10);
    expect(await messagesOf(await fetch(`${url}?last=99`))).toEqual(kept);
    expect(await messagesOf(await fetch(`${url}?since=0`))).toEqual(kept);
    const fork = url.replace(/log$/, "fork");
    expect((await create(fork, { "Stream-Forked-From": "log" })).status).toBe(201);
    await appended(fork, JSON_TYPE, "99");
    expect(await messagesOf(await fetch(`${fork}?last=3`))).toEqual([9, 10, 99]);
    expect(await messagesOf(await fetch(`${fork}?since=${at[8]}`))).toEqual([9, 10, 99]);
  });

  it("is refused when it is malformed, given twice, or of a topic or nothing", async () => {
    const { url } = await tenMinutes();
    for (const query of ["last=", "last=-1", "last=1.5", "last=x", "since=", "since=10w", "since=-1", "since=1e3"]) {
      await expectProblem(await fetch(`${url}?${query}`), 400, "bad-query");
    }
    for (const query of ["last=1&offset=-1", "last=1&since=1", "since=1&offset=now", "last=1&last=2"]) {
      await expectProblem(await fetch(`${url}?${query}`), 400, "bad-query");
    }
    await expectProblem(await fetch(`${url}x?last=1`), 404, "stream-not-found");
    const topic = url.replace(/log$/, "topic");
    await create(topic, { "Content-Type": JSON_TYPE, "Stream-Shards": "2" });
    await expectProblem(await fetch(`${topic}?since=1h`), 409, "stream-sharded");
  });
});
