import { Encoded, type PageOptions, type Stream } from "@sluice/client";
import { beforeAll, describe, expect, test } from "vitest";
import { closeAfterSuite, type Fixture, nobodyIsLeft, openServer, within } from "../e2e/server.ts";
import { chance, faultyFetch } from "./faulty-fetch.ts";
import { numbersTo, openClient } from "./open-client.ts";

let names = 0;
const freshPath = () => `client/pages-${names++}`;

interface Read {
  readonly bytes: Buffer;
  readonly pages: number;
  readonly gaps: string[];
}

async function read(stream: Stream, options: PageOptions = {}): Promise<Read> {
  const pieces: Uint8Array[] = [];
  const gaps: string[] = [];
  for await (const page of stream.pages(options)) {
    if (page.type === "gap") gaps.push(page.reason);
    else pieces.push(page.bytes);
  }
  return { bytes: Buffer.concat(pieces), pages: pieces.length, gaps };
}

describe("pages", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory", { stream: { pageBytes: 1_000 }, longPollMs: 200 });
  });
  closeAfterSuite(() => fixture);

  test("are the bytes that were appended, once and in order, over connections that break anywhere", async () => {
    const random = chance(11);
    const { fetch } = faultyFetch(({ method }) => {
      if (method !== "GET" || random() < 0.3) return undefined;
      if (random() < 0.3) return { kind: "answer", status: 503, headers: { "Retry-After": "0" } };
      return { kind: "cut-body", afterBytes: Math.floor(random() * 900) };
    });
    const path = freshPath();
    const stream = openClient(fixture.url).stream(path, { contentType: "application/octet-stream" });
    await stream.create();
    const live = read(openClient(fixture.url, { fetch }).stream(path), { live: true });
    const appended: Uint8Array[] = [];
    for (const n of numbersTo(60)) {
      const bytes = Uint8Array.from({ length: 1 + Math.floor(random() * 300) }, () => Math.floor(random() * 256));
      appended.push(bytes);
      await stream.append(bytes);
      if (n === 30) await new Promise((resolve) => setTimeout(resolve, 300));
    }
    await stream.close();
    const { bytes, pages, gaps } = await within(20_000, "the end of the stream", live);
    expect(Buffer.compare(bytes, Buffer.concat(appended))).toBe(0);
    expect(gaps).toEqual([]);
    expect(pages).toBeGreaterThan(5);
    expect(Buffer.compare((await read(stream)).bytes, bytes)).toBe(0);
    await nobodyIsLeft(fixture);
  });

  test("of JSON are its text, digit by digit, or envelopes when asked", async () => {
    const stream = openClient(fixture.url).stream(freshPath());
    await stream.append(new Encoded('12345678901234567890,{"a": 1.50}'.replace(/^|$/g, (_, at) => (at ? "]" : "["))));
    expect((await read(stream)).bytes.toString()).toBe('[12345678901234567890,{"a": 1.50}]');
    const envelopes = JSON.parse((await read(stream, { format: "envelope" })).bytes.toString());
    expect(envelopes).toMatchObject([{ offset: expect.any(String) }, { payload: { a: 1.5 } }]);
  });

  test("name the offset to resume from, also when they are empty", async () => {
    const stream = openClient(fixture.url).stream(freshPath());
    const { offset } = await stream.append(1);
    for await (const page of stream.pages({ from: "now" })) {
      expect(page).toMatchObject({ type: "page", offset });
      if (page.type === "page") expect(Buffer.from(page.bytes).toString()).toBe("[]");
    }
    await stream.append(2);
    expect((await read(stream, { from: offset })).bytes.toString()).toBe("[2]");
  });

  test("that retention has trimmed become a gap, and reading resumes behind it", async () => {
    const stream = openClient(fixture.url).stream(freshPath());
    await stream.create({ maxMessages: 5 });
    const { offset } = await stream.append(0);
    for (const n of numbersTo(50)) await stream.append(n);
    const { gaps, bytes } = await read(stream, { from: offset });
    expect(gaps).toEqual(["trimmed"]);
    expect((JSON.parse(bytes.toString()) as number[]).at(-1)).toBe(49);
  });

  test("read from now on miss nothing although the first wait fails", async () => {
    const path = freshPath();
    const writer = openClient(fixture.url).stream(path);
    await writer.append("before");
    let isFirst = true;
    const fetch: typeof globalThis.fetch = async (input, init) => {
      if (isFirst && String(input).includes("live=")) {
        isFirst = false;
        await writer.append("during");
        throw new TypeError("connection refused by the test");
      }
      return globalThis.fetch(input, init);
    };
    const stream = openClient(fixture.url, { fetch }).stream(path);
    for (const live of [true, "long-poll"] as const) {
      isFirst = true;
      const first = async () => {
        const reading = live === true ? stream.pages({ from: "now", live }) : stream.read({ from: "now", live });
        for await (const item of reading) {
          if (item.type === "message") return item.value;
          if (item.type === "page" && item.bytes.length > 2) return JSON.parse(Buffer.from(item.bytes).toString())[0];
        }
      };
      expect(await within(10_000, "what was appended meanwhile", first())).toBe("during");
    }
  });
});
