/**
 * Forks of streams whose Redis has failed over: one log then holds messages of several generations. A single Redis stands for
 * the cluster: it is given another history as a failover gives it, and loses the end of one by being set back.
 */
import { formatOffset, type Position } from "@sluice/protocol";
import { describe, expect, it } from "vitest";
import { utf8 } from "../../packages/server/src/core/bytes.ts";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { Keepers } from "../../packages/server/src/engine/keeper.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import type { CreateResult } from "../../packages/server/src/streams/life.ts";
import { type Fork, Streams } from "../../packages/server/src/streams/service.ts";
import { opened, single } from "../contract/redis-fixture.ts";
import { sleep } from "../support/eventually.ts";
import type { RedisServer } from "../support/redis.ts";

const TEXT = { contentType: "text/plain" };
const PAGE_BYTES = 1 << 20;

class Stage {
  readonly streams: Streams;

  constructor(
    private readonly server: RedisServer,
    readonly engine: Engine,
  ) {
    const world = realWorld();
    this.streams = new Streams(engine, new Keepers(engine, (task) => world.soon(task)), world);
  }

  /** Appends each text and returns the offsets after them. */
  async append(path: string, ...texts: string[]): Promise<Position[]> {
    const offsets: Position[] = [];
    for (const text of texts) {
      const done = await this.streams.append("p", path, { body: utf8(text), contentType: "text/plain", close: false });
      if (done.kind !== "appended") throw new Error(done.kind);
      offsets.push(done.next);
    }
    return offsets;
  }

  create(path: string): Promise<CreateResult> {
    return this.streams.create("p", path, { config: TEXT, closed: false });
  }

  async fork(path: string, source: string, at?: Position, subOffset = 0): Promise<string> {
    const fork: Fork = { source, offset: at && formatOffset(at), subOffset };
    return (await this.streams.create("p", path, { config: {}, closed: false, fork })).kind;
  }

  async close(path: string): Promise<void> {
    await this.streams.append("p", path, { contentType: undefined, close: true });
  }

  async text(path: string, after?: Position): Promise<string> {
    const page = await this.streams.read("p", path, after, PAGE_BYTES);
    return page.kind === "page"
      ? page.messages.map(({ payload }) => Buffer.from(payload).toString()).join("")
      : page.kind;
  }

  /** The numbers of all messages, which must have no gap. */
  async numbers(path: string): Promise<number[]> {
    const page = await this.streams.read("p", path, undefined, PAGE_BYTES);
    if (page.kind !== "page") throw new Error(page.kind);
    return page.messages.map(({ position }) => position.seq);
  }

  /** Another master takes over with everything. The nodes notice at their next commit. */
  async failOver(): Promise<void> {
    await this.server.admin((redis) => redis.call("DEBUG", "CHANGE-REPL-ID"));
    // Longer than a master's history is cached.
    await sleep(20);
  }

  /** What a replica has received now, to take over with it later. */
  async replicate(): Promise<() => Promise<void>> {
    const kept = await this.server.admin(async (redis) => {
      const keys = await redis.keys("*");
      return Promise.all(keys.map(async (key) => [key, (await redis.dumpBuffer(key))!] as const));
    });
    return async () => {
      await this.server.admin(async (redis) => {
        for (const [key, value] of kept) await redis.call("RESTORE", key, "0", value, "REPLACE");
      });
      await this.failOver();
    };
  }
}

async function stage(): Promise<Stage> {
  const server = await single();
  return new Stage(server, await opened({ urls: [server.url] }));
}

