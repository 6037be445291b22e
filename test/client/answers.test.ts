/** Answers that a client must survive: not understood, without progress, lost, or never given. No server is needed for them. */
import { type Sluice, SluiceError, type SluiceOptions } from "@sluice/client";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type Fault, faultyFetch, type Plan } from "./faulty-fetch.ts";
import { openClient, QUICK, valuesOf } from "./open-client.ts";

const URL = "http://sluice.test";
const NEXT = { "Stream-Next-Offset": "07" };
const EVENTS = { "Content-Type": "text/event-stream" };

function scripted(plan: Plan, options: Partial<SluiceOptions> = {}) {
  const { fetch, sent } = faultyFetch(plan);
  return { sent, sluice: openClient(URL, { fetch, retries: { ...QUICK, giveUpMs: 60 }, ...options }) };
}

function answering(headers: Record<string, string>, body: string, status = 200): Fault {
  return { kind: "answer", status, headers, body };
}

async function all(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items);
}

const JSON_TYPE = { "Content-Type": "application/json" };
const HTML = answering({ "Content-Type": "text/html" }, "<html>Log in to the guest network</html>");

describe("an answer that is not understood", () => {
  test.each<[string, Fault, (sluice: Sluice) => Promise<unknown>]>([
    ["a list that is a page", HTML, (sluice) => all(sluice.list())],
    ["a list without streams", answering(JSON_TYPE, "{}"), (sluice) => all(sluice.list())],
    ["a list of null", answering(JSON_TYPE, "null"), (sluice) => all(sluice.list())],
    ["an info", HTML, (sluice) => sluice.stream("a").info()],
    ["a creation", HTML, (sluice) => sluice.stream("a").create()],
    ["an append", HTML, (sluice) => sluice.stream("a").append(1)],
    ["a close", answering(NEXT, ""), (sluice) => sluice.stream("a").close()],
    ["a read", HTML, (sluice) => all(sluice.stream("a").read())],
    ["a read that is no array", answering({ ...NEXT, ...JSON_TYPE }, "{}"), (sluice) => all(sluice.stream("a").read())],
    ["a read that is no JSON", answering({ ...NEXT, ...JSON_TYPE }, "[{"), (sluice) => all(sluice.stream("a").read())],
    ["a live read", HTML, (sluice) => all(sluice.stream("a").read({ live: true }))],
    [
      "a control event",
      answering(EVENTS, "event: control\ndata: null\n\n"),
      (sluice) => all(sluice.stream("a").read({ live: true })),
    ],
    [
      "bytes in events",
      answering(
        { ...EVENTS, "Stream-SSE-Data-Encoding": "base64" },
        `event: data\ndata: §\n\nevent: control\ndata: {"streamNextOffset":"07"}\n\n`,
      ),
      (sluice) => all(sluice.stream("a").read({ live: true })),
    ],
    [
      "a channel's event",
      answering(EVENTS, "id: 1\nevent: stream\ndata: nonsense\n\n"),
      (sluice) => all(sluice.channel("a").read()),
    ],
    ["a publish on a channel", HTML, (sluice) => sluice.channel("a").publish({ phase: "START", sequence: 0 })],
    ["a channel's publisher", HTML, (sluice) => sluice.channel("a").publisher({ intervalMs: 1 }).end()],
    ["an inbox", HTML, (sluice) => sluice.inbox(crypto.randomUUID()).info()],
  ])("to %s is a SluiceError that names the request", async (_, fault, call) => {
    const { sluice } = scripted(() => fault);
    const error = await call(sluice).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(SluiceError);
    expect(error).toMatchObject({ code: "bad-answer", status: 200 });
    const { method, url, message } = error as SluiceError;
    expect(url).toContain(`${URL}/v1/default/`);
    expect(message).toContain(`${method} ${url} answered 200`);
  });

  test("to an append may have stored it, so the append is retried under its number", async () => {
    const { sluice, sent } = scripted((_, i) => (i < 2 ? HTML : { kind: "answer", status: 204 }));
    await sluice.stream("a").append(1);
    expect(new Set(sent.map(({ headers }) => headers.get("producer-seq")))).toEqual(new Set(["0"]));
    expect(sent).toHaveLength(3);
  });
});

