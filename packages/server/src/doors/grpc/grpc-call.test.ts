import { EventEmitter } from "node:events";
import type { ServerHttp2Stream } from "node:http2";
import { setImmediate as nextTurn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { manualWorld } from "../../../../../test/support/world.ts";
import { MemoryBudget } from "../memory-budget.ts";
import { GRPC_LIMITS } from "./defaults.ts";
import { GrpcCall, type Handler } from "./grpc-call.ts";
import { Inflations } from "./inflation.ts";
import { status } from "./status.ts";

const MEBIBYTE = 1_024 * 1_024;

/** The part of a stream of HTTP/2 that a call uses. */
class Stream extends EventEmitter {
  closed = false;
  destroyed = false;
  readonly pause = () => {};
  readonly resume = () => {};
  readonly respond = () => {};
  readonly end = () => {};

  close(): void {
    this.closed = true;
    this.destroyed = true;
    this.emit("close");
  }

  send(body: Buffer, isCompressed = false): void {
    const head = Buffer.from([isCompressed ? 1 : 0, 0, 0, 0, 0]);
    head.writeUInt32BE(body.length, 1);
    this.emit("data", Buffer.concat([head, body]));
  }
}

function begun(take: Handler["take"], memoryBytes = 100 * MEBIBYTE, timeout?: string) {
  const stream = new Stream();
  const world = manualWorld(1);
  const headers = { "grpc-encoding": "gzip", "grpc-timeout": timeout };
  const memory = new MemoryBudget({ memoryBytes, smallBytes: 0 });
  const failures: unknown[] = [];
  const implementation = {
    name: "Publisher.Publish",
    path: "",
    isStream: false,
    waits: false,
    maxBytes: 11 * MEBIBYTE,
    decode: (bytes: Buffer) => bytes,
    encode: () => Buffer.alloc(5),
    open: () => ({
      take,
      failure: (fault: unknown) => {
        failures.push(fault);
        return { code: status.UNAVAILABLE, details: "" };
      },
    }),
  };
  const call = new GrpcCall(stream as unknown as ServerHttp2Stream, headers, implementation, {
    world,
    limits: GRPC_LIMITS,
    memory,
    inflations: new Inflations(),
    traffic: { receivedBytes: 0, sentBytes: 0 },
    observer: undefined,
    report: () => {},
  });
  call.begin();
  return { call, stream, memory, failures, world };
}

it("a request is charged until its handler settles, even if its client leaves before", async () => {
  let settle = () => {};
  const { stream, memory } = begun(() => new Promise<undefined>((resolve) => (settle = () => resolve(undefined))));
  stream.send(Buffer.alloc(MEBIBYTE));
  stream.close();
  await nextTurn();
  expect(memory.usedBytes).toBeGreaterThan(MEBIBYTE);
  settle();
  await nextTurn();
  expect(memory.usedBytes).toBe(0);
});

it("a compressed request is refused before it expands if the budget has no room for what it may become", async () => {
  const { stream, memory, failures } = begun(async () => undefined, 10 * MEBIBYTE);
  stream.send(gzipSync(Buffer.alloc(11 * MEBIBYTE)), true);
  expect(failures).toMatchObject([{ code: "memory-full" }]);
  stream.close();
  await nextTurn();
  expect(memory.usedBytes).toBe(0);
});

it("a compressed request is charged for its expanded bytes while it is handled", async () => {
  let usedBytes = 0;
  const taken = new Promise<Uint8Array>((resolve) => {
    const { memory, stream } = begun(async (request) => {
      usedBytes = memory.usedBytes;
      resolve(request as Uint8Array);
      return undefined;
    });
    stream.send(gzipSync(Buffer.alloc(MEBIBYTE, "x")), true);
    expect(memory.usedBytes).toBeGreaterThan(MEBIBYTE);
  });
  expect((await taken).length).toBe(MEBIBYTE);
  expect(usedBytes - MEBIBYTE).toBeLessThan(10_000);
});

it("a task for the end of a call that is already over runs", async () => {
  const { call, stream } = begun(async () => undefined);
  stream.close();
  let hasRun = false;
  call.onGone(() => {
    hasRun = true;
  });
  await nextTurn();
  expect(hasRun).toBe(true);
});

it("a clock that is set does not change how long the client of a call waits", () => {
  const { call, world } = begun(async () => undefined, undefined, "10S");
  for (const byMs of [3_600_000, -7_200_000]) world.setClock(byMs);
  world.advance(1_000);
  expect(call.leftMs).toBe(9_000);
});
