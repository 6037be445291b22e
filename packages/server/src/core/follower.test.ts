import { ZERO } from "@sluice/protocol";
import { expect, test } from "vitest";
import { FakeSink } from "../../../../test/support/fake-sink.ts";
import {
  goOn,
  HandCodec,
  type HandPage,
  LogByHand,
  MESSAGE_BYTES,
  seenOf,
} from "../../../../test/support/log-by-hand.ts";
import { manualWorld } from "../../../../test/support/world.ts";
import { Audience } from "./audience.ts";
import { utf8 } from "./bytes.ts";
import { type Connection, Connections } from "./connection.ts";
import { Feeds } from "./feed.ts";
import { type FollowEnd, Follower, type FollowerParts } from "./follower.ts";
import { SSE } from "./sse.ts";

const PAGE_BYTES = 2 * MESSAGE_BYTES;

class Stage {
  readonly feeds = new Feeds<HandPage>();
  readonly codec = new HandCodec();
  private readonly connections: Connections;

  constructor(slowReaderBytes = 1_000_000) {
    const limits = { lifetimeMs: 60_000, heartbeatMs: 15_000, slowReaderBytes };
    this.connections = new Connections(manualWorld(1), new Audience(100), limits);
  }

  connect(sink: FakeSink): Connection {
    let opened!: Connection;
    this.connections.open({ sink, framing: SSE, onGone: () => {} }, (connection) => {
      opened = connection;
    });
    return opened;
  }

  follow(connection: Connection, log: LogByHand, more: Partial<FollowerParts<HandPage>> = {}) {
    const ends: FollowEnd[] = [];
    const onEnd = (why: FollowEnd) => void ends.push(why);
    const { feeds, codec } = this;
    const follower = new Follower({ log, feeds, connection, codec, onEnd, ...more });
    return { follower, ends };
  }

  /** One client that follows one log from its first page. */
  reader(log: LogByHand, page: HandPage, more: Partial<FollowerParts<HandPage>> = {}) {
    const sink = new FakeSink();
    const { follower, ends } = this.follow(this.connect(sink), log, more);
    follower.begin(page);
    return { sink, ends, follower, seen: () => seenOf(sink.text, log.key) };
  }
}

const numbers = (to: number, from = 1) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test("a reader gets no message twice when the feed reaches the position that it is reading", async () => {
  const stage = new Stage();
  const log = new LogByHand("a");
  log.append(2);
  const stale = log.firstPage();
  const first = stage.reader(log, log.firstPage());
  await log.answer();
  log.append(2);
  await log.answerAll();
  expect(first.seen()).toEqual(numbers(4));

  // The feed has overtaken this follower's first page, so the follower must read on by itself.
  const second = stage.reader(log, stale);
  await goOn();
  log.append(4);
  // The follower reads 3 and 4, the feed reads 5 and 6, then the follower reads 5 and 6, which the feed could have given it.
  await log.answer();
  await log.answer();
  await log.answerAll();
  expect(second.seen()).toEqual(numbers(8));
  expect(first.seen()).toEqual(numbers(8));

  log.append(1);
  await log.answerAll();
  expect(second.seen().at(-1)).toBe(9);
  first.sink.leave();
  second.sink.leave();
  expect([stage.feeds.size, log.watchers]).toEqual([0, 0]);
});

test("a reader that the feed has passed while it read gets the rest without another commit", async () => {
  const stage = new Stage();
  const log = new LogByHand("a");
  log.append(1);
  const first = stage.reader(log, log.firstPage());
  await log.answerAll();
  const late = new FakeSink();
  stage.follow(stage.connect(late), log).follower.resume(ZERO);
  log.look();
  log.append(1);
  // The feed's read comes back first; the late reader's read, without the second message, comes after it.
  await log.answer(1);
  expect(first.seen()).toEqual([1, 2]);
  await log.answerAll();
  expect(seenOf(late.text, "a")).toEqual([1, 2]);
  // The same for a follower that begins with a given page.
  const given = log.pageAfter(ZERO);
  log.append(1);
  await log.answerAll();
  const third = stage.reader(log, given);
  await goOn();
  await log.answerAll();
  expect(third.seen()).toEqual([1, 2, 3]);
});

