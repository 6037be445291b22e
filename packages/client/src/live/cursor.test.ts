import { describe, expect, test } from "vitest";
import { at, fakeWorld, POLICY, refused, turn, unreachable } from "../../../../test/support/live-client.ts";
import type { SluiceError } from "../error.ts";
import type { StreamMessage } from "../message.ts";
import type { CatchUpPage } from "./catch-up.ts";
import { Cursor } from "./cursor.ts";

const EPOCH = 7;

interface Read {
  readonly from: string;
  resolve(page: CatchUpPage): void;
  reject(error: SluiceError): void;
}

/** A cursor whose reads the test answers, and everything that its user hears. */
function cursorFrom(from: string | undefined, handler?: (message: StreamMessage<unknown>) => unknown) {
  const world = fakeWorld();
  const reads: Read[] = [];
  const told: unknown[] = [];
  const cursor = new Cursor(
    {
      world,
      policy: POLICY,
      report: (error) => void told.push(error.code),
      stream: "a",
      epoch: () => EPOCH,
      read: (position) => new Promise((resolve, reject) => void reads.push({ from: position, resolve, reject })),
      changed: () => {},
      ended: () => {},
    },
    {
      message: handler ?? (({ value }) => void told.push(value)),
      gap: ({ reason }) => void told.push(reason),
      caughtUp: ({ outcome }) => void told.push(outcome),
      ended: ({ reason }) => void told.push(reason),
    },
    from,
  );
  const push = (seq: number) => cursor.push({ type: "data", streamId: "a", offset: at(seq), payload: seq }, 10);
  /** Answers the only read with these messages. */
  const page = async (seqs: readonly number[], next: number, { upToDate = true, closed = false } = {}) => {
    expect(reads.length).toBe(1);
    const messages = seqs.map((seq) => ({ type: "message" as const, offset: at(seq), value: seq, publishedAt: 1 }));
    reads.pop()!.resolve({ kind: "page", messages, next: at(next), isUpToDate: upToDate, isClosed: closed });
    await turn();
  };
  return { world, cursor, reads, told, push, page };
}

/** A cursor that has caught up with three messages. */
async function caughtUp(handler?: (message: StreamMessage<unknown>) => unknown) {
  const all = cursorFrom(undefined, handler);
  all.cursor.answered(at(3), true);
  await all.page([], 3);
  all.told.length = 0;
  return all;
}

