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
import { openStage } from "./stage.ts";

const TEXT = "text/plain";

describe("the number of live readers", () => {
  it("is bounded, whichever kind they are, and the next reader is told to come again later", async () => {
    const fixture = await serverForTest("memory", { tail: { readers: 3 } });
    const url = await createdStream(fixture, "s", TEXT);
    const sse = await Promise.all([1, 2].map(() => SseClient.open(`${url}?offset=-1&live=sse`)));
    const leave = new AbortController();
    const poll = fetch(`${url}?offset=now&live=long-poll`, { signal: leave.signal }).catch(() => "left");
    await eventually(() => expect(fixture.server.tail.readers).toBe(3));

    for (const mode of ["sse", "long-poll"]) {
      const refused = await fetch(`${url}?offset=-1&live=${mode}`);
      expect(refused.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
      expect((await expectProblem(refused, 503, "too-many-waiters")).detail).toContain("3 readers");
    }
    // A read that does not wait is not counted.
    expect((await fetch(url)).status).toBe(200);

    leave.abort();
    expect(await poll).toBe("left");
    await eventually(() => expect(fixture.server.tail.readers).toBe(2));
    const next = await SseClient.open(`${url}?offset=-1&live=sse`);
    expect(next.status).toBe(200);
    for (const client of [...sse, next]) client.close();
    await nobodyIsLeft(fixture);
  });

  it.each(["long-poll", "sse"])("is bounded when they all come at the same moment: %s", async (mode) => {
    const fixture = await serverForTest("memory", { longPollMs: 60_000, tail: { readers: 10, sseMs: 60_000 } });
    const url = await createdStream(fixture, "s", TEXT);
    const leaving = new AbortController();
    let refused = 0;
    const readers = Array.from({ length: 60 }, async () => {
      const response = await fetch(`${url}?offset=now&live=${mode}`, { signal: leaving.signal });
      if (response.status === 503) refused++;
      // `fetch` disconnects a reader whose response the garbage collector takes, and the next reader would get its place.
      return response;
    });
    const left = Promise.allSettled(readers);
    await eventually(() => expect(refused).toBe(50));
    leaving.abort();
    expect(await left).toHaveLength(60);
    await nobodyIsLeft(fixture);
  });

  it("is not used up by reads that are refused or answered at once", async () => {
    const fixture = await serverForTest("memory", { longPollMs: 5, tail: { readers: 2 } });
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
    const fixture = await serverForTest("memory", { longPollMs: 60_000, tail: { sseMs: 60_000, readers: 1_000 } });
    const url = await createdStream(fixture, "s", TEXT);
    const request = `GET ${new URL(url).pathname}?offset=now&live=${mode} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
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
    expect(app.tail.readers).toBe(1);
    for (const task of goneTasks) task();
    expect(app.tail.readers).toBe(0);
    // Whatever the answer is, no client is left to write it to.
    await (mode === "sse" ? answer : Promise.race([answer, sleep(50)]));
    expect([app.tail.readers, app.tail.watchedStreams]).toEqual([0, 0]);
  });

  it("leaves no trace when it had asked for 100-continue although it has no body", async () => {
    const fixture = await serverForTest("memory", { longPollMs: 60_000, tail: { sseMs: 60_000 } });
    const url = await createdStream(fixture, "s", TEXT);
    for (const mode of ["long-poll", "sse"]) {
      const connection = await RawConnection.open(fixture.port);
      const head = `GET ${new URL(url).pathname}?offset=now&live=${mode} HTTP/1.1\r\nHost: localhost\r\n`;
      connection.send(`${head}Expect: 100-continue\r\n\r\n`);
      await eventually(() => expect(fixture.server.tail.readers).toBe(1));
      if (mode === "sse") expect(await connection.answer()).toMatchObject({ status: 200 });
      connection.destroy();
      await nobodyIsLeft(fixture);
    }
  });

  it("leaves no trace when it had sent several live reads at once", async () => {
    const fixture = await serverForTest("memory", { longPollMs: 60_000, tail: { sseMs: 60_000 } });
    const url = await createdStream(fixture, "s", TEXT);
    const request = (mode: string) =>
      `GET ${new URL(url).pathname}?offset=now&live=${mode} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
    for (const modes of [
      ["long-poll", "sse", "long-poll"],
      ["sse", "sse", "long-poll"],
    ]) {
      const connection = await RawConnection.open(fixture.port);
      connection.send(modes.map(request).join(""));
      await eventually(() => expect(fixture.server.tail.readers).toBe(3));
      connection.destroy();
      await nobodyIsLeft(fixture);
    }
  });

  it("leaves no trace when it goes during catch-up", async () => {
    const fixture = await serverForTest("memory", { stream: { pageBytes: 64 * 1024 }, tail: { sseMs: 60_000 } });
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
    await eventually(() => expect(fixture.server.tail.readers).toBe(2));
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
    await eventually(() => expect(fixture.server.tail.readers).toBe(2));
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
    await eventually(() => expect(fixture.server.tail.readers).toBe(2));
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

  it("is told why its connection ends, in a comment after everything else", async () => {
    const { url, app, pass } = await openStage("memory");
    const at = `${url}/v1/stream/`;
    for (const path of ["time", "over", "gone"]) await create(at + path, { "Content-Type": TEXT });
    const textOf = async (path: string) => (await fetch(`${at}${path}?offset=now&live=sse`)).text();
    let quiet = "";
    const time = (async () => {
      const { body } = await fetch(`${at}time?offset=now&live=sse`);
      for await (const piece of body!.pipeThrough(new TextDecoderStream())) quiet += piece;
    })();
    await eventually(() => expect(app.tail.watchedStreams).toBe(1));
    const others = ["over", "gone"].map(textOf);
    await eventually(() => expect(app.tail.watchedStreams).toBe(3));
    await fetch(`${at}over`, { method: "POST", headers: { "Stream-Closed": "true" } });
    await fetch(`${at}gone`, { method: "DELETE" });
    for (const [i, text] of (await Promise.all(others)).entries()) {
      expect(text.endsWith(`}\n\n: ended: ${["over", "gone"][i]}\n\n`), text).toBe(true);
    }
    // A comment every 15 s shows that the server is there.
    for (let beats = 1; beats <= 3; beats++) {
      pass(15_000);
      await eventually(() => expect(quiet.split("\n\n").slice(1)).toEqual([...Array(beats).fill(":"), ""]));
    }
    pass(15_000);
    await time;
    expect(quiet.split("\n\n").slice(1)).toEqual([":", ":", ":", ": ended: time", ""]);
    const last = textOf("time");
    await eventually(() => expect(app.tail.watchedStreams).toBe(1));
    app.drain();
    expect((await last).endsWith("}\n\n: ended: drained\n\n")).toBe(true);
  });

  it("shares what is read from the store with readers of another format", async () => {
    const { url, app, trouble } = await openStage("memory");
    const at = `${url}/v1/stream/s`;
    await create(at, { "Content-Type": TEXT });
    const formats = ["raw", "raw", "envelope", "envelope"];
    const clients = await Promise.all(
      formats.map((format) => SseClient.open(`${at}?offset=-1&live=sse&format=${format}`)),
    );
    for (const client of clients) await client.until("its first event", ({ events }) => events.length > 0);
    await eventually(() => expect([app.tail.readers, app.tail.watchedStreams]).toEqual([4, 1]));
    await appended(at, TEXT, "warm");
    for (const client of clients) await client.until("the first message", ({ data }) => data.length === 1);
    trouble.taken();
    await appended(at, TEXT, "once");
    for (const client of clients) await client.until("the message", ({ data }) => data.length === 2);
    expect(trouble.taken().filter((call) => call === "read").length).toBe(1);
    expect(clients[0]!.text).toBe("warmonce");
    expect(JSON.parse(clients[2]!.data[1]!)).toMatchObject([{ payload: "once" }]);
    for (const client of clients) client.close();
  });

  it("misses nothing when its connection is ended by age, however often", async () => {
    const fixture = await serverForTest("memory", { tail: { sseMs: 40 } });
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
