import type { Gap, Schema } from "@sluice/client";
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import {
  closeAfterSuite,
  eventually,
  type Fixture,
  nobodyIsLeft,
  openServer,
  serverForTest,
  within,
} from "../e2e/server.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";
import { chance, faultyFetch } from "./faulty-fetch.ts";
import { noUnhandledRejections, numbersTo, openClient, valuesOf } from "./open-client.ts";

let names = 0;
const freshPath = () => `client/read-${names++}`;
const LIVE = [true, "long-poll"] as const;

for (const engine of ["memory", "disk"] as const) {
  describe(`reading (${engine})`, () => {
    let fixture: Fixture;
    beforeAll(async () => {
      fixture = await openServer(engine, {
        stream: { pageBytes: 1_000 },
        tail: { sseMs: 300, heartbeatMs: 20 },
        longPollMs: 200,
      });
    });
    closeAfterSuite(() => fixture);

    test("a read yields every message, page by page, and resumes after any message", async () => {
      const stream = openClient(fixture.url).stream<number>(freshPath());
      await stream.create();
      for (const n of numbersTo(700)) void stream.append(n);
      await stream.flush();
      expect(await valuesOf(stream)).toEqual(numbersTo(700));
      const offsets: string[] = [];
      for await (const item of stream.read()) if (item.type === "message") offsets.push(item.offset);
      expect(await valuesOf(stream, { from: offsets[341] })).toEqual(numbersTo(700).slice(342));
      expect(await valuesOf(stream, { from: "now" })).toEqual([]);
    });

    test.each(LIVE)(
      "a live read yields old and then new messages, over many connections, until the end (live: %s)",
      async (live) => {
        const { fetch, sent } = faultyFetch();
        const sluice = openClient(fixture.url, { fetch });
        const stream = sluice.stream<number>(freshPath());
        await stream.create();
        for (const n of numbersTo(100)) void stream.append(n);
        await stream.flush();
        const reading = valuesOf(stream, { live });
        for (const n of numbersTo(8)) {
          await new Promise((resolve) => setTimeout(resolve, 100));
          await stream.append(100 + n);
        }
        await stream.close();
        expect(await within(20_000, "the end of the stream", reading)).toEqual(numbersTo(108));
        expect(sent.filter(({ url }) => url.includes("live=")).length).toBeGreaterThan(1);
        await nobodyIsLeft(fixture);
      },
    );

    test.each([1, 2, 3])("connections that break anywhere lose and repeat nothing (seed %i)", async (seed) => {
      const random = chance(seed);
      const { fetch } = faultyFetch(({ method }) => {
        if (method !== "GET" || random() < 0.2) return undefined;
        if (random() < 0.2) return { kind: "answer", status: 503, headers: { "Retry-After": "0" } };
        return { kind: "cut-body", afterBytes: Math.floor(random() * 4_000) };
      });
      const sluice = openClient(fixture.url);
      const path = freshPath();
      const stream = sluice.stream<number>(path);
      await stream.create();
      const faulty = openClient(fixture.url, { fetch }).stream<number>(path);
      const reading = LIVE.map((live) => valuesOf(faulty, { live }));
      for (const n of numbersTo(400)) {
        void stream.append(n);
        if (random() < 0.05) await stream.flush();
      }
      await stream.close();
      for (const values of reading) expect(await values).toEqual(numbersTo(400));
      expect(await valuesOf(faulty)).toEqual(numbersTo(400));
    });

    test.each(LIVE)(
      "messages that retention has trimmed are reported as a gap, in their place (live: %s)",
      async (live) => {
        const stream = openClient(fixture.url).stream<number>(freshPath());
        await stream.create({ maxMessages: 10 });
        const { offset } = await stream.append(0);
        for (const n of numbersTo(100)) void stream.append(n + 1);
        await stream.close();
        const items = [];
        for await (const item of stream.read({ from: offset, live })) items.push(item);
        const [gap, first, ...rest] = items;
        expect(gap).toMatchObject({ type: "gap", reason: "trimmed", from: offset });
        expect((gap as Gap).to > offset).toBe(true);
        const values = [first!, ...rest].map((item) => item.type === "message" && item.value);
        expect(values).toEqual(numbersTo(101).slice(-values.length));
        expect(values.length).toBeGreaterThanOrEqual(10);
        // From the beginning means from the oldest kept message.
        expect(await valuesOf(stream, { live })).toEqual(values);
      },
    );

    test.each(LIVE)(
      "a reader that aborts or leaves ends without an error and leaves nothing behind (live: %s)",
      async (live) => {
        noUnhandledRejections();
        // This server ends no connection by itself.
        const patient = await serverForTest(engine);
        const stream = openClient(patient.url).stream<number>(freshPath());
        await stream.create();
        for (const n of numbersTo(5)) void stream.append(n);
        await stream.flush();

        expect(await valuesOf(stream, { live }, 3)).toEqual([0, 1, 2]);
        const abort = new AbortController();
        const all: number[] = [];
        for await (const item of stream.read({ live, signal: abort.signal })) {
          // Later, when the reader waits for more.
          if (item.type === "message" && all.push(item.value) === 5) setTimeout(() => abort.abort(), 50);
        }
        expect(all).toEqual(numbersTo(5));
        expect(await valuesOf(stream, { live, signal: abort.signal })).toEqual([]);

        const inside = new AbortController();
        const seen: number[] = [];
        for await (const item of stream.read({ live, signal: inside.signal })) {
          if (item.type === "message") seen.push(item.value);
          if (seen.length === 2) inside.abort();
        }
        expect(seen).toEqual([0, 1]);
        await nobodyIsLeft(patient);
      },
    );
  });
}

