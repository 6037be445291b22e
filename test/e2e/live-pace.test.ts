/**
 * Live readers of every pace: what a slow one may cost, and that a fast one does not pay for it. Back-pressure is a matter of the
 * connection, so one engine shows it.
 */
import { describe, expect, it } from "vitest";
import { Scrape } from "../observe/prometheus-text.ts";
import { RawConnection } from "./raw-http.ts";
import { append, appended, create, createdStream, eventually, nobodyIsLeft, serverForTest, sleep } from "./server.ts";
import { SseClient } from "./sse-client.ts";

const TEXT = "text/plain";
const JSON_TYPE = "application/json";
const MIB = 1024 * 1024;
/** Longer than any test: the age of a connection ends none. */
const HOUR_MS = 3_600_000;
/** How long a wait may take on a machine that is busy with other work. It decides when a failure shows, never what passes. */
const PATIENCE_MS = 100_000;
const PATIENT = { timeout: 2 * PATIENCE_MS };

/** Asks for an event stream and reads nothing of it. */
async function deafReader(port: number, url: string, offset: string): Promise<RawConnection> {
  const connection = await RawConnection.open(port);
  connection.socket.pause();
  connection.send(`GET ${new URL(url).pathname}?offset=${offset}&live=sse HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  return connection;
}

describe("a reader that does not read", () => {
  it("is cut off at the byte limit, while the others get every message", PATIENT, async () => {
    const fixture = await serverForTest("memory", { tail: { slowReaderBytes: MIB, sseMs: HOUR_MS } });
    const url = await createdStream(fixture, "s", TEXT);
    const good = await Promise.all(Array.from({ length: 5 }, () => SseClient.open(`${url}?offset=-1&live=sse`)));
    const deaf = await deafReader(fixture.port, url, "-1");
    await eventually(() => expect(fixture.server.tail.readers).toBe(6), PATIENCE_MS);
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
      await client.upTo(last, PATIENCE_MS);
      expect(client.text.length).toBe(sent);
      client.close();
    }
    deaf.destroy();
    await nobodyIsLeft(fixture, PATIENCE_MS);
  });

  it(
    "keeps its connection in the middle of catching up, while another reader gets the whole stream",
    PATIENT,
    async () => {
      const fixture = await serverForTest("memory", { stream: { pageBytes: 256 * 1024 }, tail: { sseMs: HOUR_MS } });
      const url = await createdStream(fixture, "s", TEXT);
      const chunk = "x".repeat(MIB);
      let last = "";
      for (let i = 0; i < 25; i++) last = await appended(url, TEXT, chunk);
      const deaf = await Promise.all(Array.from({ length: 3 }, () => deafReader(fixture.port, url, "-1")));
      await eventually(() => expect(fixture.server.tail.readers).toBe(3), PATIENCE_MS);
      const good = await SseClient.open(`${url}?offset=-1&live=sse`);
      await good.upTo(last, PATIENCE_MS);
      expect(good.text.length).toBe(25 * MIB);
      // A server that sent pages to the deaf readers without waiting for them would have cut them off at the byte limit by now.
      expect(fixture.server.tail.readers).toBe(4);
      for (const connection of [...deaf.map(({ socket }) => socket), good.incoming]) connection.destroy();
      await nobodyIsLeft(fixture, PATIENCE_MS);
    },
  );

  it("is not waited for when its time is up", PATIENT, async () => {
    const fixture = await serverForTest("memory", { tail: { sseMs: 200 }, stream: { pageBytes: MIB } });
    const url = await createdStream(fixture, "s", TEXT);
    for (let i = 0; i < 4; i++) await appended(url, TEXT, "x".repeat(5 * MIB));
    const deaf = await Promise.all(Array.from({ length: 3 }, () => deafReader(fixture.port, url, "-1")));
    // The first may be gone before the last has come, so the test counts arrivals, not readers.
    await eventually(async () => {
      const scrape = new Scrape(await fixture.server.metrics());
      expect(scrape.value("sluice_reads_total", { kind: "sse" })).toBe(3);
    }, PATIENCE_MS);
    await nobodyIsLeft(fixture, PATIENCE_MS);
    for (const connection of deaf) connection.destroy();
  });
});

describe("a reader that reads", () => {
  it("gets all of a large stream although it is slow, page by page, and then what is new", PATIENT, async () => {
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
    await client.upTo(last, PATIENCE_MS);
    const expected = Array.from({ length: 120 }, (_, i) => `${i};${chunk}`).join("");
    expect(client.text === `${expected}the end`).toBe(true);
    client.close();
    await nobodyIsLeft(fixture, PATIENCE_MS);
  });

  it("is not taken for a slow one when a burst of many pages comes at once", PATIENT, async () => {
    const fixture = await serverForTest("memory", { tail: { slowReaderBytes: MIB } });
    const url = await createdStream(fixture, "s", JSON_TYPE);
    const clients = await Promise.all(Array.from({ length: 2 }, () => SseClient.open(`${url}?offset=-1&live=sse`)));
    await eventually(() => expect(fixture.server.tail.readers).toBe(2), PATIENCE_MS);
    const batch = JSON.stringify(Array.from({ length: 7_000 }, (_, i) => ({ i, pad: "x".repeat(1_000) })));
    let last = "";
    for (let burst = 0; burst < 2; burst++) last = await appended(url, JSON_TYPE, batch);
    for (const client of clients) {
      await client.upTo(last, PATIENCE_MS);
      const seen = client.data.flatMap((data) => (JSON.parse(data) as { i: number }[]).map(({ i }) => i));
      expect(seen.length).toBe(14_000);
      expect(seen.every((number, at) => number === at % 7_000)).toBe(true);
      client.close();
    }
    await nobodyIsLeft(fixture, PATIENCE_MS);
  });

  it("is not taken for a slow one when a message follows a page that is as large as the limit", PATIENT, async () => {
    const fixture = await serverForTest("memory", { tail: { slowReaderBytes: MIB }, stream: { pageBytes: MIB } });
    const url = await createdStream(fixture, "s", "application/octet-stream");
    let before = "-1";
    for (let i = 0; i < 6; i++) {
      const after = await appended(url, "application/octet-stream", Buffer.alloc(MIB, i));
      const client = await SseClient.open(`${url}?offset=${before}&live=sse`);
      before = after;
      const last = await appended(url, "application/octet-stream", "small");
      await client.upTo(last, PATIENCE_MS);
      client.close();
    }
    await nobodyIsLeft(fixture, PATIENCE_MS);
  });
});

describe("a reader in the middle of catching up", () => {
  it("is ended when its stream is deleted and created anew with another content type", PATIENT, async () => {
    const fixture = await serverForTest("memory", { stream: { pageBytes: 64 * 1024 } });
    const url = await createdStream(fixture, "s", TEXT);
    for (let i = 0; i < 24; i++) await appended(url, TEXT, "x".repeat(MIB));
    const client = await SseClient.open(`${url}?offset=-1&live=sse`);
    await client.until("the first page", ({ data }) => data.length > 0, PATIENCE_MS);
    client.incoming.pause();
    expect((await fetch(url, { method: "DELETE" })).status).toBe(204);
    expect((await create(url, { "Content-Type": JSON_TYPE })).status).toBe(201);
    expect((await append(url, JSON_TYPE, '{"another":"stream"}')).status).toBe(204);
    client.incoming.resume();
    expect(await client.untilEnded(PATIENCE_MS)).toBe("end");
    expect(client.text).toMatch(/^x+$/);
    await nobodyIsLeft(fixture, PATIENCE_MS);
  });

  it("gets the rest of a stream that is closed, and is told once that it is closed", PATIENT, async () => {
    const fixture = await serverForTest("memory", {
      stream: { pageBytes: 64 * 1024 },
      tail: { slowReaderBytes: 128 * 1024 },
    });
    const url = await createdStream(fixture, "s", TEXT);
    for (let i = 0; i < 24; i++) await appended(url, TEXT, "x".repeat(MIB));
    const client = await SseClient.open(`${url}?offset=-1&live=sse`);
    await client.until("the first page", ({ data }) => data.length > 0, PATIENCE_MS);
    client.incoming.pause();
    await append(url, TEXT, "z".repeat(MIB), { "Stream-Closed": "true" });
    client.incoming.resume();
    expect(await client.untilEnded(PATIENCE_MS)).toBe("end");
    expect(client.text.length).toBe(25 * MIB);
    expect(client.controls.filter(({ streamClosed }) => streamClosed)).toHaveLength(1);
    await nobodyIsLeft(fixture, PATIENCE_MS);
  });
});
