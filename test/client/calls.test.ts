import { getEventListeners } from "node:events";
import { Sluice } from "@sluice/client";
import { beforeAll, describe, expect, test } from "vitest";
import { closeAfterSuite, type Fixture, openServer } from "../e2e/server.ts";
import { faultyFetch } from "./faulty-fetch.ts";
import { numbersTo, openClient, valuesOf } from "./open-client.ts";

describe("streams over the client", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  test("are created, looked up, closed and deleted, with a retry when an answer is lost", async () => {
    const lost = new Set<string>();
    const { fetch } = faultyFetch(({ method }) => {
      if (lost.has(method) || method === "DELETE") return undefined;
      lost.add(method);
      return { kind: "lose-answer" };
    });
    const stream = openClient(fixture.url, { fetch }).stream("calls/all");
    expect(await stream.create({ maxMessages: 5 })).toMatchObject({ created: undefined, closed: false });
    expect(await stream.info()).toMatchObject({ contentType: "application/json", closed: false });
    expect(await stream.close()).toMatchObject({ closed: true });
    expect(await stream.info()).toMatchObject({ closed: true });
    expect(await stream.delete()).toEqual({ deleted: true });
    await expect(stream.info()).rejects.toMatchObject({ code: "stream-not-found", status: 404 });
    await expect(stream.delete()).rejects.toMatchObject({ code: "stream-not-found" });
  });

  test("report whether create made them, and refuse another configuration", async () => {
    const sluice = openClient(fixture.url);
    const stream = sluice.stream("calls/created");
    expect((await stream.create({ ttlSeconds: 60, messages: [1, 2] })).created).toBe(true);
    expect((await stream.create({ ttlSeconds: 60, messages: [3] })).created).toBe(false);
    await expect(stream.create({ expiresAt: new Date(Date.now() + 60_000) })).rejects.toMatchObject({
      code: "stream-exists",
    });
    expect(await valuesOf(stream)).toEqual([1, 2]);
  });

  test("are created closed, with first messages of any type", async () => {
    const sluice = openClient(fixture.url);
    const json = sluice.stream<number>("calls/closed-json");
    expect(await json.create({ messages: [1, 2], closed: true })).toMatchObject({ created: true, closed: true });
    expect(await valuesOf(json, { live: true })).toEqual([1, 2]);
    const text = sluice.stream<string>("calls/closed-text", { contentType: "text/plain" });
    await text.create({ messages: ["grüß dich"], closed: true });
    expect(await valuesOf(text, { live: true })).toEqual(["grüß dich"]);
    const two = sluice.stream<string>("calls/two", { contentType: "text/plain" }).create({ messages: ["a", "b"] });
    await expect(two).rejects.toMatchObject({ code: "invalid-value" });
  });

  test("start as a fork with the messages of their source", async () => {
    const sluice = openClient(fixture.url, { project: "other" });
    const source = sluice.stream("calls/ä-source");
    await source.create();
    const { offset } = await source.append(1);
    await source.append(2);
    const fork = sluice.stream("calls/fork");
    await fork.create({ forkOf: { path: source.path, offset } });
    await fork.append(3);
    expect(await valuesOf(fork)).toEqual([1, 3]);
  });

  test("live at any path that a stream may have, each in its own project", async () => {
    const [mine, other] = [openClient(fixture.url, { project: "p1" }), openClient(fixture.url, { project: "p2" })];
    const paths = ["a-b/ü?%/&=", "x//y", "%2F", "…", "a/b/"];
    for (const path of paths) {
      await mine.stream(path).create();
      await mine.stream(path).append(path);
      expect(await valuesOf(mine.stream(path), {})).toEqual([path]);
    }
    const listed = [];
    for await (const { path } of mine.list({ pageSize: 2 })) listed.push(path);
    expect(listed.sort()).toEqual([...paths].sort());
    for await (const { path } of other.list()) throw new Error(`${path} is another's`);
    for (const path of ["", ".", "..", "a/../b"]) expect(() => mine.stream(path)).toThrow(TypeError);
    expect(() => new Sluice({ url: fixture.url, project: "../x" })).toThrow(TypeError);
  });

  test("are listed page by page, by prefix and by filter", async () => {
    const sluice = openClient(fixture.url, { project: "listing" });
    for (const n of numbersTo(7)) await sluice.stream(`list/${n % 2 === 0 ? "even" : "odd"}/${n}`).create();
    const paths = async (options: Parameters<Sluice["list"]>[0]) => {
      const all: string[] = [];
      for await (const { path } of sluice.list({ pageSize: 2, ...options })) all.push(path);
      return all;
    };
    expect(await paths({})).toHaveLength(7);
    expect(await paths({ prefix: "list/even/" })).toEqual(["list/even/0", "list/even/2", "list/even/4", "list/even/6"]);
    expect(await paths({ filter: "list/+/3" })).toEqual(["list/odd/3"]);
  });

  test("are listed to the end, over pages that are short or empty", async () => {
    const pages: Record<string, object> = {
      "": { streams: [], next: "a" },
      a: { streams: [{ path: "b" }], next: "c" },
      c: { streams: [], next: "d" },
      d: { streams: [{ path: "e" }] },
    };
    const fetch = async (url: string | URL | Request) =>
      Response.json(pages[new URL(String(url)).searchParams.get("after") ?? ""]);
    const found: string[] = [];
    for await (const { path } of openClient("http://127.0.0.1:1", { fetch }).list({ pageSize: 2 })) found.push(path);
    expect(found).toEqual(["b", "e"]);
  });

  test("reject an aborted call with the abort's reason, before and during the call", async () => {
    const sluice = openClient(fixture.url);
    const reason = new Error("changed my mind");
    await expect(sluice.stream("x").info({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const abort = new AbortController();
    const { fetch } = faultyFetch(() => ({ kind: "answer", status: 503, headers: { "Retry-After": "60" } }));
    const waiting = openClient(fixture.url, { fetch, retries: { giveUpMs: 90_000 } })
      .stream("x")
      .create({ signal: abort.signal });
    setTimeout(() => abort.abort(reason), 50);
    await expect(waiting).rejects.toBe(reason);
  });

  test("leave nothing at the signal of a caller that uses it for many calls", async () => {
    const { signal } = new AbortController();
    const stream = openClient(fixture.url).stream("calls/signal");
    await stream.create({ signal });
    await stream.append(1);
    expect(await valuesOf(stream, { signal })).toEqual([1]);
    await expect(openClient(fixture.url).stream("calls/none").info({ signal })).rejects.toMatchObject({ status: 404 });
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});