describe("reading", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  test("a history that a failover has lost is reported as a gap", async () => {
    const path = freshPath();
    const stream = openClient(fixture.url).stream<number>(path);
    await stream.create();
    const { offset: survived } = await stream.append(1);
    const { offset: lost } = await stream.append(2);
    const body = JSON.stringify({ code: "history-lost", retryable: false });
    const { fetch } = faultyFetch(({ url }) =>
      url.includes(`offset=${lost}`)
        ? { kind: "answer", status: 410, headers: { "Stream-Next-Offset": survived }, body }
        : undefined,
    );
    const items = [];
    for await (const item of openClient(fixture.url, { fetch }).stream<number>(path).read({ from: lost }))
      items.push(item);
    expect(items).toMatchObject([
      { type: "gap", reason: "lost", from: lost, to: survived },
      { type: "message", value: 2 },
    ]);
  });

  test("a connection that breaks at any byte loses and repeats nothing", async () => {
    const path = freshPath();
    const stream = openClient(fixture.url).stream<number>(path);
    await stream.create();
    for (const n of [1, 2, 3]) await stream.append(n);
    await stream.close();
    for (let afterBytes = 0; afterBytes < 700; afterBytes += 3) {
      const { fetch } = faultyFetch((_, i) => (i === 0 ? { kind: "cut-body", afterBytes } : undefined));
      const cut = openClient(fixture.url, { fetch }).stream<number>(path);
      expect(await valuesOf(cut, { live: true }), `cut after ${afterBytes} bytes`).toEqual([1, 2, 3]);
    }
  });

  test("a dead connection is replaced after some silence", async () => {
    const proxy = await TcpProxy.open(0, fixture.port);
    try {
      const stream = openClient(fixture.url).stream<number>(freshPath());
      await stream.create();
      await stream.append(0);
      const through = openClient(`http://127.0.0.1:${proxy.port}`, { timeoutMs: 300 }).stream<number>(stream.path);
      const seen: number[] = [];
      const reading = (async () => {
        for await (const item of through.read({ live: true, silenceMs: 300 })) {
          if (item.type === "message") seen.push(item.value);
        }
      })();
      await eventually(() => expect(seen).toEqual([0]));
      proxy.cut();
      await stream.append(1);
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(seen).toEqual([0]);
      proxy.heal();
      await eventually(() => expect(seen).toEqual([0, 1]));
      await stream.close();
      await reading;
    } finally {
      await proxy.close();
    }
  });

  // Limits above and below the default buffers of sockets, which differ between versions of Node.
  test.each([100_000, 20_000, 2_000])(
    "a reader that stops reading delays no other client, and misses nothing when it resumes (limit %i)",
    async (bytes) => {
      const slow = await serverForTest("memory", { tail: { slowReaderBytes: bytes }, stream: { pageBytes: bytes } });
      const stream = openClient(slow.url).stream<{ n: number; text: string }>(freshPath());
      await stream.create();
      const text = "x".repeat(1_000);
      const seen: number[] = [];
      const reading = (async () => {
        for await (const item of stream.read({ live: true })) {
          if (item.type !== "message") throw new Error("a gap");
          if (seen.push(item.value.n) === 1) await new Promise((resolve) => setTimeout(resolve, 300));
        }
      })();
      for (const n of numbersTo(3_000)) {
        void stream.append({ n, text });
        if (n % 200 === 0) await stream.flush();
      }
      await stream.close();
      await reading;
      expect(seen).toEqual(numbersTo(3_000));
    },
  );

  test("a missing stream, a deleted one, or an offset beyond the end is an error, live or not", async () => {
    const stream = openClient(fixture.url).stream(freshPath());
    for (const live of [false, ...LIVE]) {
      await expect(valuesOf(stream, { live })).rejects.toMatchObject({ code: "stream-not-found", status: 404 });
    }
    await stream.create();
    const beyond = "9000000000000000_0000000000000001";
    await expect(valuesOf(stream, { from: beyond })).rejects.toMatchObject({ code: "offset-ahead" });
    await expect(valuesOf(stream, { from: "nonsense" })).rejects.toMatchObject({ code: "bad-offset" });
    const reading = valuesOf(stream, { live: true });
    const failing = expect(reading).rejects.toMatchObject({ code: "stream-not-found" });
    await eventually(() => expect(fixture.server.tail.readers).toBe(1));
    await stream.delete();
    await failing;
  });

  test.each(LIVE)("marks tell where a read has caught up and where the stream is closed (live: %s)", async (live) => {
    const stream = openClient(fixture.url).stream<number>(freshPath());
    await stream.create();
    const seen: unknown[] = [];
    const reading = (async () => {
      for await (const item of stream.read({ live, marks: true })) {
        seen.push(item.type === "message" ? item.value : item.type);
        expect(item).toHaveProperty("offset", expect.any(String));
      }
    })();
    // An empty stream is caught up with at once; messages that arrive one by one leave the reader there.
    await eventually(() => expect(seen).toEqual(["caught-up"]));
    await stream.append(1);
    await eventually(() => expect(seen).toEqual(["caught-up", 1]));
    await stream.close();
    await reading;
    expect(seen).toEqual(["caught-up", 1, "closed"]);
    const all: unknown[] = [];
    for await (const item of stream.read({ marks: true })) all.push(item.type);
    expect(all).toEqual(["message", "caught-up", "closed"]);
    for await (const page of stream.pages()) expect(page).toMatchObject({ upToDate: true, closed: true });
  });

  test.each(["beginning", "now"] as const)(
    "a read waits for a stream that does not exist yet (from %s)",
    async (from) => {
      const stream = openClient(fixture.url).stream<number>(freshPath());
      for (const live of [false, ...LIVE]) {
        await expect(valuesOf(stream, { from, live, waitMs: 20 })).rejects.toMatchObject({ code: "stream-not-found" });
      }
      const reading = LIVE.map((live) => valuesOf(stream, { from, live, waitMs: Number.POSITIVE_INFINITY }));
      await new Promise((resolve) => setTimeout(resolve, 50));
      await stream.append(1);
      await stream.close();
      for (const values of reading) expect(await within(20_000, "the first message", values)).toEqual([1]);
      await stream.delete();
      // A stream that was read before is not waited for.
      const offset = "0000000000000001_0000000000000001";
      await expect(valuesOf(stream, { from: offset, waitMs: 10_000 })).rejects.toMatchObject({ status: 404 });
    },
  );

  test("a live read gives up after the given time, with the reason", async () => {
    const { fetch } = faultyFetch(() => ({ kind: "refuse" }));
    const attempts: number[] = [];
    const retries = { minMs: 1, maxMs: 10, onRetry: ({ attempt }: { attempt: number }) => void attempts.push(attempt) };
    const stream = openClient(fixture.url, { fetch, retries }).stream(freshPath());
    await expect(valuesOf(stream, { live: true, giveUpMs: 100 })).rejects.toMatchObject({ code: "unreachable" });
    expect(attempts.slice(0, 3)).toEqual([1, 2, 3]);
  });

  test("a schema of any library that follows the standard types both directions", async () => {
    const schema = z.object({ op: z.enum(["insert", "delete"]), at: z.string().transform(Number) });
    const stream = openClient(fixture.url).stream(freshPath(), { schema });
    await stream.create();
    await stream.append({ op: "insert", at: "7" });
    // @ts-expect-error no such edit
    await expect(stream.append({ op: "rename", at: "7" })).rejects.toMatchObject({ code: "invalid-value" });
    const seen: { op: "insert" | "delete"; at: number }[] = [];
    for await (const item of stream.read()) if (item.type === "message") seen.push(item.value);
    expect(seen).toEqual([{ op: "insert", at: 7 }]);
  });

  test("a schema checks appended values and transforms read ones", async () => {
    const path = freshPath();
    const sluice = openClient(fixture.url);
    const stream = sluice.stream(path, { schema: wordLength });
    await stream.create();
    await stream.append("four");
    await expect(stream.append("")).rejects.toMatchObject({ code: "invalid-value", message: "is empty" });
    // @ts-expect-error a number is no word
    await expect(stream.append(5)).rejects.toMatchObject({ code: "invalid-value" });
    await sluice.stream(path).append(["not", "a", "word"]);
    await stream.append("seven");

    const lengths: number[] = [];
    let offset = "";
    const read = async (from?: string) => {
      for await (const item of stream.read({ from })) if (item.type === "message") lengths.push(item.value.length);
    };
    await read().catch((error) => {
      expect(error).toMatchObject({ code: "invalid-value", issues: [{ message: "is no word" }] });
      offset = error.offset;
    });
    await read(offset);
    expect(lengths).toEqual([4, 5]);
  });
});

/** Written by hand, to show that no schema library is needed. */
const wordLength: Schema<string, { length: number }> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) => {
      if (typeof value !== "string") return { issues: [{ message: "is no word" }] };
      return value === "" ? { issues: [{ message: "is empty" }] } : { value: { length: value.length } };
    },
  },
};
