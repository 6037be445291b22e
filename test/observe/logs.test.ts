import { connect } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import type { HttpRequest, Reply } from "../../packages/server/src/core/http.ts";
import { HttpDoor } from "../../packages/server/src/doors/http/http-door.ts";
import { EngineError } from "../../packages/server/src/engine/contract.ts";
import { describeFault } from "../../packages/server/src/observe/log.ts";
import { Watch } from "../../packages/server/src/observe/watch.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { append, appended, createdStream, eventually } from "../e2e/server.ts";
import { collectingLogger, loggedServer } from "./logged-server.ts";
import { Scrape } from "./prometheus-text.ts";

const TEXT = "text/plain";

describe("request lines", () => {
  it("come once per request, with id, method, route, status and time", async () => {
    const fixture = await loggedServer();
    const url = await createdStream(fixture, "a", TEXT);
    await appended(url, TEXT, "x");
    await (await fetch(`${fixture.url}/v1/stream/b`)).text();
    const lines = fixture.requests();
    expect(lines.map(({ method, status }) => [method, status])).toEqual([
      ["PUT", 201],
      ["POST", 204],
      ["GET", 404],
    ]);
    for (const line of lines) {
      expect(line).toMatchObject({ level: "info", id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-z]+$/) });
      expect(typeof line.route).toBe("string");
      expect(line.ms).toBeGreaterThan(0);
    }
    expect(new Set(lines.map(({ id }) => id)).size).toBe(3);
  });

  it("take a request's own id when it is harmless, and a fresh one otherwise", async () => {
    const fixture = await loggedServer();
    const ids = ["web-1.2:3_4", "a".repeat(64), "a".repeat(65), 'x" or', "<script>", ""];
    for (const id of ids) await fetch(`${fixture.url}/health`, { headers: { "X-Request-Id": id } });
    const logged = fixture.requests().map(({ id }) => id);
    expect(logged.slice(0, 2)).toEqual(ids.slice(0, 2));
    for (const id of logged.slice(2)) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-z]+$/);
  });

  it("hold no part of paths, queries, headers and payloads", async () => {
    const fixture = await loggedServer();
    const url = await createdStream(fixture, "secret-path", TEXT);
    const headers = { Authorization: "Bearer secret-token", Cookie: "sluice_token=secret-cookie" };
    await append(`${url}?token=secret-query`, TEXT, "secret-payload", { ...headers, "Message-Key": "secret-key" });
    await (await fetch(`${url}?offset=-1&token=secret-query`, { headers })).text();
    await (await fetch(`${fixture.url}/secret-nowhere?token=secret-query`, { headers })).text();
    await (await fetch(`${fixture.url}/v1/secret!/stream/a`, { headers })).text();
    expect(fixture.requests()).toHaveLength(5);
    expect(JSON.stringify(fixture.lines)).not.toContain("secret");
  });

  it("can be left out, and so can the whole log", async () => {
    const { lines, log } = collectingLogger();
    const fixture = await loggedServer({ log: { ...log, requests: false } });
    await fetch(`${fixture.url}/health`);
    expect(lines.map(({ msg }) => msg)).toEqual(["listening"]);
    const silent = await loggedServer({ log: false });
    expect((await fetch(`${silent.url}/health`)).status).toBe(200);
  });

  it("of live readers come when they end, with the reason", async () => {
    const fixture = await loggedServer({ tail: { sseMs: 300 }, longPollMs: 10_000 });
    const url = await createdStream(fixture, "a", TEXT);
    await (await fetch(`${url}?offset=now&live=sse`)).text();
    const left = await fetch(`${url}?offset=now&live=sse`);
    await left.body!.cancel();
    await eventually(() => expect(fixture.server.tail.readers).toBe(0));
    const poll = new AbortController();
    const polling = fetch(`${url}?offset=now&live=long-poll`, { signal: poll.signal }).catch(() => undefined);
    await eventually(() => expect(fixture.server.tail.readers).toBeGreaterThan(0));
    poll.abort();
    await polling;
    await eventually(() => expect(fixture.requests()).toHaveLength(4));
    const [, time, ...gone] = fixture.requests();
    expect(time).toMatchObject({ end: "time", status: 200 });
    expect(time!.ms).toBeGreaterThan(250);
    for (const line of gone) expect(line.end).toBe("gone");
  });

  it("name a reader that was cut off because it did not read", async () => {
    const fixture = await loggedServer({ tail: { slowReaderBytes: 64 * 1_024 } });
    const url = await createdStream(fixture, "a", TEXT);
    const socket = connect(fixture.port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => {});
    socket.pause();
    socket.write("GET /v1/stream/a?offset=now&live=sse HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await eventually(() => expect(fixture.server.tail.watchedStreams).toBe(1));
    const message = "x".repeat(1_024 * 1_024);
    const cut = () => fixture.requests().find(({ end }) => end === "slow-reader");
    for (let i = 0; i < 100 && cut() === undefined; i++) await appended(url, TEXT, message);
    await eventually(() => expect(cut()).toBeDefined());
    const metrics = new Scrape(await fixture.server.metrics());
    expect(metrics.value("sluice_live_ended_total", { reason: "slow-reader" })).toBe(1);
  });

  it("come between the lines of start, drain and stop", async () => {
    const fixture = await loggedServer();
    const url = await createdStream(fixture, "a", TEXT);
    const live = await fetch(`${url}?offset=now&live=sse`);
    const ended = live.text();
    await fixture.close();
    await ended;
    expect(fixture.lines.map(({ msg, end }) => [msg, end])).toEqual([
      ["listening", undefined],
      ["request", undefined],
      ["draining", undefined],
      ["request", "drained"],
      ["stopped", undefined],
    ]);
    expect(fixture.lines[0]).toMatchObject({ url: fixture.url, pid: process.pid });
    expect(fixture.lines[2]).toMatchObject({ readers: 1, drainMs: 2_000 });
  });
});

