/** Live readers of every pace: what a slow one may cost, and that a fast one does not pay for it. */
import { describe, expect, it } from "vitest";
import { RawConnection } from "./raw-http.ts";
import {
  append,
  appended,
  create,
  createdStream,
  describeOnEngines,
  eventually,
  nobodyIsLeft,
  serverForTest,
  sleep,
} from "./server.ts";
import { SseClient } from "./sse-client.ts";

const TEXT = "text/plain";
const JSON_TYPE = "application/json";
const MIB = 1024 * 1024;

/** Asks for an event stream and reads nothing of it. */
async function deafReader(port: number, url: string, offset: string): Promise<RawConnection> {
  const connection = await RawConnection.open(port);
  connection.socket.pause();
  connection.send(`GET ${new URL(url).pathname}?offset=${offset}&live=sse HTTP/1.1\r\nHost: a\r\n\r\n`);
  return connection;
}

describeOnEngines("a reader that does not read", (engine) => {
  it("is cut off at the byte limit, while the others get every message", async () => {
    const fixture = await serverForTest(engine, { tail: { slowReaderBytes: MIB } });
    const url = await createdStream(fixture, "s", TEXT);
    const good = await Promise.all(Array.from({ length: 5 }, () => SseClient.open(`${url}?offset=-1&live=sse`)));
    const deaf = await deafReader(fixture.port, url, "-1");
    await eventually(() => expect(fixture.server.tail.readers).toBe(6));
    const chunk = "x".repeat(128 * 1024);
    let sent = 0;
    let last = "";
    // The kernel takes some megabytes of its own; beyond that it is the server's memory.
    while (fixture.server.tail.readers === 6) {
      last = await appended(url, TEXT, chunk);
      sent += chunk.length;
      expect(sent, "bytes sent to a reader that reads nothing").toBeLessThan(64 * MIB);
    }
    for (const client of good) {
      await client.upTo(last);
      expect(client.text.length).toBe(sent);
      client.close();
    }
    deaf.destroy();
    await nobodyIsLeft(fixture);
  });

  it("in the middle of catching up costs a page, not the stream", async () => {
    const fixture = await serverForTest(engine, { stream: { pageBytes: 256 * 1024 }, tail: { sseMs: 60_000 } });
    const url = await createdStream(fixture, "s", TEXT);
    const chunk = "x".repeat(256 * 1024);
    for (let i = 0; i < 100; i++) await appended(url, TEXT, chunk);
    // What is stored is 25 MiB; ten readers that buffered it would need 250.
    const before = process.memoryUsage();
    const deaf = await Promise.all(Array.from({ length: 10 }, () => deafReader(fixture.port, url, "-1")));
    await eventually(() => expect(fixture.server.tail.readers).toBe(10));
    await sleep(300);
    const after = process.memoryUsage();
    const grown = after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed;
    expect(grown, "bytes of memory for ten readers that read nothing").toBeLessThan(100 * MIB);
    for (const connection of deaf) connection.destroy();
    await nobodyIsLeft(fixture);
  });

  it("is not waited for when its time is up", async () => {
    const fixture = await serverForTest(engine, { tail: { sseMs: 200 }, stream: { pageBytes: MIB } });
    const url = await createdStream(fixture, "s", TEXT);
    for (let i = 0; i < 4; i++) await appended(url, TEXT, "x".repeat(5 * MIB));
    const deaf = await Promise.all(Array.from({ length: 3 }, () => deafReader(fixture.port, url, "-1")));
    await eventually(() => expect(fixture.server.tail.readers).toBe(3));
    await nobodyIsLeft(fixture);
    for (const connection of deaf) connection.destroy();
  });
});