test("readers of all formats of a log share one read per commit, and each format is encoded once", async () => {
  const stage = new Stage();
  const log = new LogByHand("a");
  const codecs = [new HandCodec("r"), new HandCodec("e")];
  const readers = codecs.flatMap((codec) => [1, 2, 3].map(() => stage.reader(log, log.firstPage(), { codec })));
  await log.answerAll();
  for (const codec of codecs) codec.encoded = 0;
  log.reads = 0;
  for (let commit = 0; commit < 5; commit++) {
    log.append(1);
    await log.answerAll();
  }
  expect([log.reads, ...codecs.map(({ encoded }) => encoded)]).toEqual([5, 5, 5]);
  expect(stage.feeds.size).toBe(1);
  expect(readers.map(({ sink }) => [...sink.text.matchAll(/r?e?(?=a:)/g)].map(String).join(""))).toEqual([
    ...Array(3).fill("rrrrr"),
    ...Array(3).fill("eeeee"),
  ]);
});

test("the trailer is encoded once per variant", async () => {
  const stage = new Stage();
  const log = new LogByHand("a");
  const made: number[] = [];
  const trailer = (_: HandPage, variant: number) => {
    made.push(variant);
    return utf8(`|${variant}|`);
  };
  const codec = Object.assign(new HandCodec(), { trailer });
  const readers = [7, 8, 7, 8].map((variant) => stage.reader(log, log.firstPage(), { codec, variant: () => variant }));
  await log.answerAll();
  made.length = 0;
  log.append(1);
  await log.answerAll();
  expect(made).toEqual([7, 8]);
  expect(readers.map(({ sink }) => sink.text.slice(-4))).toEqual([";|7|", ";|8|", ";|7|", ";|8|"]);
});

test("a connection follows many logs: each in order, and none waits for another that is long", async () => {
  const stage = new Stage();
  const sink = new FakeSink(false);
  const connection = stage.connect(sink);
  const logs = ["a", "b", "c"].map((name) => new LogByHand(name));
  logs[0]!.append(8);
  logs[1]!.append(4);
  for (const log of logs) stage.follow(connection, log).follower.resume(ZERO);
  const pages: string[] = [];
  for (let turn = 0; turn < 20; turn++) {
    const before = sink.text.length;
    for (const log of logs) if (log.waiting > 0) await log.answer();
    const sent = sink.text.slice(before);
    if (sent !== "") pages.push(/[abc]/.exec(sent)![0]);
    expect(sink.buffered).toBeLessThanOrEqual(PAGE_BYTES);
    sink.take();
    await goOn();
  }
  expect(pages.join("")).toBe("ababaa");
  for (const log of logs) log.append(1);
  for (const log of logs) await log.answerAll();
  expect(logs.map(({ key }) => seenOf(sink.text, key))).toEqual([numbers(9), numbers(5), [1]]);
  sink.leave();
  expect([stage.feeds.size, ...logs.map(({ watchers }) => watchers)]).toEqual([0, 0, 0, 0]);
});

test("a client is not slow because one of its logs catches up while another grows", async () => {
  // A page alone is more than the limit.
  const stage = new Stage(PAGE_BYTES - 1);
  const sink = new FakeSink(false);
  const connection = stage.connect(sink);
  const [long, busy] = [new LogByHand("long"), new LogByHand("busy")];
  long.append(6);
  stage.follow(connection, busy).follower.begin(busy.firstPage());
  await busy.answerAll();
  stage.follow(connection, long).follower.resume(ZERO);
  for (let turn = 1; turn <= 30; turn++) {
    if (turn <= 6) busy.append(1);
    if (long.waiting > 0) await long.answer();
    else if (busy.waiting > 0) await busy.answer();
    expect([sink.cutBy, sink.buffered <= 2 * PAGE_BYTES]).toEqual([undefined, true]);
    if (turn % 2 === 0) sink.take();
    await goOn();
  }
  expect([seenOf(sink.text, "long"), seenOf(sink.text, "busy")]).toEqual([numbers(6), numbers(6)]);
});

