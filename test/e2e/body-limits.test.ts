/**
 * How much a client may send: bodies, paths and headers, each with its limit and what happens just below and just beyond it. What
 * an engine has to store at the very limit runs on every engine; refusals run on one.
 */
import { beforeAll, describe, expect, it } from "vitest";
import { checkProblem, expectProblem } from "./problem.ts";
import { exchange, RawConnection, type RawResponse } from "./raw-http.ts";
import {
  append,
  appended,
  closeAfterSuite,
  create,
  createdStream,
  describeOnMemory,
  type Fixture,
  openServer,
  serverForTest,
} from "./server.ts";

const LIMIT = 8 * 1024 * 1024;
const BINARY = "application/octet-stream";
const JSON_TYPE = "application/json";

/** A JSON array of that many messages of one byte. */
const tiny = (count: number) => `[${"7,".repeat(count - 1)}7]`;

describeOnMemory("a body", (engine) => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer(engine);
  });
  closeAfterSuite(() => fixture);

  it("of exactly the limit in bytes is taken, and read back byte by byte", async () => {
    const url = await createdStream(fixture, "exact", BINARY);
    const body = Buffer.alloc(LIMIT, "0123456789");
    await appended(url, BINARY, body);
    const read = await fetch(`${url}?offset=-1`);
    expect(read.headers.get("stream-up-to-date")).toBe("true");
    expect(Buffer.from(await read.arrayBuffer()).equals(body)).toBe(true);
  });

  it("of a hundred thousand tiny messages is taken, and read back page by page", async () => {
    const url = await createdStream(fixture, "crowd", JSON_TYPE);
    const offset = await appended(url, JSON_TYPE, tiny(100_000));
    let read = 0;
    for (let at = "-1"; at !== offset; ) {
      const page = await fetch(`${url}?offset=${at}`);
      expect(page.status).toBe(200);
      read += ((await page.json()) as number[]).length;
      at = page.headers.get("stream-next-offset")!;
    }
    expect(read).toBe(100_000);
  });
});

describe("a body beyond a limit", () => {
  it("of one byte more is refused with the limit, for POST and PUT, and nothing is stored", async () => {
    const url = await createdStream(await serverForTest("memory"), "beyond", BINARY);
    const body = Buffer.alloc(LIMIT + 1);
    expect((await expectProblem(await append(url, BINARY, body), 413, "too-large")).detail).toContain(String(LIMIT));
    await expectProblem(await create(`${url}-new`, { "Content-Type": BINARY }, body), 413, "too-large");
    expect((await fetch(url)).headers.get("content-length")).toBe("0");
    await expectProblem(await fetch(`${url}-new`), 404, "stream-not-found");
  });

  it("of more than a hundred thousand messages is refused with the limit, however many there are", async () => {
    const url = await createdStream(await serverForTest("memory"), "crowd", JSON_TYPE);
    const refused = await append(url, JSON_TYPE, tiny(100_001));
    expect((await expectProblem(refused, 413, "too-large")).detail).toContain("100000 messages");
    await expectProblem(await append(url, JSON_TYPE, tiny(4_000_000)), 413, "too-large");
  });
});

