/** Readers of a channel: what they get when they come, come back, fall behind, or do not read at all. */
import { expect, it } from "vitest";
import { describeAloneAndShared, eventually, serverForTest } from "../e2e/server.ts";
import { Reader, readAll } from "./reader.ts";
import { Channel, codeOf, START, stage } from "./stage.ts";

const OFTEN = { channel: { rate: 1_000_000 } };
const upTo = (last: number, from = 0) => Array.from({ length: last - from + 1 }, (_, i) => from + i);

describeAloneAndShared("Following a channel", (engine) => {
  it("a reader gets what is there and what comes, as events with an offset, and is ended after END", async () => {
    const { url } = await serverForTest(engine, OFTEN);
    const a = new Channel(url, "a");
    const offset = await a.takes({ phase: "START", sequence: 0, messageId: "s", payload: { model: "m" } });
    const reader = await Reader.open(a.events);
    expect(reader.status).toBe(200);
    expect(reader.incoming.headers).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-cache, no-store, no-transform",
    });
    await reader.untilSequence(0);
    expect(reader.seen[0]).toEqual({
      event: "stream",
      id: offset,
      data: { messageId: "s", channelId: "a", phase: "START", sequence: 0, payload: { model: "m" } },
    });
    for (let sequence = 1; sequence <= 20; sequence++) {
      expect((await a.send("DELTA", sequence, `token ${sequence}`)).status).toBe(202);
    }
    await reader.untilSequence(20);
    expect(reader.ended).toBeUndefined();
    await a.takes({ phase: "END", sequence: 21 });
    await reader.untilEnded();
    expect(reader.ended).toBe("end");
    expect(reader.sequences).toEqual(upTo(21));
    const ids = reader.seen.map(({ id }) => id);
    expect([...ids].sort()).toEqual(ids);
    expect(new Set(ids).size).toBe(22);
  });

  it("a late joiner gets all that is kept, and every reader the same", async () => {
    const { url } = await serverForTest(engine, OFTEN);
    const a = new Channel(url, "a");
    await a.takes(START);
    const early = await Reader.open(a.events);
    await a.deltas(1, 50);
    const late = await Reader.open(a.events);
    await a.deltas(51, 60);
    await a.takes({ phase: "END", sequence: 61 });
    await Promise.all([early.untilEnded(), late.untilEnded()]);
    expect(early.sequences).toEqual(upTo(61));
    expect(late.seen).toEqual(early.seen);
    expect((await readAll(a.events)).seen).toEqual(early.seen);
  });

  it("a reader resumes after Last-Event-ID, or after from when the header is absent", async () => {
    const { url } = await serverForTest(engine, OFTEN);
    const a = new Channel(url, "a");
    await a.takes(START);
    await a.deltas(1, 5);
    const { seen } = await readAll(a.events, 5);
    const id = (sequence: number) => seen[sequence]!.id;
    expect((await readAll(`${a.events}?from=${id(2)}`, 5)).sequences).toEqual([3, 4, 5]);
    const header = { "Last-Event-ID": id(3) };
    expect((await readAll(`${a.events}?from=${id(0)}`, 5, header)).sequences).toEqual([4, 5]);
    expect((await readAll(`${a.events}?from=-1`, 5)).sequences).toEqual(upTo(5));
    const now = await Reader.open(`${a.events}?from=now`);
    await a.deltas(6, 6);
    await now.untilSequence(6);
    expect(now.sequences).toEqual([6]);
    for (const bad of ["x", "1", "0000"]) {
      const response = await fetch(`${a.events}?from=${bad}`);
      expect([response.status, await codeOf(response)]).toEqual([400, "bad-offset"]);
    }
    const twice = await fetch(`${a.events}?from=-1&from=now`);
    expect(twice.status).toBe(400);
  });

  it("a reader that has seen END is told that nothing follows, so that a browser does not come back", async () => {
    const { url } = await serverForTest(engine);
    const a = new Channel(url, "a");
    const end = await a.takes(START, { phase: "END", sequence: 1 });
    const response = await fetch(a.events, { headers: { "Last-Event-ID": end } });
    expect([response.status, await response.text()]).toEqual([204, ""]);
    expect((await readAll(a.events)).sequences).toEqual([0, 1]);
  });

  it("a channel that does not exist is 404, unless the reader waits for it", async () => {
    const { url, server } = await serverForTest(engine);
    const a = new Channel(url, "a");
    const response = await fetch(a.events);
    expect([response.status, await codeOf(response)]).toEqual([404, "channel-not-found"]);
    const waiting = await Promise.all([Reader.open(`${a.events}?wait=true`), Reader.open(`${a.events}?wait=true`)]);
    for (const { status } of waiting) expect(status).toBe(200);
    expect(server.tail.readers).toBe(2);
    await a.takes(START);
    await a.takes({ phase: "END", sequence: 1 });
    for (const reader of waiting) {
      await reader.untilEnded();
      expect(reader.sequences).toEqual([0, 1]);
      expect(reader.gaps).toEqual([]);
    }
    expect((await fetch(`${a.events}?wait=maybe`)).status).toBe(400);
  });

  it("a reader that waits for a channel is not given one that is over, although no sweep has come yet", async () => {
    const { channel, pass } = await stage(engine);
    const a = channel("a");
    const end = await a.takes(START, { phase: "END", sequence: 1 });
    pass(120_000);
    for (const address of [a.events, `${a.events}?from=now`, `${a.events}?from=${end}`]) {
      expect((await fetch(address)).status).toBe(404);
    }
    const reader = await Reader.open(`${a.events}?wait=true`);
    await a.takes({ phase: "START", sequence: 5 }, { phase: "END", sequence: 6 });
    await reader.untilEnded();
    expect(reader.sequences).toEqual([5, 6]);
  });

  it("readers that wait for a channel, one of whom has seen an earlier one, both get it", async () => {
    const { channel, pass, sweep } = await stage(engine);
    const a = channel("a");
    const end = await a.takes(START, { phase: "END", sequence: 1 });
    pass(120_000);
    await sweep();
    const readers = [
      await Reader.open(`${a.events}?wait=true`, { "Last-Event-ID": end }),
      await Reader.open(`${a.events}?wait=true`),
    ];
    await a.takes({ phase: "START", sequence: 5 }, { phase: "END", sequence: 6 });
    for (const reader of readers) {
      await reader.untilEnded();
      expect(reader.sequences).toEqual([5, 6]);
    }
    expect(readers.map(({ gaps }) => gaps.length)).toEqual([1, 0]);
  });

  it("a late joiner is first told that the beginning is gone", async () => {
    const { url } = await serverForTest(engine, { channel: { rate: 1_000_000, messages: 100 } });
    const a = new Channel(url, "a");
    await a.takes(START);
    for (let from = 1; from < 500; from += 100) await a.deltas(from, from + 99);
    const reader = await readAll(a.events, 500);
    const [gap, first] = reader.seen;
    expect(gap).toEqual({
      event: "gap",
      id: expect.any(String),
      data: { channelId: "a", after: null, earliest: gap!.id },
    });
    expect(first!.data.sequence).toBe(501 - reader.sequences.length);
    expect(reader.gaps.length).toBe(1);
    // Where the gap ends is where what is kept begins, so coming back there is no gap again.
    const again = await readAll(a.events, 500, { "Last-Event-ID": gap!.id });
    expect(again.seen).toEqual(reader.messages);
  });

  it("a reader that comes back after the log was trimmed further is told so, and gets what is kept", async () => {
    const { url } = await serverForTest(engine, { channel: { rate: 1_000_000, messages: 100 } });
    const a = new Channel(url, "a");
    await a.takes(START);
    await a.deltas(1, 10);
    const { lastId } = await readAll(a.events, 10);
    for (let from = 11; from < 511; from += 100) await a.deltas(from, from + 99);
    const back = await readAll(a.events, 510, { "Last-Event-ID": lastId });
    expect(back.seen[0]).toMatchObject({ event: "gap", data: { after: lastId } });
    expect(back.sequences.length).toBeGreaterThanOrEqual(100);
    expect(back.sequences.at(-1)).toBe(510);
  });

  it("a reader of an earlier channel of the same id is told so, and gets the new one", async () => {
    const { channel, pass, sweep } = await stage(engine);
    const a = channel("a");
    await a.takes(START, { phase: "DELTA", sequence: 1 });
    const { lastId } = await readAll(a.events, 1);
    pass(120_000);
    await sweep();
    await a.takes({ phase: "START", sequence: 0, payload: "new" });
    const back = await readAll(a.events, 0, { "Last-Event-ID": lastId });
    expect(back.seen.map(({ event }) => event)).toEqual(["gap", "stream"]);
    expect(back.messages[0]!.data.payload).toBe("new");
    // So is a reader that came back in between and waited.
    pass(120_000);
    await sweep();
    const waiting = await Reader.open(`${a.events}?wait=true`, { "Last-Event-ID": back.lastId });
    await a.takes({ phase: "START", sequence: 0 }, { phase: "END", sequence: 1 });
    await waiting.untilEnded();
    expect(waiting.seen.map(({ event }) => event)).toEqual(["gap", "stream", "stream"]);
  });

  it("readers of a channel that is cleaned up are ended", async () => {
    const { channel, pass, sweep, app } = await stage(engine);
    const a = channel("a");
    await a.takes(START);
    const reader = await Reader.open(a.events);
    await reader.untilSequence(0);
    // No reader lives that long by itself: they are ended after a minute, and this one has just come back.
    pass(59_000);
    const back = await Reader.open(a.events);
    await back.untilSequence(0);
    pass(61_000);
    await sweep();
    await back.untilEnded();
    expect(back.ended).toBe("end");
    await eventually(() => expect([app.channelRoutes.readers, app.channelRoutes.watched]).toEqual([0, 0]));
  });

  it("a quiet connection gets comments at the interval of the settings, and is ended after a minute", async () => {
    const { channel, pass } = await stage(engine, { internal: { channel: { heartbeatMs: 10_000 } } });
    const a = channel("a");
    await a.takes(START);
    const reader = await Reader.open(a.events);
    await reader.untilSequence(0);
    for (let beat = 1; beat <= 3; beat++) {
      pass(10_000);
      await reader.until(`comment ${beat}`, ({ comments }) => comments === beat);
    }
    pass(30_000);
    await reader.untilEnded();
    expect(reader.ended).toBe("end");
    expect(reader.sequences).toEqual([0]);
    expect(reader.lastComment).toBe("ended: time");
  });

  it("readers of channels count among all live readers, and are ended at a shutdown", async () => {
    const fixture = await serverForTest(engine, { tail: { readers: 2 } });
    const a = new Channel(fixture.url, "a");
    await a.takes(START);
    const readers = [await Reader.open(a.events), await Reader.open(a.events)];
    const refused = await fetch(a.events);
    expect([refused.status, await codeOf(refused)]).toEqual([503, "too-many-waiters"]);
    expect(refused.headers.get("retry-after")).toBe("1");
    readers[0]!.close();
    await eventually(() => expect(fixture.server.tail.readers).toBe(1));
    const third = await Reader.open(a.events);
    await third.untilSequence(0);
    await fixture.close();
    for (const reader of [readers[1]!, third]) {
      await reader.untilEnded();
      expect(reader.ended).toBe("end");
    }
    expect(fixture.server.tail.readers).toBe(0);
  });
});