describe("a cursor", () => {
  test("starts where its subscription was answered, and says when it has caught up", async () => {
    const { cursor, page, told } = cursorFrom(undefined);
    cursor.answered(at(2), true);
    expect(cursor.isCaughtUp).toBe(false);
    await page([3, 4], 4);
    expect(told).toEqual([3, 4, "complete"]);
    expect([cursor.isCaughtUp, cursor.processed]).toEqual([true, at(4)]);
  });

  test("starts where its caller wants, and knows no offset to store before the first answer", async () => {
    for (const [from, next] of [
      ["-1", 4],
      ["now", 9],
    ] as const) {
      const { cursor, reads, page } = cursorFrom(from);
      cursor.answered(at(2), true);
      expect([reads[0]!.from, cursor.processed]).toEqual([from, undefined]);
      await page([], next);
      expect(cursor.processed).toBe(at(next));
    }
  });

  test("holds back pushes until its catch-up is complete, and drops those that it has read", async () => {
    const { cursor, push, page, told } = cursorFrom(undefined);
    push(3);
    cursor.answered(at(1), true);
    push(4);
    expect(told).toEqual([]);
    await page([2, 3], 3);
    push(4);
    expect(told).toEqual([2, 3, "complete", 4]);
  });

  test("reads once more when a connection has opened during a read, because the read may have begun before", async () => {
    const { cursor, page, told, push } = cursorFrom(undefined);
    cursor.answered(at(1), true);
    cursor.behind();
    await page([], 1);
    push(3);
    expect(told).toEqual([]);
    await page([2], 2);
    expect(told).toEqual([2, "complete", 3]);
  });

  test("holds back pushes while its subscription is asked for again", async () => {
    const { cursor, push, told, page } = await caughtUp();
    cursor.block();
    push(6);
    expect(told).toEqual([]);
    cursor.answered(at(0), true);
    await page([4, 5], 5);
    expect(told).toEqual([4, 5, "complete", 6]);
  });

  test("goes on without a read when its subscription has not changed", async () => {
    const { cursor, push, told, reads } = await caughtUp();
    cursor.block();
    push(4);
    cursor.answered(at(0), false);
    expect([told, reads]).toEqual([[4], []]);
  });

  test("that catches up while its subscription is asked for again says so after the answer", async () => {
    const { cursor, page, told } = cursorFrom(undefined);
    cursor.answered(at(1), true);
    cursor.block();
    await page([2], 2, { closed: true });
    expect(told).toEqual([2]);
    cursor.answered(at(1), false);
    expect(told).toEqual([2, "complete", "closed"]);
  });

  test("drops pushes beyond its bound, and reads them", async () => {
    const { cursor, push, page, told, reads } = await caughtUp();
    cursor.block();
    for (let seq = 4; seq < 1_005; seq++) push(seq);
    cursor.answered(at(0), false);
    expect(reads.map(({ from }) => from)).toEqual([at(3)]);
    await page([4, 5], 5);
    push(6);
    expect(told).toEqual([4, 5, "complete", 6]);
  });

  test("drops pushes beyond their size too, and keeps the word that the stream is gone", async () => {
    const { cursor, told, page } = await caughtUp();
    cursor.block();
    cursor.push({ type: "gone", streamId: "a", epoch: EPOCH }, 10);
    cursor.push({ type: "data", streamId: "a", offset: at(4), payload: 4 }, 2 * 1024 * 1024);
    cursor.answered(at(0), false);
    await page([4], 4);
    expect(told).toEqual([4, "complete", "gone"]);
  });

  test("counts a message as processed when its handler has finished, and waits for it", async () => {
    const finish: (() => void)[] = [];
    const { cursor, push } = await caughtUp(() => new Promise<void>((resolve) => void finish.push(resolve)));
    push(4);
    push(5);
    await turn();
    expect([finish.length, cursor.processed]).toEqual([1, at(3)]);
    finish[0]!();
    await turn();
    expect([finish.length, cursor.processed]).toEqual([2, at(4)]);
  });

  test("reports a handler that fails, with the offset, and goes on", async () => {
    const seen: unknown[] = [];
    const { push, told, cursor } = await caughtUp(({ value }) => {
      seen.push(value);
      if (value === 4) throw new Error("no");
      return Promise.reject(new Error("not this either"));
    });
    push(4);
    push(5);
    await turn();
    expect([seen, told, cursor.processed]).toEqual([[4, 5], ["handler-failed", "handler-failed"], at(5)]);
  });

  test("tells of a gap in its place, and that the catch-up had one", async () => {
    const { cursor, reads, page, told } = cursorFrom(undefined);
    cursor.answered(at(1), true);
    reads.pop()!.resolve({ kind: "gap", gap: { type: "gap", reason: "trimmed", from: at(1), to: at(5) } });
    await turn();
    expect(reads[0]!.from).toBe(at(5));
    await page([6], 6);
    expect(told).toEqual(["trimmed", 6, "gap"]);
  });

  test("reads what is announced, unless it has it", async () => {
    const { cursor, reads, told, page } = await caughtUp();
    cursor.push({ type: "notify", streamId: "a", offset: at(3) }, 10);
    expect(reads).toEqual([]);
    cursor.push({ type: "notify", streamId: "a", offset: at(4) }, 10);
    await page([4], 4);
    // A catch-up without a loss is worth no word here.
    expect(told).toEqual([4]);
  });

  test("ends when its stream is closed or gone, and ignores what concerns an earlier subscription", async () => {
    for (const type of ["closed", "gone"] as const) {
      const { cursor, told, push } = await caughtUp();
      cursor.push({ type, streamId: "a", epoch: EPOCH - 1 }, 10);
      push(4);
      cursor.push({ type, streamId: "a", epoch: EPOCH }, 10);
      push(5);
      expect(told).toEqual([4, type]);
    }
  });

  test("ends when a read finds the end of a closed stream, or no stream", async () => {
    const closed = cursorFrom(undefined);
    closed.cursor.answered(at(1), true);
    await closed.page([2], 2, { closed: true });
    expect(closed.told).toEqual([2, "complete", "closed"]);
    const gone = cursorFrom(undefined);
    gone.cursor.answered(at(1), true);
    gone.reads.pop()!.reject(refused(404, "stream-not-found"));
    await turn();
    expect(gone.told).toEqual(["gone"]);
  });

  test("ends with a report when a read is refused for good", async () => {
    const { cursor, reads, told } = cursorFrom(undefined);
    cursor.answered(at(1), true);
    reads.pop()!.reject(refused(403, "forbidden"));
    await turn();
    expect(told).toEqual(["forbidden", "refused"]);
  });

  test("repeats a read that fails, after a delay that grows, and at once when a connection opens", async () => {
    const { cursor, reads, told, world, page } = cursorFrom(undefined);
    cursor.answered(at(1), true);
    for (const delayMs of [75, 150]) {
      reads.pop()!.reject(unreachable());
      await turn();
      await world.pass(delayMs - 1);
      expect(reads).toEqual([]);
      await world.pass(1);
      expect(reads.length).toBe(1);
    }
    reads.pop()!.reject(refused(401, "unauthenticated"));
    await turn();
    cursor.behind();
    await turn();
    await page([2], 2);
    expect([told, world.timers]).toEqual([["unauthenticated", 2, "complete"], 0]);
  });

  test("waits before it reads again when an answer brings it no further", async () => {
    const { cursor, reads, world, page } = cursorFrom(undefined);
    cursor.answered(at(1), true);
    await page([], 1, { upToDate: false });
    expect(reads).toEqual([]);
    await world.pass(75);
    expect(reads.length).toBe(1);
  });

  test("hears nothing after it was stopped, also in the middle of a read", async () => {
    const { cursor, page, push, told, world } = cursorFrom(undefined);
    cursor.answered(at(1), true);
    cursor.stop();
    await page([2], 2);
    push(3);
    expect([told, world.timers]).toEqual([[], 0]);
  });
});