describe("a server that makes no progress", () => {
  const stuck = answering({ ...NEXT, ...JSON_TYPE }, "[]");
  const events = answering(EVENTS, `event: control\ndata: {"streamNextOffset":"07","upToDate":true}\n\n`);
  const patient = { retries: { minMs: 20, maxMs: 10_000, giveUpMs: 280 } };

  test.each<[string, Fault, (sluice: Sluice) => Promise<unknown>]>([
    ["a page that is not the last", stuck, (sluice) => all(sluice.stream("a").read({ from: "07" }))],
    ["pages as bytes", stuck, (sluice) => all(sluice.stream("a").pages({ from: "07" }))],
    [
      "a long-poll that does not wait",
      { ...stuck, status: 204, body: undefined } as unknown as Fault,
      (sluice) => all(sluice.stream("a").read({ from: "07", live: "long-poll", giveUpMs: 280 })),
    ],
    [
      "a long-poll that does not wait, with marks",
      { ...stuck, headers: { ...NEXT, "Stream-Up-To-Date": "true" }, body: "" } as Fault,
      (sluice) => all(sluice.stream("a").read({ from: "07", live: "long-poll", giveUpMs: 280, marks: true })),
    ],
    ["events that end at once", events, (sluice) => all(sluice.stream("a").read({ live: true, giveUpMs: 280 }))],
    [
      "a channel's last event again and again",
      answering(EVENTS, `id: 5\nevent: stream\ndata: {"phase":"DELTA","sequence":1}\n\n`),
      (sluice) => all(sluice.channel("a").read({ from: "5", giveUpMs: 280 })),
    ],
  ])("is asked with growing delays, and given up: %s", async (_, fault, call) => {
    const { sluice, sent } = scripted(() => fault, patient);
    await expect(call(sluice)).rejects.toMatchObject({ retryable: true });
    // Delays of 20 ms that double fit four times into 280 ms.
    expect(sent.length).toBeGreaterThan(2);
    expect(sent.length).toBeLessThan(9);
  });

  test("is asked with growing delays where only its long-poll fails", async () => {
    const { sluice, sent } = scripted(
      ({ url }) =>
        url.includes("live=") ? answering({}, "", 502) : answering({ ...NEXT, "Stream-Up-To-Date": "true" }, ""),
      patient,
    );
    const read = sluice.stream("a").read({ from: "07", live: "long-poll", giveUpMs: 280, marks: true });
    await expect(all(read)).rejects.toMatchObject({ status: 502 });
    expect(sent.length).toBeLessThan(18);
  });

  test("is not asked again and again when it moves a reader to and fro", async () => {
    const gap = (code: string, header: string, to: string) =>
      answering({ [header]: to }, JSON.stringify({ code, retryable: false }), 410);
    const { sluice, sent } = scripted(
      ({ url }) =>
        url.includes("offset=05")
          ? gap("offset-trimmed", "Stream-Earliest-Offset", "07")
          : gap("history-lost", "Stream-Next-Offset", "05"),
      patient,
    );
    await expect(all(sluice.stream("a").read({ from: "05" }))).rejects.toMatchObject({ code: "no-progress" });
    expect(sent.length).toBeLessThan(10);
  });

  test("ends a list that returns the same page again, and a read that repeats its messages", async () => {
    const { sluice } = scripted(({ url }) =>
      url.includes("/streams?")
        ? answering(JSON_TYPE, JSON.stringify({ streams: [], next: "x" }))
        : answering({ ...NEXT, ...JSON_TYPE }, "[1]"),
    );
    await expect(all(sluice.list({ prefix: "a" }))).rejects.toMatchObject({ code: "no-progress" });
    await expect(valuesOf(sluice.stream("a"), { from: "07" })).rejects.toMatchObject({ code: "bad-answer" });
  });
});

describe("a lost answer", () => {
  const lost = (then: Fault) => scripted((_, i) => (i === 0 ? { kind: "refuse" } : then)).sluice;
  const absent = answering({}, JSON.stringify({ code: "stream-not-found", retryable: false }), 404);

  test("to a delete makes a missing stream the wanted outcome, and the result says that it cannot tell more", async () => {
    expect(await lost(absent).stream("a").delete()).toEqual({ deleted: undefined });
    expect(await lost(absent).inbox(crypto.randomUUID()).delete()).toEqual({ deleted: undefined });
    expect(await lost({ kind: "answer", status: 204 }).stream("a").delete()).toEqual({ deleted: true });
    const { sluice } = scripted(() => absent);
    await expect(sluice.stream("a").delete()).rejects.toMatchObject({ code: "stream-not-found" });
  });

  test("to a create leaves open which try created the stream", async () => {
    const created = (sluice: Sluice) => sluice.stream("a").create();
    expect(await created(lost(answering(NEXT, "")))).toMatchObject({ created: undefined });
    expect(await created(lost(answering(NEXT, "", 201)))).toMatchObject({ created: true });
    // A refusal is an answer: the first try did nothing.
    const busy = answering({ "Retry-After": "0" }, "", 429);
    const { sluice } = scripted((_, i) => (i === 0 ? busy : answering(NEXT, "")));
    expect(await created(sluice)).toMatchObject({ created: false });
  });
});

