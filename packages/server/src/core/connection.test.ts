import { expect, test } from "vitest";
import { FakeSink } from "../../../../test/support/fake-sink.ts";
import { manualWorld } from "../../../../test/support/world.ts";
import { Audience, type Guest } from "./audience.ts";
import { utf8 } from "./bytes.ts";
import {
  type Connection,
  type ConnectionLimits,
  Connections,
  type Framing,
  type Opening,
  type Paced,
} from "./connection.ts";
import { SSE } from "./sse.ts";

const LIFETIME_MS = 60_000;
const HEARTBEAT_MS = 15_000;
const LIMIT_BYTES = 100;

function setUp(more: Partial<ConnectionLimits> = {}) {
  const manual = manualWorld(1);
  let timers = 0;
  const after = (ms: number, task: () => void) => {
    let isSet = true;
    const unset = () => {
      if (isSet) timers--;
      isSet = false;
    };
    timers++;
    const cancel = manual.after(ms, () => {
      unset();
      task();
    });
    return () => {
      unset();
      cancel();
    };
  };
  const world = { ...manual, after };
  const audience = new CountedAudience(10);
  const limits = { lifetimeMs: LIFETIME_MS, slowReaderBytes: LIMIT_BYTES, heartbeatMs: HEARTBEAT_MS, ...more };
  const connections = new Connections(world, audience, limits);
  const open = (
    sink: FakeSink,
    { framing = SSE, heartbeatMs }: Pick<Partial<Opening>, "framing" | "heartbeatMs"> = {},
  ) => {
    let opened!: Connection;
    connections.open({ sink, framing, heartbeatMs, onGone: audience.enter("p", sink) }, (connection) => {
      opened = connection;
    });
    return opened;
  };
  return { world, audience, connections, open, timers: () => timers };
}

class CountedAudience extends Audience {
  staying = 0;

  override stay(guest: Guest): void {
    super.stay(guest);
    this.staying++;
  }

  override go(guest: Guest): void {
    super.go(guest);
    this.staying--;
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));
const bytes = (count: number) => utf8("x".repeat(count));

/** A follower that records its turns and asks for a fixed number of them. */
class Taker implements Paced {
  isStopped = false;

  constructor(
    private readonly name: string,
    private readonly connection: Connection,
    private readonly told: string[],
    private left = 1,
  ) {
    connection.add(this);
  }

  ask(): void {
    this.connection.queue(this);
  }

  async turn(): Promise<void> {
    this.told.push(this.name);
    await settled();
    this.connection.send(bytes(10));
    if (--this.left > 0) this.ask();
  }

  stop(): void {
    this.isStopped = true;
  }
}

test("a quiet connection gets a heartbeat at every interval, counted from when it was opened", () => {
  const { world, open } = setUp();
  const first = new FakeSink();
  open(first);
  world.advance(5_000);
  const second = new FakeSink();
  open(second);
  world.advance(HEARTBEAT_MS - 5_000);
  expect([first.text, second.text]).toEqual([":\n\n", ""]);
  world.advance(5_000);
  expect([first.text, second.text]).toEqual([":\n\n", ":\n\n"]);
  world.advance(HEARTBEAT_MS * 2);
  expect([first.text, second.text]).toEqual([":\n\n".repeat(3), ":\n\n".repeat(3)]);
});

test("a connection can have an interval of its own", () => {
  const { world, open } = setUp();
  const sink = new FakeSink();
  open(sink, { heartbeatMs: 1_000 });
  world.advance(5_000);
  expect(sink.text).toBe(":\n\n".repeat(5));
});

test("no heartbeat is added to bytes that the client has not taken, and none follows the end", () => {
  const { world, open } = setUp();
  const sink = new FakeSink(false);
  const connection = open(sink);
  connection.send(utf8("data"));
  world.advance(HEARTBEAT_MS);
  expect(sink.text).toBe("data");
  sink.take();
  world.advance(HEARTBEAT_MS);
  expect(sink.text).toBe("data:\n\n");
  sink.take();
  connection.end("drained");
  world.advance(HEARTBEAT_MS * 2);
  expect(sink.text).toBe("data:\n\n: ended: drained\n\n");
});

test("a connection is ended when its time is up, and its client is told why", () => {
  const { world, open } = setUp();
  const sink = new FakeSink();
  const connection = open(sink);
  world.advance(LIFETIME_MS - 1);
  expect(sink.endedBy).toBeUndefined();
  world.advance(1);
  expect(sink.endedBy).toBe("time");
  expect(sink.text.endsWith(": ended: time\n\n")).toBe(true);
  connection.send(utf8("late"));
  connection.end("fault");
  expect([sink.endedBy, sink.text.includes("late")]).toEqual(["time", false]);
});

test("a client that does not take the rest is cut after the same time again, unless it has gone", () => {
  const { world, open } = setUp();
  const sinks = [new FakeSink(false), new FakeSink(false)];
  for (const sink of sinks) open(sink).send(bytes(10));
  world.advance(LIFETIME_MS);
  expect(sinks.map(({ endedBy }) => endedBy)).toEqual(["time", "time"]);
  sinks[1]!.leave();
  world.advance(LIFETIME_MS);
  expect(sinks.map(({ cutBy }) => cutBy)).toEqual(["slow-reader", undefined]);
});