describe("a reader that reads", () => {
  it("slowly gets all of a large stream, page by page, and then what is new", async () => {
    const fixture = await serverForTest("memory", {
      stream: { pageBytes: 128 * 1024 },
      tail: { slowReaderBytes: 256 * 1024 },
    });
    const url = await createdStream(fixture, "s", TEXT);
    const chunk = "x".repeat(100_000);
    for (let i = 0; i < 120; i++) await appended(url, TEXT, `${i};${chunk}`);
    const client = await SseClient.open(`${url}?offset=-1&live=sse`);
    for (let pauses = 0; pauses < 20; pauses++) {
      client.incoming.pause();
      await sleep(10);
      client.incoming.resume();
      await sleep(2);
    }
    const last = await appended(url, TEXT, "the end");
    await client.upTo(last);
    const expected = Array.from({ length: 120 }, (_, i) => `${i};${chunk}`).join("");
    expect(client.text === `${expected}the end`).toBe(true);
    client.close();
    await nobodyIsLeft(fixture);
  });

  it("is not taken for a slow one when a burst of many pages comes at once", async () => {
    const fixture = await serverForTest("memory", { tail: { slowReaderBytes: MIB } });
    const url = await createdStream(fixture, "s", JSON_TYPE);
    const clients = await Promise.all(Array.from({ length: 2 }, () => SseClient.open(`${url}?offset=-1&live=sse`)));
    await eventually(() => expect(fixture.server.tail.readers).toBe(2));
    const batch = JSON.stringify(Array.from({ length: 7_000 }, (_, i) => ({ i, pad: "x".repeat(1_000) })));
    let last = "";
    for (let burst = 0; burst < 2; burst++) last = await appended(url, JSON_TYPE, batch);
    for (const client of clients) {
      await client.upTo(last);
      const seen = client.data.flatMap((data) => (JSON.parse(data) as { i: number }[]).map(({ i }) => i));
      expect(seen.length).toBe(14_000);
      expect(seen.every((number, at) => number === at % 7_000)).toBe(true);
      client.close();
    }
    await nobodyIsLeft(fixture);
  });

  it("is not taken for a slow one when a message follows a page that is as large as the limit", async () => {
    const fixture = await serverForTest("memory", { tail: { slowReaderBytes: MIB }, stream: { pageBytes: MIB } });
    const url = await createdStream(fixture, "s", "application/octet-stream");
    let before = "-1";
    for (let i = 0; i < 6; i++) {
      const after = await appended(url, "application/octet-stream", Buffer.alloc(MIB, i));
      const client = await SseClient.open(`${url}?offset=${before}&live=sse`);
      before = after;
      const last = await appended(url, "application/octet-stream", "small");
      await client.upTo(last);
      client.close();
    }
    await nobodyIsLeft(fixture);
  });
});

describe("a reader in the middle of catching up", () => {
  it("of a stream that is deleted and created anew with another type is sent home", async () => {
    const fixture = await serverForTest("memory", { stream: { pageBytes: 64 * 1024 } });
    const url = await createdStream(fixture, "s", TEXT);
    for (let i = 0; i < 24; i++) await appended(url, TEXT, "x".repeat(MIB));
    const client = await SseClient.open(`${url}?offset=-1&live=sse`);
    client.incoming.pause();
    await sleep(50);
    expect((await fetch(url, { method: "DELETE" })).status).toBe(204);
    expect((await create(url, { "Content-Type": JSON_TYPE })).status).toBe(201);
    expect((await append(url, JSON_TYPE, '{"another":"stream"}')).status).toBe(204);
    client.incoming.resume();
    expect(await client.untilEnded()).toBe("end");
    expect(client.text).toMatch(/^x+$/);
    await nobodyIsLeft(fixture);
  });

  it("of a stream that is closed gets the rest and the word that it is closed, once", async () => {
    const fixture = await serverForTest("memory", {
      stream: { pageBytes: 64 * 1024 },
      tail: { slowReaderBytes: 128 * 1024 },
    });
    const url = await createdStream(fixture, "s", TEXT);
    for (let i = 0; i < 24; i++) await appended(url, TEXT, "x".repeat(MIB));
    const client = await SseClient.open(`${url}?offset=-1&live=sse`);
    client.incoming.pause();
    await sleep(50);
    await append(url, TEXT, "z".repeat(MIB), { "Stream-Closed": "true" });
    client.incoming.resume();
    expect(await client.untilEnded()).toBe("end");
    expect(client.text.length).toBe(25 * MIB);
    expect(client.controls.filter(({ streamClosed }) => streamClosed)).toHaveLength(1);
    await nobodyIsLeft(fixture);
  });
});
