/**
 * Retention through HTTP: at least what was asked for is kept and at most a tenth more, by count, by bytes and by age. A read of
 * trimmed messages is refused, and a hold or a fork keeps what it needs. The rules have their tables in
 * `streams/retention.test.ts`, `life.test.ts` and `life-forks.test.ts`; here one engine shows that the parts work together.
 */
import { parseOffset } from "@sluice/protocol";
import { describe, expect, it } from "vitest";
import { type AppInTime, appInTime } from "./app-in-time.ts";
import { expectProblem } from "./problem.ts";
import { appended, create, describeOnEngines } from "./server.ts";

const JSON_TYPE = "application/json";
const BINARY = "application/octet-stream";

interface Kept {
  readonly messages: number;
  readonly bytes: number;
}

async function stream(app: AppInTime, path: string, headers: Record<string, string>, body?: string): Promise<string> {
  const url = `${app.url}/v1/stream/${path}`;
  const response = await create(url, { "Content-Type": JSON_TYPE, ...headers }, body);
  expect(response.status, await response.text()).toBe(201);
  return url;
}

async function kept(app: AppInTime, path: string): Promise<Kept> {
  const listed = (await (await fetch(`${app.url}/v1/streams?prefix=${path}&limit=1`)).json()) as { streams: Kept[] };
  return listed.streams[0]!;
}

async function readAll(url: string, offset = "-1"): Promise<number[]> {
  const messages: number[] = [];
  for (let at = offset; ; ) {
    const page = await fetch(`${url}?offset=${at}`);
    expect(page.status).toBe(200);
    messages.push(...((await page.json()) as number[]));
    at = page.headers.get("stream-next-offset")!;
    if (page.headers.get("stream-up-to-date")) return messages;
  }
}

/** Numbers from..to-1 as a JSON array. */
function numbers(from: number, to: number): string {
  return JSON.stringify(Array.from({ length: to - from }, (_, i) => from + i));
}

describe("retention by count", () => {
  it.each([
    [2, [1, 3]],
    [100, [1, 30, 250]],
  ])("keeps %i messages or a tenth more, after every append of %j at a time", async (limit, sizes) => {
    const app = await appInTime("memory");
    const url = await stream(app, "s", { "Stream-Max-Messages": String(limit) });
    let total = 0;
    for (let i = 0; i < 25; i++) {
      const size = sizes[i % sizes.length]!;
      await appended(url, JSON_TYPE, numbers(total, total + size));
      total += size;
      const { messages } = await kept(app, "s");
      expect(messages, `kept of ${total}`).toBeGreaterThanOrEqual(Math.min(limit, total));
      expect(messages * 10, `ten times what is kept of ${total}`).toBeLessThanOrEqual(limit * 11);
    }
    const { messages } = await kept(app, "s");
    expect(await readAll(url)).toEqual(Array.from({ length: messages }, (_, i) => total - messages + i));
  });

  it("is told by HEAD, cannot be changed by another PUT, and is refused by name when it is no positive integer", async () => {
    const app = await appInTime("memory");
    const headers = { "Stream-Max-Messages": "10", "Stream-Max-Bytes": "1000", "Stream-Max-Age-Seconds": "60" };
    const url = await stream(app, "s", headers);
    const head = await fetch(url, { method: "HEAD" });
    for (const [name, value] of Object.entries(headers)) {
      expect(head.headers.get(name)).toBe(value);
      const changed = await create(url, { "Content-Type": JSON_TYPE, ...headers, [name]: "77" });
      expect((await expectProblem(changed, 409, "stream-exists")).detail).toContain(name);
    }
    expect((await create(url, { "Content-Type": JSON_TYPE, ...headers })).status).toBe(200);
    for (const bad of ["0", "-1", "1.5", "", "many", "9007199254740992"]) {
      for (const name of Object.keys(headers)) {
        const refused = await create(`${url}-new`, { [name]: bad });
        expect((await expectProblem(refused, 400, "bad-header")).detail).toContain(name);
      }
    }
  });
});

