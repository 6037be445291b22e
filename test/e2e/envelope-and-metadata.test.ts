/**
 * `?format=envelope` in every way of reading, and the metadata that a message carries: key, id, attributes. Only storing the
 * metadata is an engine's part, so only that runs on every engine.
 */
import { beforeAll, describe, expect, it } from "vitest";
import { expectProblem } from "./problem.ts";
import {
  append,
  appended,
  closeAfterSuite,
  createdStream,
  describeOnEngines,
  type Fixture,
  openServer,
  serverForTest,
} from "./server.ts";
import { SseClient } from "./sse-client.ts";

interface Envelope {
  readonly offset: string;
  readonly payload: unknown;
  readonly contentType: string;
  readonly encoding?: string;
  readonly publishedAt: number;
  readonly id?: string;
  readonly key?: string;
  readonly attributes?: Record<string, string>;
}

const TYPES = [
  ["application/json", '{"a": [1, 2]}', { a: [1, 2] }, undefined],
  ["application/vnd.thing+json; v=1", '"text"', "text", undefined],
  ["text/plain", "plain é", "plain é", undefined],
  ["text/html; charset=utf-8", "<p>\r\n", "<p>\r\n", undefined],
  ["application/octet-stream", "\u0000\u0001", Buffer.from("\u0000\u0001").toString("base64"), "base64"],
] as const;

describe("an envelope", () => {
  let fixture: Fixture;
  let count = 0;
  beforeAll(async () => {
    fixture = await openServer("memory", { longPollMs: 5_000 });
  });
  closeAfterSuite(() => fixture);

  it.each(TYPES)(
    "tells offset, type, time and payload in every way of reading: %s",
    async (contentType, body, payload, encoding) => {
      const url = await createdStream(fixture, `s${count++}`, contentType);
      const before = Date.now();
      const first = await appended(url, contentType, body);
      const read = `${url}?offset=-1&format=envelope`;
      const sse = await SseClient.open(`${read}&live=sse`);
      await sse.upTo(first);
      const poll = fetch(`${url}?offset=${first}&format=envelope&live=long-poll`);
      const second = await appended(url, contentType, body);
      await sse.upTo(second);
      sse.close();

      const got = await fetch(read);
      const caughtUp = await fetch(`${read}&live=long-poll`);
      const polled = await poll;
      for (const response of [got, caughtUp, polled]) {
        expect(response.status).toBe(200);
        expect(response.headers.get("content-type")).toBe("application/json");
        expect(response.headers.get("stream-next-offset")).toBe(second);
      }
      expect(sse.incoming.headers["stream-sse-data-encoding"]).toBeUndefined();

      const envelopes = (await got.json()) as Envelope[];
      expect(envelopes.map(({ offset }) => offset)).toEqual([first, second]);
      for (const envelope of envelopes) {
        expect(Object.keys(envelope).sort()).toEqual(
          ["contentType", "offset", "payload", "publishedAt", ...(encoding ? ["encoding"] : [])].sort(),
        );
        expect(envelope).toMatchObject({ payload, contentType, ...(encoding ? { encoding } : {}) });
        expect(envelope.publishedAt).toBeGreaterThanOrEqual(before);
        expect(envelope.publishedAt).toBeLessThanOrEqual(Date.now());
      }
      expect(await caughtUp.json()).toEqual(envelopes);
      expect(await polled.json()).toEqual(envelopes.slice(1));
      expect(sse.data.flatMap((data) => JSON.parse(data) as Envelope[])).toEqual(envelopes);
    },
  );

  it("is an empty array where there are no messages, and nothing at the tail of a closed stream", async () => {
    const url = await createdStream(fixture, `s${count++}`, "text/plain");
    for (const offset of ["-1", "now"]) {
      const response = await fetch(`${url}?offset=${offset}&format=envelope`);
      expect(response.headers.get("content-type")).toBe("application/json");
      expect(await response.json()).toEqual([]);
    }
    await append(url, "text/plain", "x", { "Stream-Closed": "true" });
    const poll = await fetch(`${url}?offset=now&format=envelope&live=long-poll`);
    expect([poll.status, await poll.text()]).toEqual([204, ""]);
  });

  it("tells the offset from which a plain read goes on, message by message", async () => {
    const url = await createdStream(fixture, `s${count++}`, "application/json");
    await appended(url, "application/json", "[0,1,2,3,4]");
    const envelopes = (await (await fetch(`${url}?format=envelope`)).json()) as Envelope[];
    for (const [i, { offset, payload }] of envelopes.entries()) {
      expect(payload).toBe(i);
      expect(await (await fetch(`${url}?offset=${offset}`)).json()).toEqual([0, 1, 2, 3, 4].slice(i + 1));
    }
  });

  it("has an ETag of its own", async () => {
    const url = await createdStream(fixture, `s${count++}`, "application/json");
    await appended(url, "application/json", "[1]");
    const [raw, envelope] = [await fetch(url), await fetch(`${url}?format=envelope`)];
    const etag = envelope.headers.get("etag")!;
    expect(etag).not.toBe(raw.headers.get("etag"));
    expect((await fetch(`${url}?format=envelope`, { headers: { "If-None-Match": etag } })).status).toBe(304);
    expect((await fetch(url, { headers: { "If-None-Match": etag } })).status).toBe(200);
    for (const known of [`"other", ${etag}`, `W/${etag}`, "*"]) {
      expect((await fetch(`${url}?format=envelope`, { headers: { "If-None-Match": known } })).status, known).toBe(304);
    }
    for (const known of ['"other"', etag.slice(1, -1), ""]) {
      expect((await fetch(`${url}?format=envelope`, { headers: { "If-None-Match": known } })).status, known).toBe(200);
    }
  });

  it("is the only other format", async () => {
    const url = await createdStream(fixture, `s${count++}`, "text/plain");
    expect((await fetch(`${url}?format=raw`)).status).toBe(200);
    for (const live of ["", "&live=sse", "&live=long-poll"]) {
      const response = await fetch(`${url}?offset=-1&format=xml${live}`);
      expect((await expectProblem(response, 400, "bad-query")).detail).toContain("format");
    }
  });
});