test("a page is read again if other logs have filled the connection", async () => {
  const stage = new Stage(2 * PAGE_BYTES);
  const sink = new FakeSink(false);
  const connection = stage.connect(sink);
  const [long, busy] = [new LogByHand("long"), new LogByHand("busy", 3)];
  long.append(2);
  stage.follow(connection, busy).follower.begin(busy.firstPage());
  await busy.answerAll();
  stage.follow(connection, long).follower.resume(ZERO);
  busy.append(3);
  await busy.answer();
  expect([sink.buffered, connection.isLoaded]).toEqual([3 * MESSAGE_BYTES, true]);
  await long.answer();
  expect([sink.buffered, seenOf(sink.text, "long")]).toEqual([3 * MESSAGE_BYTES, []]);
  sink.take();
  await goOn();
  await long.answerAll();
  expect([sink.cutBy, seenOf(sink.text, "long"), seenOf(sink.text, "busy")]).toEqual([
    undefined,
    numbers(2),
    numbers(3),
  ]);
});

test("a client is not slow because a burst of many pages comes at once", async () => {
  const stage = new Stage(5 * MESSAGE_BYTES);
  const log = new LogByHand("a");
  const sink = new FakeSink(false);
  stage.follow(stage.connect(sink), log).follower.begin(log.firstPage());
  await log.answerAll();
  log.append(20);
  for (let page = 0; page < 15; page++) {
    await log.answerAll();
    expect([sink.cutBy, sink.buffered <= 5 * MESSAGE_BYTES]).toEqual([undefined, true]);
    sink.take();
    await goOn();
  }
  expect(seenOf(sink.text, "a")).toEqual(numbers(20));
});

test("a client that does not read is cut off at the limit, with all its followers, and gets nothing more", async () => {
  const stage = new Stage(5 * MESSAGE_BYTES);
  const sink = new FakeSink(false);
  const connection = stage.connect(sink);
  const logs = ["a", "b"].map((name) => new LogByHand(name));
  const followed = logs.map((log) => stage.follow(connection, log));
  followed.forEach(({ follower }, i) => {
    follower.begin(logs[i]!.firstPage());
  });
  for (const log of logs) await log.answerAll();
  for (let commit = 0; commit < 10 && sink.cutBy === undefined; commit++) {
    const log = logs[commit % 2]!;
    log.append(1);
    await log.answerAll();
  }
  expect([sink.cutBy, sink.buffered]).toEqual(["slow-reader", 6 * MESSAGE_BYTES]);
  expect([stage.feeds.size, ...followed.map(({ ends }) => ends)]).toEqual([0, [], []]);
  sink.take();
  const late = [new LogByHand("c"), new LogByHand("d")];
  stage.follow(connection, late[0]!).follower.resume(ZERO);
  stage.follow(connection, late[1]!).follower.begin(late[1]!.firstPage());
  await goOn();
  expect([stage.feeds.size, ...late.map(({ reads }) => reads)]).toEqual([0, 0, 0]);
});

test("the end of one log is reported, and the connection continues with the others", async () => {
  const stage = new Stage();
  const sink = new FakeSink();
  const connection = stage.connect(sink);
  const logs = ["over", "gone", "replaced", "fault", "lasting"].map((name) => new LogByHand(name));
  const [over, gone, replaced, fault, lasting] = logs as [LogByHand, LogByHand, LogByHand, LogByHand, LogByHand];
  const followed = logs.map((log) => {
    log.append(1);
    return stage.follow(connection, log);
  });
  followed.forEach(({ follower }, i) => {
    follower.begin(logs[i]!.firstPage());
  });
  for (const log of logs) await log.answerAll();
  over.append(1);
  over.close();
  gone.delete();
  replaced.createAnew(3);
  fault.append(1);
  await fault.fail();
  lasting.append(1);
  for (const log of logs) await log.answerAll();
  expect(followed.map(({ ends }) => ends)).toEqual([["over"], ["gone"], ["replaced"], ["fault"], []]);
  expect(logs.map(({ key }) => seenOf(sink.text, key))).toEqual([[1, 2], [1], [1], [1], [1, 2]]);
  expect([sink.endedBy, connection.hasEnded, stage.feeds.size]).toEqual([undefined, false, 1]);
});