describe("a body that is too large", () => {
  let fixture: Fixture;
  let head: string;
  beforeAll(async () => {
    fixture = await openServer("memory", { stream: { bodyBytes: 100_000 } });
    await createdStream(fixture, "s", BINARY);
    head = `POST /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${BINARY}\r\n`;
  });
  closeAfterSuite(() => fixture);

  const refused = (answer: RawResponse | "closed") => {
    const problem = checkProblem(answer as RawResponse);
    expect(problem).toMatchObject({ status: 413, code: "too-large" });
    expect(problem.detail).toContain("100000 bytes");
  };

  it("is refused by the length it announces, before any of it has come", async () => {
    const connection = await RawConnection.open(fixture.port);
    connection.send(`${head}Content-Length: 1000000000\r\n\r\n`);
    refused(await connection.answer("POST"));
    // The rest is not waited for: the connection ends although a gigabyte is outstanding.
    await connection.untilClosed();
  });

  it("is refused at once when it comes slowly", async () => {
    const connection = await RawConnection.open(fixture.port);
    connection.send(`${head}Content-Length: 1000000000\r\n\r\n`);
    const trickle = setInterval(() => connection.send("x"), 10);
    refused(await connection.answer("POST"));
    await connection.untilClosed();
    clearInterval(trickle);
  });

  it("without a length is cut right after the limit", async () => {
    const connection = await RawConnection.open(fixture.port);
    connection.send(`${head}Transfer-Encoding: chunked\r\n\r\n`);
    const chunk = `2710\r\n${"x".repeat(10_000)}\r\n`;
    for (let i = 0; i < 10; i++) connection.send(chunk);
    connection.send("1\r\nx\r\n");
    // 100,001 bytes, and no end of the body in sight.
    refused(await connection.answer("POST"));
    await connection.untilClosed();
  });

  it("is not read on while its client keeps sending", async () => {
    const connection = await RawConnection.open(fixture.port);
    connection.send(`${head}Transfer-Encoding: chunked\r\n\r\n`);
    const chunk = Buffer.from(`10000\r\n${"x".repeat(0x10000)}\r\n`);
    let sent = 0;
    while (!connection.ended && !connection.socket.destroyed) {
      connection.send(chunk);
      sent += chunk.length;
      await new Promise((resolve) => setTimeout(resolve, 1));
      expect(sent, "bytes sent before the server hung up").toBeLessThan(500_000_000);
    }
    await connection.closed;
    expect((await fetch(`${fixture.url}/v1/stream/s`)).headers.get("content-length")).toBe("0");
  });

  it("without a length is taken up to the very limit", async () => {
    const connection = await RawConnection.open(fixture.port);
    await createdStream(fixture, "chunked", BINARY);
    connection.send(`${head.replace("/s ", "/chunked ")}Transfer-Encoding: chunked\r\n\r\n`);
    for (let i = 0; i < 10; i++) connection.send(`2710\r\n${"x".repeat(10_000)}\r\n`);
    connection.send("0\r\n\r\n");
    expect(await connection.answer("POST")).toMatchObject({ status: 204 });
    connection.destroy();
  });

  it("is never asked for when its client waits for 100-continue", async () => {
    const connection = await RawConnection.open(fixture.port);
    connection.send(`${head}Content-Length: 100001\r\nExpect: 100-continue\r\n\r\n`);
    const text = (await connection.untilClosed()).toString();
    expect(text).toMatch(/^HTTP\/1\.1 413 /);
    expect(text).not.toContain("100 Continue");
  });

  it("does not keep a small one from being asked for", async () => {
    const connection = await RawConnection.open(fixture.port);
    connection.send(`${head}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n`);
    await new Promise<void>((resolve) => connection.socket.once("data", () => resolve()));
    connection.send("small");
    expect(await connection.answer("POST")).toMatchObject({ status: 204 });
    connection.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(await connection.answer()).toMatchObject({ status: 200 });
    connection.destroy();
  });
});