test("a client that has not taken more than the limit is cut off at the next send, and its followers stop", () => {
  const { open } = setUp();
  const sink = new FakeSink(false);
  const connection = open(sink);
  const follower = new Taker("a", connection, []);
  // One send may exceed the limit by itself.
  connection.send(bytes(LIMIT_BYTES + 1));
  expect([sink.cutBy, follower.isStopped]).toEqual([undefined, false]);
  connection.send(bytes(1));
  expect([sink.cutBy, follower.isStopped, connection.hasEnded]).toEqual(["slow-reader", true, true]);
  expect(sink.text.length).toBe(LIMIT_BYTES + 1);
});

test("the client may get a more precise reason than the counted one", () => {
  const { open } = setUp();
  const sink = new FakeSink();
  open(sink).end("stream", "gone");
  expect([sink.endedBy, sink.text]).toEqual(["stream", ": ended: gone\n\n"]);
});

test("a connection's own messages go through its framing", () => {
  const { world, open } = setUp();
  const sink = new FakeSink();
  const framing: Framing = {
    beat: (to) => to.write(utf8("<ping>")),
    farewell: (to, why) => to.write(utf8(`<bye ${why}>`)),
  };
  const connection = open(sink, { framing });
  world.advance(HEARTBEAT_MS);
  connection.end("drained");
  expect(sink.text).toBe("<ping><bye drained>");
});

test("at shutdown every connection is ended; one that opens meanwhile sends its first page first", () => {
  const { audience, connections, open } = setUp();
  const early = new FakeSink();
  open(early);
  const late = new FakeSink();
  // A client that entered before the shutdown began and opened its connection after its first page was read.
  const onGone = audience.enter("p", late);
  audience.drain();
  connections.open({ sink: late, framing: SSE, onGone }, (connection) => connection.send(utf8("page\n\n")));
  expect([early.text, late.text]).toEqual([": ended: drained\n\n", "page\n\n: ended: drained\n\n"]);
  expect([early.endedBy, late.endedBy]).toEqual(["drained", "drained"]);
});

test("a connection whose client has gone leaves no timer, count or follower behind", () => {
  const { world, audience, connections, open, timers } = setUp();
  const sinks = [new FakeSink(), new FakeSink(false), new FakeSink()];
  const [quiet, slow, over] = sinks.map((sink) => open(sink, { heartbeatMs: 1_000 }));
  const follower = new Taker("a", quiet!, []);
  slow!.send(bytes(LIMIT_BYTES + 1));
  slow!.send(bytes(1));
  over!.end("stream");
  expect([connections.size, audience.size, timers() > 0]).toEqual([3, 3, true]);
  for (const sink of sinks) sink.leave();
  expect(follower.isStopped).toBe(true);
  expect([connections.size, audience.size, audience.staying, timers()]).toEqual([0, 0, 0, 0]);
  world.advance(LIFETIME_MS * 3);
  expect(sinks.map(({ endedBy }) => endedBy)).toEqual([undefined, undefined, "stream"]);
});

test("followers take turns, one page each, and the next begins when the client has taken the last", async () => {
  const { open } = setUp();
  const sink = new FakeSink(false);
  const connection = open(sink);
  const told: string[] = [];
  for (const name of ["a", "b", "c"]) new Taker(name, connection, told, 3).ask();
  await settled();
  expect(told).toEqual(["a"]);
  await settled();
  for (let turn = 2; turn <= 9; turn++) {
    expect([told.length, connection.isPacing]).toEqual([turn - 1, true]);
    sink.take(5);
    await settled();
    expect(told.length, "turns while bytes are on their way").toBe(turn - 1);
    sink.take();
    await settled();
    await settled();
  }
  expect(told.join("")).toBe("abcabcabc");
  expect(connection.isPacing).toBe(false);
});

test("a follower that has left, or whose connection has ended, gets no turn", async () => {
  const { open } = setUp();
  const sink = new FakeSink(false);
  const connection = open(sink);
  const told: string[] = [];
  const [a, b, c] = ["a", "b", "c"].map((name) => new Taker(name, connection, told));
  for (const taker of [a!, b!, c!]) taker.ask();
  connection.remove(b!);
  await settled();
  await settled();
  sink.take();
  await settled();
  await settled();
  expect(told).toEqual(["a", "c"]);
  b!.ask();
  connection.end("drained");
  sink.take();
  a!.ask();
  await settled();
  expect(told).toEqual(["a", "c"]);
});

test("a slow client gets a farewell where the framing wants it, and then a bounded time for the rest", () => {
  const { world, open, timers } = setUp({ lingerMs: 5_000 });
  const sink = new FakeSink(false);
  const connection = open(sink, { framing: { ...SSE, tellsSlow: true } });
  connection.send(bytes(LIMIT_BYTES + 1));
  connection.send(bytes(1));
  expect([sink.endedBy, sink.cutBy]).toEqual(["slow-reader", undefined]);
  expect(sink.text).toContain(": ended: slow-reader");
  world.advance(4_999);
  expect(sink.cutBy).toBeUndefined();
  world.advance(1);
  expect(sink.cutBy).toBe("slow-reader");
  sink.leave();
  expect(timers()).toBe(0);
});

test("a sink with a ping of its own is pinged instead, also while bytes wait for its client", () => {
  const { world, open } = setUp();
  let pings = 0;
  const sink = Object.assign(new FakeSink(false), { ping: () => void pings++ });
  open(sink).send(bytes(1));
  world.advance(2 * HEARTBEAT_MS);
  expect([pings, sink.text]).toEqual([2, "x"]);
});
