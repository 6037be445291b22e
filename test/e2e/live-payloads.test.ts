/** What a payload looks like after a journey through server-sent events, whatever bytes it holds. */
import { beforeAll, describe, expect, it } from "vitest";
import { appended, closeAfterSuite, createdStream, type Fixture, openServer } from "./server.ts";
import { SseClient } from "./sse-client.ts";

const TEXTS: readonly (readonly [string, string])[] = [
  ["a leading space", " leading"],
  ["leading spaces on every line", "  two\n three\n\n    four"],
  ["only a space", " "],
  ["line feeds at both ends", "\n\nmiddle\n\n"],
  ["only a line feed", "\n"],
  ["what looks like an event", "x\n\nevent: control\ndata:{}\n\n"],
  ["what looks like fields", "data: x\nid: 7\nretry: 1\n: comment"],
  ["a colon", ":"],
  ["line separators of JavaScript", "a\u2028b\u2029c\u0085d"],
  ["a byte order mark", "\ufeffmarked"],
  ["NUL and other controls", "a\u0000b\u0001c\u000bd\u000ce\u007ff"],
  ["letters of one to four bytes", "aé€🌊"],
  ["a tab", "\tx"],
];

/** Server-sent events know one kind of line end: these arrive as LF, and unchanged in an envelope or by GET. */
const RETURNS: readonly (readonly [string, string])[] = [
  ["CR", "a\rb"],
  ["CRLF", "a\r\nb"],
  ["CR at the end", "a\r"],
  ["CRLF before what looks like an event", "a\r\n\r\nevent: control\r\n\r\n"],
  ["CR before LF before CR", "a\r\n\rb"],
];

describe("a payload", () => {
  let fixture: Fixture;
  let count = 0;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  /** Sent while one reader is there already, and read by another from the log: the two ways to an event. */
  async function throughSse(
    contentType: string,
    payload: string | Buffer,
    format: string,
  ): Promise<[SseClient, SseClient]> {
    const url = await createdStream(fixture, `s${count++}`, contentType);
    const early = await SseClient.open(`${url}?offset=-1&live=sse&format=${format}`);
    const offset = await appended(url, contentType, payload);
    await early.upTo(offset);
    const late = await SseClient.open(`${url}?offset=-1&live=sse&format=${format}`);
    await late.upTo(offset);
    for (const client of [early, late]) client.close();
    expect(late.data).toEqual(early.data);
    return [early, late];
  }

  it.each([...TEXTS])("of text survives server-sent events exactly: %s", async (_, text) => {
    const [client] = await throughSse("text/plain", text, "raw");
    expect(client.text).toBe(text);
    expect(client.incoming.headers["stream-sse-data-encoding"]).toBeUndefined();
    expect(client.events.map(({ event }) => event)).toEqual(["control", "data", "control"]);
  });

  it.each([...RETURNS])(
    "of text with a carriage return cannot break out of its event, and arrives as lines: %s",
    async (_, text) => {
      const [client] = await throughSse("text/plain", text, "raw");
      expect(client.text).toBe(text.replace(/\r\n|\r/g, "\n"));
      expect(client.events.map(({ event }) => event)).toEqual(["control", "data", "control"]);
    },
  );

  it.each([...TEXTS, ...RETURNS])("of text survives in an envelope exactly: %s", async (_, text) => {
    const [client] = await throughSse("text/plain", text, "envelope");
    const [envelope] = JSON.parse(client.text) as [{ payload: string; encoding?: string }];
    expect(envelope.payload).toBe(text);
    expect(envelope.encoding).toBeUndefined();
  });

  it.each([
    ["every byte", Buffer.from(Array.from({ length: 256 }, (_, i) => i))],
    ["one byte", Buffer.of(0)],
    ["two bytes", Buffer.of(13, 10)],
    ["more than one piece of the encoder", Buffer.alloc(100_001, "\u0000\r\n\u00ffabc", "latin1")],
  ])("of any other type comes as base64: %s", async (_, bytes) => {
    const [client] = await throughSse("application/octet-stream", bytes, "raw");
    expect(client.incoming.headers["stream-sse-data-encoding"]).toBe("base64");
    expect(Buffer.from(client.text, "base64").equals(bytes)).toBe(true);
    const [enveloped] = await throughSse("image/png", bytes, "envelope");
    expect(enveloped.incoming.headers["stream-sse-data-encoding"]).toBeUndefined();
    const [envelope] = JSON.parse(enveloped.text) as [{ payload: string; encoding: string }];
    expect(envelope.encoding).toBe("base64");
    expect(Buffer.from(envelope.payload, "base64").equals(bytes)).toBe(true);
  });

  it.each([
    ["an object over several lines", '{\r\n  "a": [1,\n 2],\r "b": "x"\n}'],
    ["strings with escaped line ends", '"\\r\\n\\u2028\\u0000"'],
    ["a string with raw separators", '"a\u2028b"'],
    ["numbers beyond doubles", '{"n":12345678901234567890.123456789012345678901234567890}'],
  ])("of JSON survives as JSON: %s", async (_, json) => {
    const [client] = await throughSse("application/json", json, "raw");
    expect(JSON.parse(client.text)).toEqual([JSON.parse(json)]);
    const digits = json.match(/\d{15,}[.\d]*/)?.[0];
    if (digits) expect(client.text).toContain(digits);
  });

  it("of JSON with a byte order mark is refused: it would spoil every later read", async () => {
    const url = await createdStream(fixture, "marked", "application/json");
    const response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: "\ufeff[1]",
    });
    expect(response.status).toBe(400);
    await appended(url, "application/json", "[2]");
    expect(await (await fetch(url)).json()).toEqual([2]);
  });

  it("of every type is also what long-poll and GET answer", async () => {
    for (const [contentType, body, expected] of [
      ["text/plain", " a\r\n\u2028", " a\r\n\u2028"],
      ["application/json", "[1, [2]]", "[1,[2]]"],
      ["application/octet-stream", "\r\n\u0000", "\r\n\u0000"],
    ] as const) {
      const url = await createdStream(fixture, `s${count++}`, contentType);
      const poll = fetch(`${url}?offset=now&live=long-poll`);
      const early = fetch(`${url}?offset=-1&live=long-poll`);
      await appended(url, contentType, body);
      for (const response of [await poll, await early, await fetch(url)]) {
        if (response.status === 204) continue;
        expect(response.headers.get("content-type")).toBe(contentType);
        expect(await response.text()).toBe(expected);
      }
    }
  });
});