test("the same ends are reported to a follower that catches up", async () => {
  const logs = ["over", "gone", "replaced", "fault"].map((name) => new LogByHand(name));
  const readers = logs.map((log) => {
    log.append(3);
    return new Stage().reader(log, log.firstPage());
  });
  await goOn();
  logs[0]!.close();
  await logs[0]!.answer();
  logs[1]!.delete();
  await logs[1]!.answer();
  logs[2]!.createAnew(5);
  await logs[2]!.answer();
  await logs[3]!.fail();
  expect(readers.map(({ ends }) => ends)).toEqual([["over"], ["gone"], ["replaced"], ["fault"]]);
  expect(readers.map(({ seen }) => seen())).toEqual([
    [1, 2, 3],
    [1, 2],
    [1, 2],
    [1, 2],
  ]);
});

test("a log is followed on after failovers, at the tail and while catching up, unless one lost what the client saw", async () => {
  const [tail, behind, lost] = ["tail", "behind", "lost"].map((name) => new LogByHand(name)) as [
    LogByHand,
    LogByHand,
    LogByHand,
  ];
  tail.append(1);
  behind.append(3);
  lost.append(2);
  const readers = [tail, behind, lost].map((log) => new Stage().reader(log, log.firstPage()));
  await goOn();
  for (const log of [tail, lost]) await log.answerAll();
  for (const log of [tail, behind]) {
    log.failOver();
    log.append(1);
    await log.answerAll();
    log.failOver();
    log.append(2);
    await log.answerAll();
  }
  lost.failOver(1);
  lost.append(2);
  await lost.answerAll();
  expect(readers.map(({ ends }) => ends)).toEqual([[], [], ["replaced"]]);
  expect(readers.map(({ seen }) => seen())).toEqual([numbers(4), numbers(6), numbers(2)]);
});

test("a follower that waits for its log stays when the log is gone, though others of the same feed end", async () => {
  const stage = new Stage();
  const log = new LogByHand("a");
  log.append(1);
  const first = stage.reader(log, log.firstPage());
  await log.answerAll();
  const [patient, other] = [true, false].map((waits) => {
    const sink = new FakeSink();
    const { follower, ends } = stage.follow(stage.connect(sink), log, { waits });
    return { follower, ends, sink };
  });
  log.delete();
  await log.answerAll();
  expect(first.ends).toEqual(["gone"]);
  patient!.follower.resume(ZERO);
  other!.follower.resume(ZERO);
  await log.answerAll();
  expect([patient!.ends, other!.ends, stage.feeds.size]).toEqual([[], ["gone"], 1]);
  log.createAnew(3);
  await log.answerAll();
  expect([patient!.ends, seenOf(patient!.sink.text, "a")]).toEqual([[], numbers(3)]);
});

test("followers that wait for a log at different positions do not chase each other", async () => {
  const stage = new Stage();
  const log = new LogByHand("a");
  log.delete();
  const sinks = [{ generation: 1, seq: 5 }, ZERO].map((position) => {
    const sink = new FakeSink();
    stage.follow(stage.connect(sink), log, { waits: true }).follower.resume(position);
    return sink;
  });
  for (let i = 0; i < 20 && log.waiting > 0; i++) await log.answer();
  expect([log.waiting, log.reads <= 5]).toEqual([0, true]);
  log.createAnew(4);
  await log.answerAll();
  expect(sinks.map(({ text }) => seenOf(text, "a"))).toEqual([numbers(4), numbers(4)]);
});

test("a stopped follower gets nothing more, whatever it was doing", async () => {
  const stage = new Stage();
  const sink = new FakeSink(false);
  const connection = stage.connect(sink);
  const [tail, reading, queued] = [new LogByHand("tail"), new LogByHand("reading"), new LogByHand("queued")];
  for (const log of [tail, reading, queued]) log.append(1);
  const followed = [tail, reading, queued].map((log) => stage.follow(connection, log));
  followed[0]!.follower.begin(tail.pageAfter({ generation: 1, seq: 1 }));
  await tail.answerAll();
  followed[1]!.follower.resume(ZERO);
  followed[2]!.follower.resume(ZERO);
  for (const { follower } of followed) follower.stop();
  tail.append(1);
  await reading.answerAll();
  await goOn();
  expect([sink.text, tail.waiting, queued.reads]).toEqual(["", 0, 0]);
  expect([stage.feeds.size, connection.isPacing, ...followed.map(({ ends }) => ends)]).toEqual([0, false, [], [], []]);
});