describe("after a failover that loses nothing", () => {
  it("a stream is forked at every offset of every generation, and each fork reads up to there", async () => {
    const on = await stage();
    await on.create("s");
    const offsets = await on.append("s", "a", "b");
    await on.failOver();
    expect(await on.fork("first-write", "s", offsets[0])).toBe("created");
    offsets.push(...(await on.append("s", "c", "d")));
    await on.failOver();
    await on.append("s", "e");
    await on.failOver();
    await on.close("s");
    for (const [i, offset] of offsets.entries()) {
      expect(await on.fork(`f${i}`, "s", offset)).toBe("created");
      await on.append(`f${i}`, "!");
      expect(await on.text(`f${i}`)).toBe(`${"abcd".slice(0, i + 1)}!`);
      expect(await on.numbers(`f${i}`)).toEqual(Array.from({ length: i + 2 }, (_, n) => n + 1));
    }
    expect(await on.fork("tail", "s")).toBe("created");
    expect(await on.text("tail")).toBe("abcde");
    expect(await on.fork("part", "s", offsets[2], 1)).toBe("created");
    expect(await on.text("part")).toBe("abcd");
    expect(await on.text("first-write")).toBe("a");
  });

  it("a fork of a fork reads both, of whatever generations, and is found by count and by time", async () => {
    const on = await stage();
    await on.create("s");
    await on.append("s", "a", "b");
    await on.failOver();
    const [third] = await on.append("s", "c", "d");
    expect(await on.fork("f", "s", third)).toBe("created");
    const [fourth] = await on.append("f", "x");
    await on.failOver();
    const [fifth] = await on.append("f", "y", "z");
    for (const [name, at, text] of [
      ["ff3", third, "abc"],
      ["ff4", fourth, "abcx"],
      ["ff5", fifth, "abcxy"],
    ] as const) {
      expect(await on.fork(name, "f", at)).toBe("created");
      await on.append(name, "!");
      expect(await on.text(name)).toBe(`${text}!`);
      const back = await on.streams.positionBack("p", name, 3);
      expect(back.kind === "position" && (await on.text(name, back.position))).toBe(`${text}!`.slice(-3));
    }
  });

  it("an offset that the source never gave is no fork point", async () => {
    const on = await stage();
    await on.create("s");
    await on.append("s", "a", "b");
    const [earlier] = await on.append("s", "c");
    await on.streams.delete("p", "s");
    await on.create("s");
    expect(await on.fork("f", "s", earlier)).toBe("fork-unknown");
    const [first] = await on.append("s", "a");
    await on.failOver();
    const [second] = await on.append("s", "b");
    expect(await on.fork("f", "s", earlier)).toBe("fork-unknown");
    expect(await on.fork("f", "s", { generation: second!.generation, seq: 7 })).toBe("fork-ahead");
    expect(await on.fork("f", "s", { generation: first!.generation, seq: 9 })).toBe("fork-unknown");
  });
});

describe("after a failover that loses the end of a history", () => {
  it("a fork at a lost offset is refused, and one at a surviving offset reads what survived", async () => {
    const on = await stage();
    await on.create("s");
    const [first] = await on.append("s", "a");
    const takeOver = await on.replicate();
    const [second, third] = await on.append("s", "lost", "lost too");
    await takeOver();
    expect(await on.fork("f", "s", third)).toBe("fork-unknown");
    await on.append("s", "b");
    expect(await on.fork("f", "s", third)).toBe("fork-unknown");
    expect(await on.fork("f", "s", second)).toBe("fork-unknown");
    expect(await on.fork("f", "s", first)).toBe("created");
    expect(await on.text("f")).toBe("a");
  });

  it("a reader of a fork whose source lost inherited messages is told, and reads on after them", async () => {
    const on = await stage();
    await on.create("s");
    const [first] = await on.append("s", "a");
    const source = await on.replicate();
    const [second, third] = await on.append("s", "b", "c");
    expect(await on.fork("f", "s", third)).toBe("created");
    await on.append("f", "d");
    await source();
    await on.append("s", "B");
    expect(await on.text("f")).toBe("ad");
    expect(await on.text("f", first)).toBe("d");
    expect(await on.streams.read("p", "f", second, 1)).toEqual({ kind: "lost", survived: third });
    expect(await on.text("f", third)).toBe("d");
    for (const [count, position] of [
      [3, first],
      [2, third],
    ] as const) {
      expect(await on.streams.positionBack("p", "f", count)).toEqual({ kind: "position", position });
    }
  });
});
