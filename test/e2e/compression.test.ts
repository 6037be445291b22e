/** Compressed answers: large reads, for clients that ask, the same through the lane and through `node:http`. */
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { createdStream, serverForTest } from "./server.ts";

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Without the headers that `fetch` adds by itself. */
function ask(url: string, headers: Record<string, string> = {}, method = "GET"): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url, { method, headers }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("end", () =>
        resolve({ status: answer.statusCode!, headers: answer.headers, body: Buffer.concat(chunks) }),
      );
      answer.on("error", reject);
    });
    sent.on("error", reject).end();
  });
}

const GZIP = { "accept-encoding": "gzip" };
const LARGE = JSON.stringify(Array.from({ length: 400 }, (_, i) => ({ i, text: "the same words again and again" })));

type Body = string | Uint8Array<ArrayBuffer>;

/** The address that reads a stream with this content. */
async function filled(url: string, path: string, contentType: string, body: Body): Promise<string> {
  const stream = await createdStream({ url }, path, contentType);
  expect((await fetch(stream, { method: "POST", headers: { "content-type": contentType }, body })).status).toBe(204);
  return `${stream}?offset=-1`;
}

for (const lane of [true, false]) {
  describe(`an answer ${lane ? "of the lane" : "of node:http"}`, () => {
    it("is compressed if it is large and its client asks, and holds the same bytes", async () => {
      const { url } = await serverForTest("memory", { http: { lane } });
      const read = await filled(url, "a", "application/json", LARGE);
      const plain = await ask(read);
      expect(plain.headers).toMatchObject({ vary: expect.stringContaining("Accept-Encoding") });
      expect(plain.headers["content-encoding"]).toBeUndefined();
      expect(String(plain.body)).toBe(LARGE);
      const small = await ask(read, GZIP);
      expect(small.headers).toMatchObject({
        "content-encoding": "gzip",
        "content-length": String(small.body.length),
        vary: plain.headers.vary,
        etag: `W/${plain.headers.etag}`,
        "stream-next-offset": plain.headers["stream-next-offset"],
      });
      expect(small.body.length).toBeLessThan(LARGE.length / 4);
      expect(String(gunzipSync(small.body))).toBe(LARGE);
    });

    it("is not modified for a client that has it in either encoding, and says so in the same form", async () => {
      const { url } = await serverForTest("memory", { http: { lane } });
      const read = await filled(url, "a", "application/json", LARGE);
      for (const accept of [{}, GZIP]) {
        const etag = (await ask(read, accept)).headers.etag!;
        const again = await ask(read, { ...accept, "if-none-match": etag });
        expect([again.status, again.headers.etag, again.body.length]).toEqual([304, etag, 0]);
      }
    });

    it("stays as it is when it is small, live, binary, or compression is off or not wanted", async () => {
      const { url } = await serverForTest("memory", { http: { lane } });
      const large = await filled(url, "a", "application/json", LARGE);
      const reads: readonly [string, Record<string, string>][] = [
        [await filled(url, "small", "application/json", "[1]"), GZIP],
        [await filled(url, "binary", "application/octet-stream", new Uint8Array(100_000)), GZIP],
        [`${large}&live=long-poll`, GZIP],
        [large, { "accept-encoding": "gzip;q=0, br" }],
      ];
      for (const [read, headers] of reads) {
        const answer = await ask(read, headers);
        expect([read, answer.status, answer.headers["content-encoding"]]).toEqual([read, 200, undefined]);
      }
      const off = await serverForTest("memory", { http: { lane, compress: false } });
      const unwanted = await ask(await filled(off.url, "a", "application/json", LARGE), GZIP);
      expect(unwanted.headers["content-encoding"]).toBeUndefined();
    });

    it("has the same head for HEAD as for GET", async () => {
      const { url } = await serverForTest("memory", { http: { lane } });
      const got = await ask(`${url}/openapi.json`, GZIP);
      const head = await ask(`${url}/openapi.json`, GZIP, "HEAD");
      expect(got.headers["content-encoding"]).toBe("gzip");
      const { date: _, ...rest } = got.headers;
      expect(head.headers).toMatchObject(rest);
    });

    it("goes out as it is when as many as allowed are being compressed, and in order on one connection", async () => {
      const { url } = await serverForTest("memory", { http: { lane }, internal: { http: { compressions: 1 } } });
      const read = await filled(url, "a", "application/json", LARGE);
      const answers = await Promise.all(Array.from({ length: 20 }, () => ask(read, GZIP)));
      const encodings = answers.map(({ headers }) => headers["content-encoding"]);
      expect(encodings).toContain("gzip");
      for (const [i, { body }] of answers.entries()) {
        expect(String(encodings[i] === "gzip" ? gunzipSync(body) : body)).toBe(LARGE);
      }
    });
  });
}
