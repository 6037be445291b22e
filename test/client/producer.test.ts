import type { Stream } from "@sluice/client";
import { beforeAll, describe, expect, test } from "vitest";
import { closeAfterSuite, type Fixture, openServer } from "../e2e/server.ts";
import { faultyFetch } from "./faulty-fetch.ts";
import { noUnhandledRejections, openClient, QUICK, valuesOf } from "./open-client.ts";

let names = 0;
const freshPath = () => `client/producer-${names++}`;

describe("a producer", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  async function fencedPair(): Promise<[older: Stream, newer: Stream]> {
    const path = freshPath();
    const [older, newer] = [openClient(fixture.url), openClient(fixture.url)].map((sluice) =>
      sluice.stream(path, { producer: "worker" }),
    );
    await older!.append("older");
    await newer!.append("newer");
    return [older!, newer!];
  }

  test("that is fenced cannot close the stream, with or without a last message", async () => {
    noUnhandledRejections();
    const [older, newer] = await fencedPair();
    await expect(older.close()).rejects.toMatchObject({ code: "producer-fenced" });
    const [another] = await fencedPair();
    await expect(another.close({ message: "late" })).rejects.toMatchObject({ code: "producer-fenced" });
    expect(await newer.info()).toMatchObject({ closed: false });
    await newer.append("more");
    expect(await newer.close({ message: "last" })).toMatchObject({ closed: true });
    expect(await valuesOf(newer)).toEqual(["older", "newer", "more", "last"]);
  });

  test("closes and stores its last message once, although answers are lost", async () => {
    const { fetch, sent } = faultyFetch(({ headers }, i) =>
      headers.has("stream-closed") && i < 4 ? { kind: "lose-answer" } : undefined,
    );
    const stream = openClient(fixture.url, { fetch }).stream(freshPath());
    void stream.append(1);
    const { offset, closed } = await stream.close({ message: 2, metadata: { key: "k" } });
    const closes = sent.filter(({ headers }) => headers.has("stream-closed"));
    expect(closes.length).toBeGreaterThan(1);
    expect(new Set(closes.map(({ headers }) => headers.get("producer-seq")))).toEqual(new Set(["1"]));
    expect({ offset, closed }).toEqual({ offset: (await stream.info()).offset, closed: true });
    expect(await valuesOf(stream)).toEqual([1, 2]);
    await expect(stream.close({ message: 3 })).rejects.toMatchObject({ code: "stream-closed" });
  });

  test("finds a stream that another client has closed closed, and does not create one to close it", async () => {
    const stream = openClient(fixture.url).stream(freshPath());
    await expect(stream.close()).rejects.toMatchObject({ code: "stream-not-found" });
    await stream.append(1);
    const { offset } = await openClient(fixture.url).stream(stream.path).close();
    expect(await stream.close()).toEqual({ offset, closed: true, historyLost: false });
    const { fetch, sent } = faultyFetch(({ method }, i) =>
      method === "POST" && i === 0 ? { kind: "refuse" } : undefined,
    );
    const unnumbered = openClient(fixture.url, { fetch }).stream(stream.path, { producer: false });
    expect(await unnumbered.close()).toMatchObject({ offset });
    expect(sent.map(({ headers }) => headers.has("producer-id"))).toEqual([false, false]);
  });

  test("with numbers of its own stores each message once, over a restart that appends them again", async () => {
    const path = freshPath();
    for (const values of [
      ["a", "b"],
      ["a", "b", "c", "d"],
    ]) {
      const stream = openClient(fixture.url).stream(path, { producer: { id: "importer", epoch: 7 } });
      for (const value of values) void stream.append(value);
      await stream.flush();
    }
    const rest = openClient(fixture.url).stream(path, { producer: { id: "importer", epoch: 7, seq: 4 } });
    await rest.append("e");
    expect(await valuesOf(rest)).toEqual(["a", "b", "c", "d", "e"]);
  });

  test("with numbers of its own goes on after a refusal, and stops where its numbers become uncertain", async () => {
    noUnhandledRejections();
    let isDown = false;
    const { fetch, sent } = faultyFetch(({ method }) => (method === "POST" && isDown ? { kind: "refuse" } : undefined));
    const retries = { ...QUICK, giveUpMs: 30 };
    const producer = { id: "importer", epoch: 1 };
    const stream = openClient(fixture.url, { fetch, retries }).stream(freshPath(), { producer });
    await stream.append("a");
    await expect(stream.append("x", { attributes: { big: "y".repeat(5_000) } })).rejects.toMatchObject({ status: 400 });
    await stream.append("b");
    isDown = true;
    await expect(stream.append("c")).rejects.toMatchObject({ code: "unreachable" });
    isDown = false;
    await expect(stream.append("d")).rejects.toMatchObject({ code: "unreachable" });
    expect(await valuesOf(stream)).toEqual(["a", "b"]);
    expect(sent.every(({ headers }) => (headers.get("producer-epoch") ?? "1") === "1")).toBe(true);

    // A restart under the same numbers, which begins behind what the server has, is told so at once.
    const behind = openClient(fixture.url).stream(stream.path, { producer: { ...producer, seq: 9 } });
    await expect(behind.append("z")).rejects.toMatchObject({ code: "producer-gap" });
    await openClient(fixture.url)
      .stream(stream.path, { producer: { ...producer, epoch: 2 } })
      .append("new");
    const stale = openClient(fixture.url).stream(stream.path, { producer });
    await expect(stale.append("z")).rejects.toMatchObject({ code: "producer-fenced" });
    expect(await valuesOf(stream)).toEqual(["a", "b", "new"]);
  });

  test("may order its appends by Stream-Seq, and a repeated request is no regression", async () => {
    noUnhandledRejections();
    const { fetch } = faultyFetch(({ method, headers }, i) =>
      method === "POST" && headers.get("stream-seq") === "0002" && i < 4 ? { kind: "lose-answer" } : undefined,
    );
    const stream = openClient(fixture.url, { fetch }).stream(freshPath());
    for (const seq of ["0001", "0002"]) await stream.append(seq, { seq });
    await expect(stream.append("again", { seq: "0002" })).rejects.toMatchObject({ code: "sequence-regression" });
    await stream.append("0003", { seq: "0003", attributes: { word: "grüß \u{1f600}" } });
    const items = [];
    for await (const item of stream.read()) items.push(item);
    expect(items).toMatchObject([
      { value: "0001" },
      { value: "0002" },
      { value: "0003", attributes: { word: "grüß \u{1f600}" } },
    ]);
  });

  test("of a sharded topic reaches every shard, and reports no loss where a shard sees it for the first time", async () => {
    const topic = openClient(fixture.url).stream(freshPath());
    await topic.create({ shards: 4 });
    const results = [];
    for (const key of "abcdefgh") results.push(await topic.append(key, { key }));
    results.push(await topic.close());
    expect(results.filter(({ historyLost }) => historyLost)).toEqual([]);
    const sizes = [];
    for await (const { messages } of openClient(fixture.url).list({ prefix: `${topic.path}/$shard/` }))
      sizes.push(messages);
    expect(sizes.reduce((sum, size) => sum + size)).toBe(8);
    expect(sizes.filter((size) => size > 0).length).toBeGreaterThan(1);
  });
});