describe("retention by bytes", () => {
  it.each([
    [1_000, [1, 50, 20]],
    [10_000, [4_000, 9_000, 30_000]],
  ])("keeps %i bytes or a tenth more, and no message in part: appends of %j", async (limit, sizes) => {
    const app = await appInTime("memory");
    const url = `${app.url}/v1/stream/s`;
    expect((await create(url, { "Stream-Max-Bytes": String(limit) })).status).toBe(201);
    const largest = Math.max(...sizes);
    let total = 0;
    for (let i = 0; i < 40; i++) {
      const size = sizes[i % sizes.length]!;
      await appended(url, BINARY, "x".repeat(size));
      total += size;
      const { bytes } = await kept(app, "s");
      expect(bytes, `kept of ${total}`).toBeGreaterThanOrEqual(Math.min(limit, total));
      // A message is kept or not; what begins before the limit is kept whole.
      const most = largest <= limit / 20 ? limit * 1.1 : limit * 1.1 + largest;
      expect(bytes, `kept of ${total}`).toBeLessThanOrEqual(most);
    }
    expect((await (await fetch(url)).text()).length).toBe((await kept(app, "s")).bytes);
  });
});

describe("retention by age", () => {
  it("keeps younger messages, and trims those older by more than a tenth, while appends go on", async () => {
    const app = await appInTime("memory");
    const url = await stream(app, "s", { "Stream-Max-Age-Seconds": "40" });
    const start = app.now();
    for (let second = 0; second < 90; second++) {
      await appended(url, JSON_TYPE, String(app.now() - start));
      await app.advance(1_000);
      if (second % 9 !== 8) continue;
      const elapsed = app.now() - start;
      const ages = (await readAll(url)).map((at) => elapsed - at);
      const young = Math.min(Math.ceil(elapsed / 1_000), 40);
      expect(ages.length).toBeGreaterThanOrEqual(young - 1);
      // A tenth, and a second for the sweep that comes every so often.
      expect(Math.max(...ages)).toBeLessThanOrEqual(45_000 + 1_000);
    }
  });

  it.each([1, 10, 100])("of %i s trims everything in time when no append follows", async (seconds) => {
    const app = await appInTime("memory");
    const url = await stream(app, "s", { "Stream-Max-Age-Seconds": String(seconds) }, "[1,2]");
    const last = await appended(url, JSON_TYPE, "[3]");
    await app.advance(seconds * 1_000 - 1);
    expect(await readAll(url)).toEqual([1, 2, 3]);
    await app.advance(seconds * 100 + 3_000);
    expect(await readAll(url)).toEqual([]);
    expect((await kept(app, "s")).messages).toBe(0);
    // The stream lives on, where it was.
    expect((await fetch(`${url}?offset=${last}`)).status).toBe(200);
    await appended(url, JSON_TYPE, "[4]");
    expect(await readAll(url, last)).toEqual([4]);
  });
});

describeOnEngines("a read of what was cut", (engine) => {
  it("is refused with 410 and names the earliest offset, from which every way of reading goes on", async () => {
    const app = await appInTime(engine);
    const url = await stream(app, "s", { "Stream-Max-Messages": "10" });
    const offsets: string[] = [];
    for (let i = 0; i < 40; i++) offsets.push(await appended(url, JSON_TYPE, String(i)));
    const first = await fetch(`${url}?offset=-1`);
    expect(await first.json()).toEqual([30, 31, 32, 33, 34, 35, 36, 37, 38, 39]);
    for (const live of ["", "&live=long-poll", "&live=sse"]) {
      for (const offset of [offsets[0], offsets[20], offsets[28]]) {
        const refused = await fetch(`${url}?offset=${offset}${live}`);
        const earliest = refused.headers.get("stream-earliest-offset")!;
        await expectProblem(refused, 410, "offset-trimmed");
        expect(earliest).toBe(offsets[29]);
        expect(await readAll(url, earliest)).toEqual([30, 31, 32, 33, 34, 35, 36, 37, 38, 39]);
      }
    }
    // The very edge, and everything after it, is still there.
    expect(await readAll(url, offsets[29])).toHaveLength(10);
    expect(await readAll(url, offsets[39])).toEqual([]);
    expect((await kept(app, "s")).messages).toBe(10);
  });
});

