import { SluiceError } from "@sluice/client";
import { beforeAll, describe, expect, test } from "vitest";
import { closeAfterSuite, type EngineName, type Fixture, openServer, serverForTest } from "../e2e/server.ts";
import { chance, type Fault, faultyFetch } from "./faulty-fetch.ts";
import { noUnhandledRejections, numbersTo, openClient, QUICK, valuesOf } from "./open-client.ts";

let names = 0;
const freshPath = () => `client/append-${names++}`;
const ignore = () => {};

for (const engine of ["memory", "disk"] as const satisfies EngineName[]) {
  describe(`appending (${engine})`, () => {
    let fixture: Fixture;
    beforeAll(async () => {
      fixture = await openServer(engine);
    });
    closeAfterSuite(() => fixture);

    test("appends of one turn, through any handle, share one request and keep their order", async () => {
      const { fetch, sent } = faultyFetch();
      const sluice = openClient(fixture.url, { fetch });
      const path = freshPath();
      await sluice.stream(path).create();
      await Promise.all(numbersTo(500).map((n) => sluice.stream(path).append(n)));
      expect(sent.filter(({ method }) => method === "POST")).toHaveLength(1);
      expect(await valuesOf(sluice.stream(path))).toEqual(numbersTo(500));
    });

    test("an append whose answer was lost is stored once", async () => {
      const { fetch, sent } = faultyFetch(({ method }, i) =>
        method === "POST" && i < 4 ? { kind: "lose-answer" } : undefined,
      );
      const stream = openClient(fixture.url, { fetch }).stream(freshPath());
      await stream.create();
      const { offset } = await stream.append("once");
      expect(sent.filter(({ method }) => method === "POST").length).toBeGreaterThan(2);
      expect(await valuesOf(stream)).toEqual(["once"]);
      expect((await stream.info()).offset).toBe(offset);
    });

    test.each([1, 2, 3])("faults of every kind on the way lose, repeat and reorder nothing (seed %i)", async (seed) => {
      const random = chance(seed);
      const faults: (Fault | undefined)[] = [
        { kind: "refuse" },
        { kind: "lose-answer" },
        { kind: "cut-body", afterBytes: 0 },
        { kind: "answer", status: 503, headers: { "Retry-After": "0" } },
        { kind: "answer", status: 502, body: "<html>" },
        { kind: "answer", status: 429, headers: { "Retry-After": "0.01" } },
      ];
      const plan = () => (random() < 0.5 ? faults[Math.floor(random() * faults.length)] : undefined);
      const { fetch } = faultyFetch(({ method }) => (method === "POST" ? plan() : undefined));
      const stream = openClient(fixture.url, { fetch, append: { batchMessages: 7 } }).stream(freshPath());
      await stream.create();
      for (const n of numbersTo(600)) {
        const appended = stream.append(n);
        if (random() < 0.1) await appended;
      }
      await stream.flush();
      expect(await valuesOf(stream)).toEqual(numbersTo(600));
    });

    test("a body that the server finds too large is sent in halves", async () => {
      const small = await serverForTest(engine, { stream: { bodyBytes: 2_000 } });
      const stream = openClient(small.url).stream(freshPath());
      await stream.create();
      const values = numbersTo(200).map((n) => ({ n, text: "x".repeat(30) }));
      await Promise.all(values.map((value) => stream.append(value)));
      expect(await valuesOf(stream)).toEqual(values);
      await expect(stream.append("y".repeat(3_000))).rejects.toMatchObject({ code: "too-large", retryable: false });
      await stream.append("after");
      expect((await valuesOf(stream)).at(-1)).toBe("after");
    });

    test("the newest client under a producer name writes, and earlier clients are refused for good", async () => {
      const path = freshPath();
      const [older, newer] = [openClient(fixture.url), openClient(fixture.url)].map((sluice) =>
        sluice.stream(path, { producer: "worker" }),
      );
      await older!.create();
      await older!.append("older");
      await newer!.append("newer");
      await expect(older!.append("late")).rejects.toMatchObject({ code: "producer-fenced" });
      await expect(older!.append("later")).rejects.toMatchObject({ code: "producer-fenced" });
      await newer!.append("newest");
      expect(await valuesOf(newer!)).toEqual(["older", "newer", "newest"]);
    });

    test("a stream that was created anew takes the next append, and reports that it lost its record of earlier ones", async () => {
      const stream = openClient(fixture.url).stream(freshPath());
      await stream.create();
      expect(await stream.append(1)).toMatchObject({ historyLost: false });
      await stream.append(2);
      await stream.delete();
      await stream.create();
      expect(await stream.append(3)).toMatchObject({ historyLost: true });
      expect(await stream.append(4)).toMatchObject({ historyLost: false });
      expect(await valuesOf(stream)).toEqual([3, 4]);
    });
  });
}