it("a reader that does not read is cut off at the limit, and other readers get everything", async () => {
  const { url, server } = await serverForTest("memory", {
    channel: { rate: 1_000_000, messages: 10_000 },
    tail: { slowReaderBytes: 100_000 },
  });
  const a = new Channel(url, "a");
  await a.takes(START);
  const slow = await Reader.open(a.events);
  const quick = await Reader.open(a.events);
  await Promise.all([slow.untilSequence(0), quick.untilSequence(0)]);
  slow.incoming.pause();
  slow.incoming.socket.pause();
  let sequence = 0;
  // Until the socket buffers of both sides are full, and the limit after them.
  while (server.tail.readers === 2 && sequence < 5_000) {
    for (let i = 0; i < 20; i++) expect((await a.send("DELTA", ++sequence, "x".repeat(15_000))).status).toBe(202);
  }
  await eventually(() => expect(server.tail.readers).toBe(1));
  await quick.untilSequence(sequence);
  expect(quick.sequences).toEqual(upTo(sequence));
  expect(quick.gaps).toEqual([]);
  slow.close();
}, 60_000);

it("a reader that falls behind the trim is told what it missed, in its place", async () => {
  const { url } = await serverForTest("memory", {
    channel: { rate: 1_000_000, messages: 20 },
    stream: { pageBytes: 64 * 1024 },
  });
  const a = new Channel(url, "a");
  await a.takes(START);
  const reader = await Reader.open(a.events);
  await reader.untilSequence(0);
  reader.incoming.pause();
  reader.incoming.socket.pause();
  let sequence = 0;
  // More than the socket buffers of both sides hold.
  for (let i = 0; i < 700; i++) expect((await a.send("DELTA", ++sequence, "x".repeat(16_000))).status).toBe(202);
  reader.incoming.socket.resume();
  reader.incoming.resume();
  await reader
    .until(
      "the last message or the end",
      ({ sequences, ended }) => ended !== undefined || sequences.at(-1) === sequence,
    )
    .catch(() => {});
  const all = [...reader.seen];
  // It may have been cut off for being slow; then it comes back.
  if (reader.sequences.at(-1) !== sequence) {
    all.push(...(await readAll(a.events, sequence, { "Last-Event-ID": reader.lastId })).seen);
  }
  let expected = 0;
  for (const { event, data } of all) {
    if (event === "gap") expected = -1;
    else {
      if (expected >= 0) expect(data.sequence).toBe(expected);
      expected = data.sequence + 1;
    }
  }
  expect(all.filter(({ event }) => event === "gap").length).toBeGreaterThan(0);
  expect(expected).toBe(sequence + 1);
}, 60_000);

it("a draining server refuses readers", async () => {
  const { channel, app } = await stage("memory");
  const a = channel("a");
  await a.takes(START);
  app.drain();
  const response = await fetch(a.events);
  expect([response.status, await codeOf(response)]).toEqual([503, "draining"]);
});
