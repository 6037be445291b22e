/**
 * Live readers come and go: how many there may be, that none is left behind when its client has gone, and how a stream's end
 * reaches them. Only what an engine's notifications bring about runs on every engine.
 */
import { describe, expect, it } from "vitest";
import type { HttpRequest } from "../../packages/server/src/core/http.ts";
import { appInTime } from "./app-in-time.ts";
import { expectProblem } from "./problem.ts";
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
  within,
} from "./server.ts";
import { SseClient } from "./sse-client.ts";

const TEXT = "text/plain";

describe("the number of live readers", () => {
  it("is bounded, whichever kind they are, and the next reader is told to come again later", async () => {
    const fixture = await serverForTest("memory", { live: { readers: 3 } });
    const url = await createdStream(fixture, "s", TEXT);
    const sse = await Promise.all([1, 2].map(() => SseClient.open(`${url}?offset=-1&live=sse`)));
    const leave = new AbortController();
    const poll = fetch(`${url}?offset=now&live=long-poll`, { signal: leave.signal }).catch(() => "left");
    await eventually(() => expect(fixture.server.live.readers).toBe(3));

    for (const mode of ["sse", "long-poll"]) {
      const refused = await fetch(`${url}?offset=-1&live=${mode}`);
      expect(refused.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
      expect((await expectProblem(refused, 503, "too-many-waiters")).detail).toContain("3 readers");
    }
    // A read that does not wait is not counted.
    expect((await fetch(url)).status).toBe(200);

    leave.abort();
    expect(await poll).toBe("left");
    await eventually(() => expect(fixture.server.live.readers).toBe(2));
    const next = await SseClient.open(`${url}?offset=-1&live=sse`);
    expect(next.status).toBe(200);
    for (const client of [...sse, next]) client.close();
    await nobodyIsLeft(fixture);
  });

  it.each(["long-poll", "sse"])("is bounded when they all come at the same moment: %s", async (mode) => {
    const fixture = await serverForTest("memory", { longPollMs: 500, live: { readers: 10, sseMs: 500 } });
    const url = await createdStream(fixture, "s", TEXT);
    const responses = await Promise.all(Array.from({ length: 60 }, () => fetch(`${url}?offset=now&live=${mode}`)));
    const refused = responses.filter(({ status }) => status === 503);
    expect(refused.length).toBeGreaterThanOrEqual(40);
    await Promise.all(responses.map((response) => response.text()));
    await nobodyIsLeft(fixture);
  });

  it("is not used up by reads that are refused or answered at once", async () => {
    const fixture = await serverForTest("memory", { longPollMs: 5, live: { readers: 2 } });
    const url = await createdStream(fixture, "s", TEXT);
    await appended(url, TEXT, "x");
    for (let i = 0; i < 10; i++) {
      for (const mode of ["sse", "long-poll"]) {
        expect((await fetch(`${url}-absent?offset=-1&live=${mode}`)).status).toBe(404);
        expect((await fetch(`${url}?offset=9007199254740991_0000000000000001&live=${mode}`)).status).toBe(400);
      }
      expect((await fetch(`${url}?offset=-1&live=long-poll`)).status).toBe(200);
      expect((await fetch(`${url}?offset=now&live=long-poll`)).status).toBe(204);
    }
    await nobodyIsLeft(fixture);
  });
});

describe("a client that goes away", () => {
  it.each(["long-poll", "sse"])("leaves no trace, at whichever moment it goes: %s", async (mode) => {
    const fixture = await serverForTest("memory", { longPollMs: 60_000, live: { sseMs: 60_000, readers: 1_000 } });
    const url = await createdStream(fixture, "s", TEXT);
    const request = `GET ${new URL(url).pathname}?offset=now&live=${mode} HTTP/1.1\r\nHost: a\r\n\r\n`;
    for (let round = 0; round < 30; round++) {
      const connection = await RawConnection.open(fixture.port);
      connection.send(request);
      // At once, before the server has read it; soon, before it has answered; later, in the middle of the wait.
      if (round % 3 === 1) await new Promise((resolve) => setImmediate(resolve));
      if (round % 3 === 2) await sleep(round / 3);
      if (round % 2 === 0) connection.reset();
      else connection.destroy();
    }
    await nobodyIsLeft(fixture);
    // And what would have woken them does no harm.
    await appended(url, TEXT, "x");
    await nobodyIsLeft(fixture);
  });

  it.each(["long-poll", "sse"])("leaves no trace when it goes before its answer is ready: %s", async (mode) => {
    const { url, app } = await appInTime("memory");
    await create(`${url}/v1/stream/s`);
    const goneTasks: (() => void)[] = [];
    const request: HttpRequest = {
      method: "GET",
      path: "/v1/stream/s",
      search: `offset=now&live=${mode}`,
      origin: url,
      header: () => undefined,
      body: () => Promise.reject(new Error("a GET has no body")),
      onGone: (task) => void goneTasks.push(task),
    };
    const answer = Promise.resolve(app.router.route(request));
    // A few microtasks later the reader is counted; its answer takes longer.
    for (let turn = 0; turn < 100 && app.live.readers === 0; turn++) await undefined;
    expect(app.live.readers).toBe(1);
    for (const task of goneTasks) task();
    expect(app.live.readers).toBe(0);
    // Whatever the answer is, no client is left to write it to.
    await (mode === "sse" ? answer : Promise.race([answer, sleep(50)]));
    expect([app.live.readers, app.live.watchedStreams]).toEqual([0, 0]);
  });

  it("leaves no trace when it had asked for 100-continue although it has no body", async () => {
    const fixture = await serverForTest("memory", { longPollMs: 60_000, live: { sseMs: 60_000 } });
    const url = await createdStream(fixture, "s", TEXT);
    for (const mode of ["long-poll", "sse"]) {
      const connection = await RawConnection.open(fixture.port);
      const head = `GET ${new URL(url).pathname}?offset=now&live=${mode} HTTP/1.1\r\nHost: a\r\n`;
      connection.send(`${head}Expect: 100-continue\r\n\r\n`);
      await eventually(() => expect(fixture.server.live.readers).toBe(1));
      if (mode === "sse") expect(await connection.answer()).toMatchObject({ status: 200 });
      connection.destroy();
      await nobodyIsLeft(fixture);
    }
  });

  it("leaves no trace when it had sent several live reads at once", async () => {
    const fixture = await serverForTest("memory", { longPollMs: 60_000, live: { sseMs: 60_000 } });
    const url = await createdStream(fixture, "s", TEXT);
    const request = (mode: string) =>
      `GET ${new URL(url).pathname}?offset=now&live=${mode} HTTP/1.1\r\nHost: a\r\n\r\n`;
    for (const modes of [
      ["long-poll", "sse", "long-poll"],
      ["sse", "sse", "long-poll"],
    ]) {
      const connection = await RawConnection.open(fixture.port);
      connection.send(modes.map(request).join(""));
      await eventually(() => expect(fixture.server.live.readers).toBe(3));
      connection.destroy();
      await nobodyIsLeft(fixture);
    }
  });

  it("leaves no trace when it goes during catch-up", async () => {
    const fixture = await serverForTest("memory", { stream: { pageBytes: 64 * 1024 }, live: { sseMs: 60_000 } });
    const url = await createdStream(fixture, "s", TEXT);
    for (let i = 0; i < 64; i++) await appended(url, TEXT, "x".repeat(256 * 1024));
    for (const offset of ["-1", "now"]) {
      const client = await SseClient.open(`${url}?offset=${offset}&live=sse`);
      await client.until("an event", ({ events }) => events.length > 0);
      client.incoming.pause();
      await sleep(20);
      client.close();
    }
    await nobodyIsLeft(fixture);
  });
});

describeOnEngines("a live reader", (engine) => {
  it("is told that the stream was closed, after its last message, and the connection ends", async () => {
    const fixture = await serverForTest(engine);
    const url = await createdStream(fixture, "s", TEXT);
    const sse = await SseClient.open(`${url}?offset=-1&live=sse`);
    const poll = fetch(`${url}?offset=now&live=long-poll`);
    await eventually(() => expect(fixture.server.live.readers).toBe(2));
    const last = await append(url, TEXT, "last", { "Stream-Closed": "true" });
    expect(last.headers.get("stream-closed")).toBe("true");
    expect(await sse.untilEnded()).toBe("end");
    expect(sse.text).toBe("last");
    expect(sse.controls.at(-1)).toMatchObject({ streamClosed: true, upToDate: true });
    expect(sse.controls.at(-1)).not.toHaveProperty("streamCursor");
    const polled = await poll;
    expect(polled.headers.get("stream-closed")).toBe("true");
    expect(await polled.text()).toBe("last");
    await nobodyIsLeft(fixture);
  });

  it("is told that the stream was closed without another message, waiting or coming later", async () => {
    const fixture = await serverForTest(engine);
    const url = await createdStream(fixture, "s", TEXT);
    const sse = await SseClient.open(`${url}?offset=-1&live=sse`);
    const poll = fetch(`${url}?offset=now&live=long-poll`);
    await eventually(() => expect(fixture.server.live.readers).toBe(2));
    expect((await fetch(url, { method: "POST", headers: { "Stream-Closed": "true" } })).status).toBe(204);
    expect(await sse.untilEnded()).toBe("end");
    expect(sse.controls.at(-1)).toMatchObject({ streamClosed: true });
    expect((await poll).status).toBe(204);
    expect((await poll).headers.get("stream-closed")).toBe("true");
    // A reader that comes later learns it at once.
    const late = await SseClient.open(`${url}?offset=now&live=sse`);
    expect(await late.untilEnded()).toBe("end");
    expect(late.controls).toMatchObject([{ streamClosed: true }]);
    await nobodyIsLeft(fixture);
  });

  it("is ended, or answered 404, when its stream is deleted", async () => {
    const fixture = await serverForTest(engine);
    const url = await createdStream(fixture, "s", TEXT);
    const sse = await SseClient.open(`${url}?offset=-1&live=sse`);
    const poll = fetch(`${url}?offset=now&live=long-poll`);
    await eventually(() => expect(fixture.server.live.readers).toBe(2));
    expect((await fetch(url, { method: "DELETE" })).status).toBe(204);
    expect(await sse.untilEnded()).toBe("end");
    await expectProblem(await within(10_000, "the answer to the long-poll", poll), 404, "stream-not-found");
    await nobodyIsLeft(fixture);
    expect((await SseClient.open(`${url}?offset=-1&live=sse`)).status).toBe(404);
  });
});

describe("a live reader over time", () => {
  it("is ended, or answered 404, when its stream expires", async () => {
    const fixture = await serverForTest("memory");
    const url = await createdStream(fixture, "s", TEXT, {
      "Stream-Expires-At": new Date(Date.now() + 1_500).toISOString(),
    });
    const sse = await SseClient.open(`${url}?offset=-1&live=sse`);
    const poll = fetch(`${url}?offset=now&live=long-poll`);
    expect(await sse.untilEnded()).toBe("end");
    await expectProblem(await within(10_000, "the answer to the long-poll", poll), 404, "stream-not-found");
    await nobodyIsLeft(fixture);
  });

  it("misses nothing when its connection is ended by age, however often", async () => {
    const fixture = await serverForTest("memory", { live: { sseMs: 40 } });
    const url = await createdStream(fixture, "s", "application/json");
    const total = 150;
    const writing = (async () => {
      for (let i = 0; i < total; i++) {
        await appended(url, "application/json", JSON.stringify(i));
        await sleep(2);
      }
    })();
    const seen: number[] = [];
    let offset = "-1";
    let connections = 0;
    while (seen.length < total) {
      const client = await SseClient.open(`${url}?offset=${offset}&live=sse`);
      expect(await client.untilEnded()).toBe("end");
      for (const data of client.data) seen.push(...(JSON.parse(data) as number[]));
      offset = client.lastOffset;
      connections++;
    }
    await writing;
    expect(seen).toEqual(Array.from({ length: total }, (_, i) => i));
    expect(connections).toBeGreaterThan(1);
    await nobodyIsLeft(fixture);
  });
});
