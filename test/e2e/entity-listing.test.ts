/** The listings of sessions, channels and wake subscriptions: every entry once, in order, page by page. */
import { describe, expect, it } from "vitest";
import { createdStream, serverForTest } from "./server.ts";

interface Page {
  readonly next?: string;
  // biome-ignore lint/suspicious/noExplicitAny: entries are whatever the test expects of them.
  readonly [field: string]: any;
}

async function pages(url: string, field: string, limit: number): Promise<Page[][]> {
  const found: Page[][] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const response = await fetch(`${url}?limit=${limit}${after && `&after=${encodeURIComponent(after)}`}`);
    expect(response.status).toBe(200);
    const page = (await response.json()) as Page;
    found.push(page[field]);
    after = page.next;
  }
  return found;
}

const post = async (url: string, body: object, method = "POST") => {
  const response = await fetch(url, {
    method,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(response.status, await response.text()).toBeLessThan(300);
};

describe("a listing", () => {
  it("of channels tells phase, sequence and kept messages of each, whatever came last", async () => {
    const { url } = await serverForTest("memory", { channel: { rate: 1_000 } });
    const channels = `${url}/v1/default/channels`;
    const message = (phase: string, sequence: number) => ({ phase, sequence });
    await post(`${channels}/c/publish`, message("START", 7));
    await post(`${channels}/a%2F1/publish`, {
      messages: [message("START", 0), message("DELTA", 1), message("END", 2)],
    });
    await post(`${channels}/b/publish`, { messages: [message("START", 0), message("ERROR", 1)] });
    await post(`${channels}/b/stop`, {});
    const listed = await pages(channels, "channels", 2);
    expect(listed.map((page) => page.map(({ lastPublishAt, ...entry }) => entry))).toEqual([
      [
        { channelId: "a/1", phase: "END", sequence: 2, messages: 3 },
        { channelId: "b", phase: "ERROR", sequence: 1, messages: 2 },
      ],
      [{ channelId: "c", phase: "START", sequence: 7, messages: 1 }],
    ]);
    expect(Math.abs(Date.now() - listed[0]![0]!.lastPublishAt)).toBeLessThan(60_000);
  });

  it("of sessions tells when each ends and how many streams it follows", async () => {
    const { url } = await serverForTest("memory");
    for (const path of ["a", "b"]) await createdStream({ url }, path, "text/plain");
    const ids = ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"];
    for (const streamId of ["a", "b"]) await post(`${url}/v1/default/subscribe`, { sessionId: ids[1], streamId });
    await post(`${url}/v1/default/subscribe`, { sessionId: ids[0], streamId: "a" });
    const listed = await pages(`${url}/v1/default/sessions`, "sessions", 1);
    expect(listed.flat().map(({ sessionId, subscriptions }) => [sessionId, subscriptions])).toEqual([
      [ids[0], 1],
      [ids[1], 2],
    ]);
    expect(listed[0]![0]!.expiresAt).toBeGreaterThan(Date.now());
  });

  it("of wake subscriptions shows each as its own address does", async () => {
    const { url } = await serverForTest("memory");
    for (const path of ["a", "wakes"]) await createdStream({ url }, path, "application/json");
    const subscriptions = `${url}/v1/default/stream/__ds/subscriptions`;
    const body = { type: "pull-wake", streams: ["a"], wake_stream: "wakes" };
    for (const id of ["two", "one"]) await post(`${subscriptions}/${id}`, body, "PUT");
    const listed = (await pages(subscriptions, "subscriptions", 1)).flat();
    expect(listed.map(({ id }) => id)).toEqual(["one", "two"]);
    expect(listed[0]).toEqual(await (await fetch(`${subscriptions}/one`)).json());
  });

  it("refuses a limit or an `after` that it cannot take", async () => {
    const { url } = await serverForTest("memory");
    for (const query of ["limit=0", "limit=1001", "limit=x", `after=${"x".repeat(1_025)}`]) {
      const response = await fetch(`${url}/v1/default/channels?${query}`);
      expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([400, "bad-query"]);
    }
  });
});