async function envelopesOf(url: string): Promise<Envelope[]> {
  return (await (await fetch(`${url}?offset=-1&format=envelope`)).json()) as Envelope[];
}

describeOnEngines("stored metadata", (engine) => {
  it("comes back with the message that it was sent with, and with no other", async () => {
    const url = await createdStream(await serverForTest(engine), "s", "text/plain");
    const sent = String.raw`{"":"empty name","a\nb":"\" and \\","\u00e9":"\ud83c\udf0a","__proto__":"x","toString":"y"}`;
    await appended(url, "text/plain", "1", { "Message-Key": "k 1", "Message-Id": "id/1", "Message-Attributes": sent });
    await appended(url, "text/plain", "2");
    await appended(url, "text/plain", "3", { "Message-Key": "caf\u00e9" });
    await appended(url, "text/plain", "4", { "Message-Attributes": "{}" });
    const [first, second, third, fourth] = await envelopesOf(url);
    expect(first).toMatchObject({ key: "k 1", id: "id/1" });
    expect(JSON.stringify(first!.attributes)).toBe(JSON.stringify(JSON.parse(sent)));
    expect(second).not.toHaveProperty("key");
    expect(second).not.toHaveProperty("id");
    expect(second).not.toHaveProperty("attributes");
    expect(third!.key).toBe("caf\u00e9");
    expect(fourth!.attributes ?? {}).toEqual({});
    // A plain read does not show it.
    expect(await (await fetch(url)).text()).toBe("1234");
  });
});

describe("metadata", () => {
  let fixture: Fixture;
  let count = 0;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  it("belongs to each message of a batch", async () => {
    const url = await createdStream(fixture, `s${count++}`, "application/json");
    await appended(url, "application/json", "[1,2,3]", { "Message-Key": "all", "Message-Attributes": '{"a":"b"}' });
    const envelopes = await envelopesOf(url);
    expect(envelopes.map(({ payload, key, attributes }) => [payload, key, attributes])).toEqual(
      [1, 2, 3].map((n) => [n, "all", { a: "b" }]),
    );
  });

  it("comes back through a fork", async () => {
    const url = await createdStream(fixture, `s${count++}`, "text/plain");
    await appended(url, "text/plain", "1", {
      "Message-Key": "k",
      "Message-Id": "i",
      "Message-Attributes": '{"a":"b"}',
    });
    const fork = await createdStream(fixture, `s${count++}`, "text/plain", {
      "Stream-Forked-From": new URL(url).pathname,
    });
    expect(await envelopesOf(fork)).toEqual(await envelopesOf(url));
  });

  it.each([
    ["Message-Key", "", "of nothing"],
    ["Message-Key", "k".repeat(1_025), "too long"],
    ["Message-Key", "\u00e9".repeat(513), "too long in UTF-8"],
    ["Message-Id", "", "of nothing"],
    ["Message-Id", "i".repeat(513), "too long"],
    ["Message-Attributes", "", "of nothing"],
    ["Message-Attributes", "{", "not JSON"],
    ["Message-Attributes", "null", "no object"],
    ["Message-Attributes", '["a"]', "an array"],
    ["Message-Attributes", '"text"', "a string"],
    ["Message-Attributes", '{"a":1}', "a number in it"],
    ["Message-Attributes", '{"a":null}', "null in it"],
    ["Message-Attributes", '{"a":{}}', "an object in it"],
    ["Message-Attributes", JSON.stringify({ a: "x".repeat(4_096 - 7) }), "too long"],
  ])("is refused by its header's name when it is malformed: %s %#", async (name, value) => {
    const url = await createdStream(fixture, `s${count++}`, "text/plain");
    const refused = await append(url, "text/plain", "x", { [name]: value });
    expect((await expectProblem(refused, 400, "bad-header")).detail).toContain(name);
    expect(await (await fetch(url)).text()).toBe("");
  });

  it("is taken at its greatest length, all of it at once", async () => {
    const url = await createdStream(fixture, `s${count++}`, "text/plain");
    const attributes = JSON.stringify({ a: "x".repeat(4_096 - 8) });
    expect(attributes.length).toBe(4_096);
    const headers = {
      "Message-Key": "k".repeat(1_024),
      "Message-Id": "i".repeat(512),
      "Message-Attributes": attributes,
    };
    await appended(url, "text/plain", "x", headers);
    const [envelope] = await envelopesOf(url);
    expect(envelope!.key).toBe(headers["Message-Key"]);
    expect(envelope!.id).toBe(headers["Message-Id"]);
    expect(JSON.stringify(envelope!.attributes)).toBe(attributes);
  });
});
