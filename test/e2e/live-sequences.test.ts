/** Many live readers of one stream under concurrent appends: all of them see the same messages, each once, in the order of the log. */
import { describe, expect, it } from "vitest";
import {
  appended,
  createdStream,
  describeAloneAndShared,
  type EngineName,
  type Fixture,
  nobodyIsLeft,
  serverForTest,
} from "./server.ts";
import { SseClient } from "./sse-client.ts";

const JSON_TYPE = "application/json";

/** Writers that append in their own order, single messages and batches, sometimes more than a page. */
async function write(url: string, writers: number, each: number): Promise<string> {
  const offsets = await Promise.all(
    Array.from({ length: writers }, async (_, writer) => {
      let offset = "";
      for (let i = 0; i < each; i++) {
        const size = i % 10 === 0 ? 40 : 1;
        const batch = Array.from({ length: size }, (_, k) => ({
          writer,
          i,
          k,
          pad: "x".repeat(i % 7 === 0 ? 900 : 10),
        }));
        offset = await appended(url, JSON_TYPE, JSON.stringify(batch));
      }
      return offset;
    }),
  );
  return offsets.sort().at(-1)!;
}

/** The messages of JSON arrays, one per line, because comparing long arrays one by one takes longer than the test. */
const lines = (arrays: readonly string[]): string =>
  arrays
    .map((text) => (JSON.parse(text) as unknown[]).map((message) => `${JSON.stringify(message)}\n`).join(""))
    .join("");

async function wholeLog(url: string, from = "-1"): Promise<string> {
  const pages: string[] = [];
  for (let at = from; ; ) {
    const page = await fetch(`${url}?offset=${at}`);
    pages.push(await page.text());
    at = page.headers.get("stream-next-offset")!;
    if (page.headers.get("stream-up-to-date") === "true") return lines(pages);
  }
}

async function longPollUntil(url: string, last: string, isWritten: () => boolean): Promise<string> {
  const pages: string[] = [];
  for (let at = last; ; ) {
    const response = await fetch(`${url}?offset=${at}&live=long-poll`);
    if (response.status === 200) pages.push(await response.text());
    else expect(response.status).toBe(204);
    at = response.headers.get("stream-next-offset")!;
    if (isWritten() && response.status === 204) return lines(pages);
  }
}

async function open(engine: EngineName): Promise<{ fixture: Fixture; url: string }> {
  // Small pages, so that bursts span several of them; a generous limit, so that no reader counts as slow.
  const fixture = await serverForTest(engine, {
    longPollMs: 300,
    stream: { pageBytes: 4_096 },
    tail: { slowReaderBytes: 64 * 1024 * 1024 },
  });
  return { fixture, url: await createdStream(fixture, "s", JSON_TYPE) };
}

describeAloneAndShared("live readers", (engine) => {
  it("see exactly the log when they were there from the start", async () => {
    const { fixture, url } = await open(engine);
    const clients = await Promise.all(Array.from({ length: 6 }, () => SseClient.open(`${url}?offset=-1&live=sse`)));
    let isWritten = false;
    const poll = longPollUntil(url, "-1", () => isWritten);
    const last = await write(url, 5, 40);
    isWritten = true;
    const log = await wholeLog(url);
    for (const client of clients) {
      await client.upTo(last);
      expect(lines(client.data)).toBe(log);
      client.close();
    }
    expect(await poll).toBe(log);
    await nobodyIsLeft(fixture);
  });

  it("miss nothing and see nothing twice when they join while the log grows, from wherever they start", async () => {
    const { fixture, url } = await open(engine);
    const early = await write(url, 2, 20);
    const middle = (await fetch(`${url}?offset=-1`)).headers.get("stream-next-offset")!;
    const writing = write(url, 4, 40);
    const clients: { client: SseClient; from: string }[] = [];
    for (let i = 0; i < 8; i++) {
      const from = ["-1", middle, early, "now"][i % 4]!;
      clients.push({ client: await SseClient.open(`${url}?offset=${from}&live=sse`), from });
    }
    const last = await writing;
    const logs = new Map<string, string>();
    for (const from of ["-1", middle, early]) logs.set(from, await wholeLog(url, from));
    for (const { client, from } of clients) {
      await client.upTo(last);
      const seen = lines(client.data);
      if (from === "now") expect(`\n${logs.get("-1")}`.endsWith(`\n${seen}`)).toBe(true);
      else expect(seen).toBe(logs.get(from));
      client.close();
    }
    await nobodyIsLeft(fixture);
  });
});

describe("a live reader", () => {
  it("is told after every data event where it stands, and a read from there goes on seamlessly", async () => {
    const { url } = await open("memory");
    const client = await SseClient.open(`${url}?offset=-1&live=sse`);
    const last = await write(url, 2, 20);
    await client.upTo(last);
    client.close();
    const { events } = client;
    const log = (await wholeLog(url)).split(/(?<=\n)/);
    let seen = 0;
    let at = "";
    for (const [i, { event, data }] of events.entries()) {
      if (event === "data") {
        expect(events[i + 1]?.event).toBe("control");
        seen += (JSON.parse(data) as unknown[]).length;
        continue;
      }
      const { streamNextOffset } = JSON.parse(data) as { streamNextOffset: string };
      expect(streamNextOffset >= at).toBe(true);
      at = streamNextOffset;
      if (i % 10 === 1) expect(await wholeLog(url, at)).toBe(log.slice(seen).join(""));
    }
    expect(seen).toBe(log.length);
  });
});