describe("a request that gets no answer", () => {
  afterEach(() => vi.unstubAllGlobals());
  const failing = () =>
    scripted(() => ({ kind: "refuse" }))
      .sluice.stream("a")
      .info();

  test("names CORS in a page of another origin, and only there", async () => {
    await expect(failing()).rejects.toThrow(/^((?!CORS).)*$/);
    vi.stubGlobal("location", { origin: "https://app.example.com" });
    await expect(failing()).rejects.toThrow(/CORS: add https:\/\/app\.example\.com to its setting cors\.origins/);
    // An answer that breaks off shows that the browser let the request through.
    const broken = () => new ReadableStream({ start: (controller) => controller.error(new TypeError("cut")) });
    const answered = openClient(URL, { fetch: async () => new Response(broken()), retries: { giveUpMs: 0 } });
    await expect(answered.stream("a").create()).rejects.toThrow(/^the server cannot be reached: cut$/);
    vi.stubGlobal("location", { origin: URL });
    await expect(failing()).rejects.toThrow(/^((?!CORS).)*$/);
  });

  test("is given up after 30 s by default, and after as long as a call says", async () => {
    vi.useFakeTimers();
    const startedAt = Date.now();
    const { fetch } = faultyFetch(() => ({ kind: "refuse" }));
    const stream = openClient(URL, { fetch, retries: {} }).stream("a");
    const failed = (call: Promise<unknown>) => expect(call).rejects.toMatchObject({ code: "unreachable" });
    const [info, patient] = [stream.info(), stream.delete({ giveUpMs: 90_000 })];
    const times: number[] = [];
    for (const call of [info, patient]) call.catch(() => times.push(Date.now() - startedAt));
    await vi.advanceTimersByTimeAsync(200_000);
    vi.useRealTimers();
    await failed(info);
    await failed(patient);
    expect(times[0]).toBeGreaterThan(15_000);
    expect(times[0]).toBeLessThan(30_001);
    expect(times[1]).toBeGreaterThan(75_000);
    await failed(openClient(URL, { fetch }).stream("a").info({ giveUpMs: 0 }));
  });
});

test("headers and query parameters of the program go with every request, and the protocol's own win", async () => {
  let requests = 0;
  const done = { ...NEXT, "Stream-Up-To-Date": "true" };
  const { sluice, sent } = scripted(() => answering(done, ""), {
    token: "t",
    headers: () => ({ "X-Request": String(++requests), authorization: "Basic x", "content-TYPE": "text/odd" }),
    query: { region: "eu west", offset: "0" },
  });
  await sluice.stream("a").append(1);
  await all(sluice.stream("a").pages({ from: "07" }));
  const [append, read] = sent;
  expect(append!.url).toBe(`${URL}/v1/default/stream/a?region=eu%20west&offset=0`);
  expect(read!.url).toBe(`${URL}/v1/default/stream/a?region=eu%20west&offset=07`);
  expect(Object.fromEntries(append!.headers)).toMatchObject({
    "x-request": "1",
    authorization: "Bearer t",
    "content-type": "application/json",
  });
  expect(read!.headers.get("x-request")).toBe("2");
  const { sluice: broken } = scripted(() => ({ kind: "answer", status: 403 }), { query: { key: "secret" } });
  await expect(broken.stream("a").delete()).rejects.toMatchObject({ url: `${URL}/v1/default/stream/a` });
});

test("one signal serves many reads without a warning, and ends them all", async () => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => void warnings.push(warning);
  process.on("warning", warn);
  const abort = new AbortController();
  const { sluice } = scripted(() => ({ kind: "refuse" }), { retries: { minMs: 1_000 } });
  const reads = Array.from({ length: 30 }, () => all(sluice.stream("a").read({ live: true, signal: abort.signal })));
  await new Promise((resolve) => setTimeout(resolve, 20));
  abort.abort();
  await Promise.all(reads);
  process.off("warning", warn);
  expect(warnings).toEqual([]);
});