describe("appending", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  test("a client waits as long as the server asks before it retries", async () => {
    const { fetch, sent } = faultyFetch(({ method }, i) =>
      method === "POST" && i === 1 ? { kind: "answer", status: 503, headers: { "Retry-After": "1" } } : undefined,
    );
    const stream = openClient(fixture.url, { fetch }).stream(freshPath());
    await stream.create();
    await stream.append("patient");
    const [first, second] = sent.filter(({ method }) => method === "POST");
    // A timer may fire slightly ahead of the clock.
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(990);
  });

  test("a batch that is given up fails the batches behind it, and later appends arrive without them and report no loss", async () => {
    noUnhandledRejections();
    let isDown = false;
    const { fetch } = faultyFetch(({ method }) => (method === "POST" && isDown ? { kind: "refuse" } : undefined));
    const retries = { ...QUICK, giveUpMs: 100 };
    const stream = openClient(fixture.url, { fetch, retries, append: { batchMessages: 2 } }).stream(freshPath());
    await stream.append("old");
    isDown = true;
    const outcomes = await Promise.allSettled(numbersTo(5).map((n) => stream.append(n)));
    expect(outcomes.map(({ status }) => status)).toEqual(Array(5).fill("rejected"));
    expect((outcomes[0] as PromiseRejectedResult).reason).toMatchObject({ code: "unreachable", retryable: true });
    await expect(stream.flush()).rejects.toBeInstanceOf(SluiceError);
    isDown = false;
    expect(await stream.append("new")).toMatchObject({ historyLost: false });
    await stream.flush();
    expect(await valuesOf(stream)).toEqual(["old", "new"]);
  });

  test("a request that was given up cannot arrive after the appends that followed it", async () => {
    const { fetch, sent } = faultyFetch(({ method }, i) =>
      method === "POST" && i < 4 ? { kind: "refuse" } : undefined,
    );
    const stream = openClient(fixture.url, { fetch, retries: { ...QUICK, giveUpMs: 0 } }).stream(freshPath());
    await stream.create();
    await stream.append("first").catch(ignore);
    await stream.append("second").catch(ignore);
    await stream.append("third").catch(ignore);
    await stream.append("fourth");
    const [stray] = sent.filter(({ method }) => method === "POST");
    const { method, headers, body } = stray!;
    const late = await globalThis.fetch(stray!.url, { method, headers, body: body! });
    expect(late.status).toBe(403);
    expect(await valuesOf(stream)).toEqual(["fourth"]);
  });

  test("a failure whose promise is ignored does not end the process, and flush reports it once", async () => {
    noUnhandledRejections();
    const stream = openClient(fixture.url, { append: { batchMessages: 1 } }).stream("client/never-created", {
      create: false,
    });
    for (const n of numbersTo(3)) void stream.append(n);
    await expect(stream.flush()).rejects.toMatchObject({ code: "stream-not-found", status: 404, retryable: false });
    await stream.flush();
  });

  test("the queue is bounded: append rejects, and ready waits for room", async () => {
    let isDown = true;
    const { fetch } = faultyFetch(({ method }) => (method === "POST" && isDown ? { kind: "refuse" } : undefined));
    const stream = openClient(fixture.url, { fetch, append: { queueSize: 1_000 } }).stream<string>(freshPath());
    await stream.create();
    const text = "x".repeat(98);
    const accepted = numbersTo(10).map(() => stream.append(text));
    await expect(stream.append(text)).rejects.toMatchObject({ code: "queue-full" });
    let hasRoom = false;
    const room = stream.ready().then(() => {
      hasRoom = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(hasRoom).toBe(false);
    isDown = false;
    await room;
    await Promise.all(accepted);
    expect(await valuesOf(stream)).toHaveLength(10);
  });

  test("metadata goes with its own message only", async () => {
    const stream = openClient(fixture.url).stream(freshPath());
    await stream.create();
    void stream.append(1);
    void stream.append(2, { id: "m2", key: "k", attributes: { a: "b" } });
    void stream.append(3);
    await stream.flush();
    const items = [];
    for await (const item of stream.read()) items.push(item);
    expect(items).toMatchObject([{ value: 1 }, { value: 2, id: "m2", key: "k", attributes: { a: "b" } }, { value: 3 }]);
    expect(items[0]).not.toHaveProperty("key");
    expect(items[2]).not.toHaveProperty("key");
  });

  test("text and bytes are stored as they were appended", async () => {
    const sluice = openClient(fixture.url);
    const text = sluice.stream<string>(freshPath(), { contentType: "text/plain" });
    await text.create();
    for (const word of ["grüß", "dich\n", " \u{1f600}"]) void text.append(word);
    await text.flush();
    expect(await valuesOf(text)).toEqual(["grüß", "dich\n", " \u{1f600}"]);

    const bytes = sluice.stream<Uint8Array>(freshPath(), { contentType: "application/octet-stream" });
    await bytes.create();
    void bytes.append(new Uint8Array([0, 255, 10]));
    void bytes.append(new Uint8Array([13]));
    await bytes.flush();
    expect(await valuesOf(bytes)).toEqual([new Uint8Array([0, 255, 10]), new Uint8Array([13])]);
  });

  test("a value that cannot be sent is refused alone, and the appends around it succeed", async () => {
    noUnhandledRejections();
    const stream = openClient(fixture.url).stream(freshPath());
    await stream.create();
    const outcomes = await Promise.allSettled([stream.append(1), stream.append(undefined), stream.append(2)]);
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(await valuesOf(stream)).toEqual([1, 2]);
  });

  test("closing a stream waits for its appends, and closing the client sends the rest", async () => {
    const sluice = openClient(fixture.url);
    const stream = sluice.stream(freshPath());
    await stream.create();
    void stream.append(1);
    expect(await stream.close()).toMatchObject({ closed: true });
    expect(await valuesOf(stream, { live: true })).toEqual([1]);
    await expect(stream.append(2)).rejects.toMatchObject({ code: "stream-closed" });

    const other = sluice.stream(freshPath());
    await other.create();
    void other.append("left");
    await expect(sluice.close()).rejects.toMatchObject({ code: "stream-closed" });
    expect(await valuesOf(other)).toEqual(["left"]);
    await expect(other.append("more")).rejects.toMatchObject({ code: "closed" });
  });
});