describe("what was cut", () => {
  it("cannot be forked from, while what is left can", async () => {
    const app = await appInTime("memory");
    const url = await stream(app, "s", { "Stream-Max-Messages": "10" });
    const offsets: string[] = [];
    for (let i = 0; i < 40; i++) offsets.push(await appended(url, JSON_TYPE, String(i)));
    const fork = (offset: string) =>
      create(`${url}-${offset}`, { "Stream-Forked-From": "s", "Stream-Fork-Offset": offset });
    expect((await expectProblem(await fork(offsets[5]!), 400, "bad-header")).detail).toContain("Stream-Fork-Offset");
    expect((await fork(offsets[32]!)).status).toBe(201);
    expect(await readAll(`${url}-${offsets[32]}`)).toEqual([30, 31, 32]);
  });
});

describe("a hold", () => {
  it("keeps what its holder needs from being cut, until the holder lets go", async () => {
    const app = await appInTime("memory");
    const url = await stream(app, "s", { "Stream-Max-Messages": "5" });
    const at = await appended(url, JSON_TYPE, numbers(0, 3));
    expect(await app.streams.hold("default", "s", "reader", parseOffset(at))).toBe("held");
    await appended(url, JSON_TYPE, numbers(3, 100));
    for (let i = 100; i < 150; i++) await appended(url, JSON_TYPE, String(i));
    expect((await readAll(url, at))[0]).toBe(3);
    expect((await kept(app, "s")).messages).toBeGreaterThanOrEqual(147);

    // The holder moves on, and what lies behind it goes.
    const envelopes = await (await fetch(`${url}?offset=${at}&format=envelope`)).json();
    const next = (envelopes as { offset: string }[])[96]!.offset;
    await app.streams.hold("default", "s", "reader", parseOffset(next));
    await appended(url, JSON_TYPE, "150");
    expect(await readAll(url, next)).toEqual(Array.from({ length: 51 }, (_, i) => 100 + i));
    expect((await kept(app, "s")).messages).toBeLessThanOrEqual(60);

    expect(await app.streams.hold("default", "s", "reader", undefined)).toBe("released");
    await appended(url, JSON_TYPE, "151");
    expect((await kept(app, "s")).messages).toBe(5);
  });
});

describe("a fork", () => {
  it("keeps what it reads of its source, whatever retention the source has", async () => {
    const app = await appInTime("memory");
    const url = await stream(app, "source", { "Stream-Max-Messages": "5" });
    const at = await appended(url, JSON_TYPE, numbers(0, 5));
    const fork = `${app.url}/v1/stream/fork`;
    expect((await create(fork, { "Stream-Forked-From": "source", "Stream-Fork-Offset": at })).status).toBe(201);
    await appended(fork, JSON_TYPE, "1000");
    for (let i = 5; i < 60; i += 5) await appended(url, JSON_TYPE, numbers(i, i + 5));
    expect(await readAll(fork)).toEqual([0, 1, 2, 3, 4, 1000]);

    expect((await fetch(fork, { method: "DELETE" })).status).toBe(204);
    await appended(url, JSON_TYPE, "60");
    expect((await kept(app, "source")).messages).toBe(5);
  });

  it("is trimmed by its own retention, and its source is not", async () => {
    const app = await appInTime("memory");
    const url = await stream(app, "source", {});
    await appended(url, JSON_TYPE, numbers(0, 10));
    const fork = `${app.url}/v1/stream/fork`;
    const headers = { "Stream-Forked-From": "source", "Stream-Max-Messages": "3" };
    expect((await create(fork, headers)).status).toBe(201);
    expect(await readAll(fork)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for (let i = 10; i < 20; i++) await appended(fork, JSON_TYPE, String(i));
    expect(await readAll(fork)).toEqual([17, 18, 19]);
    expect(await readAll(url)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});