describeOnMemory("a path", (engine) => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer(engine);
  });
  closeAfterSuite(() => fixture);

  it.each([
    ["ASCII", "p".repeat(1_024), "p".repeat(1_025)],
    ["two bytes a character", "é".repeat(512), `${"é".repeat(512)}x`],
    ["four bytes a character", "🌊".repeat(256), `${"🌊".repeat(256)}x`],
    ["many levels", "a/".repeat(512), `${"a/".repeat(512)}b`],
  ])("may have 1,024 bytes and no more: %s", async (_, longest, longer) => {
    const url = await createdStream(fixture, encodeURIComponent(longest), "text/plain");
    await appended(url, "text/plain", "deep");
    expect(await (await fetch(url)).text()).toBe("deep");
    const listed = await fetch(`${fixture.url}/v1/streams?prefix=${encodeURIComponent(longest)}`);
    expect(((await listed.json()) as { streams: { path: string }[] }).streams.map(({ path }) => path)).toEqual([
      longest,
    ]);
    expect((await fetch(url, { method: "DELETE" })).status).toBe(204);

    for (const method of ["PUT", "POST", "GET", "HEAD", "DELETE"]) {
      const response = await fetch(`${fixture.url}/v1/stream/${encodeURIComponent(longer)}`, {
        method,
        headers: { "Content-Type": "text/plain" },
      });
      if (method === "HEAD") expect(response.status).toBe(400);
      else expect((await expectProblem(response, 400, "bad-path")).detail).toContain("1024 bytes");
    }
  });

  it("and a project of the greatest length work together, with every name that a stream keeps", async () => {
    const project = "p".repeat(128);
    const url = `${fixture.url}/v1/${project}/stream/${"s".repeat(1_024)}`;
    expect((await create(url, { "Content-Type": "text/plain", "Stream-TTL": "3600" })).status).toBe(201);
    const longest = { "Producer-Id": "i".repeat(512), "Producer-Epoch": "0", "Producer-Seq": "0" };
    expect((await append(url, "text/plain", "x", { ...longest, "Stream-Seq": "q".repeat(1_024) })).status).toBe(200);
    const fork = `${fixture.url}/v1/${project}/stream/${"f".repeat(1_024)}`;
    expect((await create(fork, { "Stream-Forked-From": `/v1/${project}/stream/${"s".repeat(1_024)}` })).status).toBe(
      201,
    );
    expect(await (await fetch(fork)).text()).toBe("x");
    expect((await fetch(fork, { method: "DELETE" })).status).toBe(204);
    expect((await fetch(url, { method: "DELETE" })).status).toBe(204);
    expect((await create(`${fixture.url}/v1/${project}p/stream/s`)).status).toBe(400);
  });

  it("bounds what a listing may be asked for", async () => {
    for (const [text, isAllowed] of [
      ["z".repeat(1_024), true],
      ["🌊".repeat(256), true],
      ["\u0000".repeat(1_024), true],
      ["z".repeat(1_025), false],
      ["🌊".repeat(257), false],
    ] as const) {
      for (const name of ["prefix", "after", "filter"]) {
        const response = await fetch(`${fixture.url}/v1/streams?${name}=${encodeURIComponent(text)}`);
        if (isAllowed) expect(response.status, await response.text()).toBe(200);
        else expect((await expectProblem(response, 400, "bad-query")).detail).toContain(`query parameter ${name}`);
      }
    }
  });
});

describe("headers", () => {
  it("of more than 16 KiB together are refused, of less are not", async () => {
    const { port } = await serverForTest("memory");
    const request = (bytes: number) =>
      `GET /health HTTP/1.1\r\nHost: localhost\r\nX-Padding: ${"x".repeat(bytes)}\r\n\r\n`;
    expect(await exchange(port, request(15_000))).toMatchObject({ status: 200 });
    const refused = await exchange(port, request(17_000));
    expect(checkProblem(refused)).toMatchObject({
      status: 400,
      detail: "the headers have more than 16384 bytes; send fewer or shorter ones",
    });
  });

  it.each([
    ["Producer-Id", 512, { "Producer-Epoch": "0", "Producer-Seq": "0" }],
    ["Message-Id", 512, {}],
    ["Message-Key", 1_024, {}],
    ["Stream-Seq", 1_024, {}],
  ])("%s may have %i bytes and no more", async (name, limit, more) => {
    const fixture = await serverForTest("memory");
    const url = await createdStream(fixture, "s", "text/plain");
    expect((await append(url, "text/plain", "x", { ...more, [name]: "v".repeat(limit + 1) })).status).toBe(400);
    expect((await append(url, "text/plain", "x", { ...more, [name]: "" })).status).toBe(400);
    expect((await append(url, "text/plain", "x", { ...more, [name]: "v".repeat(limit) })).ok).toBe(true);
  });

  it("Content-Type may have 256 characters and no more", async () => {
    const fixture = await serverForTest("memory");
    const type = (chars: number) => `text/plain; note=${"n".repeat(chars - 17)}`;
    expect((await create(`${fixture.url}/v1/stream/a`, { "Content-Type": type(256) })).status).toBe(201);
    const refused = await create(`${fixture.url}/v1/stream/b`, { "Content-Type": type(257) });
    expect((await expectProblem(refused, 400, "bad-header")).detail).toContain("Content-Type");
  });
});