describe("faults", () => {
  async function doorThat(handle: (request: HttpRequest) => Promise<Reply> | Reply) {
    const { lines, log } = collectingLogger();
    const watch = new Watch({ log, world: realWorld(), clock: () => performance.now(), engine: "none" });
    const door = await HttpDoor.open({
      host: "127.0.0.1",
      port: 0,
      requestMs: 5_000,
      handle,
      observer: watch.observer,
      report: (fault, request) => watch.reportRequest(fault, request),
    });
    onTestFinished(async () => {
      await door.close();
      await watch.close();
    });
    return { lines, url: `http://127.0.0.1:${door.port}/` };
  }

  it("are logged under the id that the client gets", async () => {
    const { lines, url } = await doorThat(async () => {
      throw new Error("boom");
    });
    const response = await fetch(url, { headers: { Connection: "close" } });
    const id = response.headers.get("x-request-id");
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain("boom");
    expect(lines).toEqual([
      { level: "error", id, err: expect.objectContaining({ type: "Error", message: "boom" }), msg: "a request failed" },
      expect.objectContaining({ level: "info", id, status: 500, msg: "request" }),
    ]);
    expect((lines[0]!.err as { stack: string }).stack).toContain("logs.test");
  });

  it("are logged when the answer itself cannot be written", async () => {
    const { lines, url } = await doorThat(() => ({ status: 200, headers: ["Bad\nName", "x"] }));
    await expect(fetch(url)).rejects.toThrow();
    expect(lines.filter(({ level }) => level === "error")).toHaveLength(1);
  });

  it("show their name, message, code, stack and causes, and no other field", () => {
    const cause = Object.assign(new TypeError("why"), { token: "secret-token" });
    const fault = Object.assign(new Error("what", { cause }), { code: "E_X", payload: { sub: "secret-sub" } });
    const described = describeFault(fault);
    expect(described).toMatchObject({ type: "Error", message: "what", code: "E_X", cause: { message: "why" } });
    expect(JSON.stringify(described)).not.toContain("secret");
    const full = new EngineError("storage-full", "The disk is full.", "The disk of /srv/sluice is full.");
    expect(describeFault(full)).toMatchObject({ code: "storage-full", message: "The disk of /srv/sluice is full." });
    expect(describeFault("plain")).toEqual({ type: "string", message: "plain" });
    expect(describeFault(new Error("x".repeat(100_000))).message.length).toBeLessThan(10_000);
    const endless: Error & { cause?: unknown } = new Error("round");
    endless.cause = endless;
    expect(JSON.stringify(describeFault(endless)).length).toBeLessThan(100_000);
  });
});
