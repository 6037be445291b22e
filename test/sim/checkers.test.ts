/**
 * The checkers detect violations: each of these histories is a few calls long, and breaks (or keeps) one promise. A call has
 * the ticks of its invocation and its return; without a return its outcome is unknown.
 */
import type { Position } from "@sluice/protocol";
import { describe, expect, it } from "vitest";
import { checkStreams } from "./check/index.ts";
import { type Append, type Create, type Done, History, type Operation, type Read, type Refused } from "./history.ts";

const at = (seq: number, generation = 1): Position => ({ generation, seq });
const done = (status: number, rest: Partial<Done> = {}): Done => ({
  kind: "done",
  status,
  closed: false,
  upToDate: false,
  ...rest,
});
const refused = (code: string, rest: Partial<Refused> = {}): Refused => ({
  kind: "refused",
  status: 404,
  code,
  ...rest,
});

/** A history of stream `s`, one method per call. */
class Story {
  readonly history = new History(() => 0);

  private call(op: Operation, [from, to]: readonly [number, number?], result?: Done | Refused): this {
    // A tick is a tenth of a second, where time matters.
    const stamp = (tick: number) => ({ tick, ms: tick * 100 });
    const call = this.history.begin("client", op, stamp(from));
    if (to !== undefined && result) {
      call.returned = stamp(to);
      call.result = result;
    }
    return this;
  }

  create(ticks: readonly [number, number?], generation = 1, rest: Partial<Create> = {}): this {
    const op: Create = { kind: "create", path: "s", contentType: "text/plain", ids: [], closed: false, ...rest };
    return this.call(op, ticks, done(201, { next: at(op.ids.length, generation), closed: op.closed }));
  }

  append(id: string, ticks: readonly [number, number?], next: Position = at(0), rest: Partial<Append> = {}): this {
    this.history.sizes.set(id, 10);
    const op: Append = { kind: "append", path: "s", ids: id === "" ? [] : [id], close: false, ...rest };
    const status = op.producer ? 200 : 204;
    return this.call(op, ticks, done(status, { next, closed: op.close, producerSeq: op.producer?.seq }));
  }

  repeat(id: string, ticks: readonly [number, number?], next: Position, producer: Append["producer"]): this {
    const op: Append = { kind: "append", path: "s", ids: [id], close: false, producer };
    return this.call(op, ticks, done(204, { next, producerSeq: producer!.seq }));
  }

  read(
    ids: string[],
    ticks: readonly [number, number],
    next: Position,
    rest: Partial<Read> = {},
    closed = false,
  ): this {
    const op: Read = { kind: "read", path: "s", from: "-1", mode: "catch-up", format: "raw", ...rest };
    return this.call(op, ticks, done(200, { next, ids, upToDate: true, closed }));
  }

  head(ticks: readonly [number, number], next: Position, closed = false): this {
    return this.call({ kind: "head", path: "s" }, ticks, done(200, { next, closed }));
  }

  absent(ticks: readonly [number, number]): this {
    return this.call({ kind: "head", path: "s" }, ticks, refused("stream-not-found"));
  }

  delete(ticks: readonly [number, number?]): this {
    return this.call({ kind: "delete", path: "s" }, ticks, done(204));
  }

  refuse(op: Operation, ticks: readonly [number, number], result: Refused): this {
    return this.call(op, ticks, result);
  }

  final(ids: string[], next: Position, closed = false): this {
    this.history.finals.set("s", { kind: "live", next, closed, ids });
    return this;
  }

  check(): string[] {
    return checkStreams(this.history);
  }
}

const p = (seq: number, epoch = 0) => ({ id: "p", epoch, seq });
const append = (rest: Partial<Append>): Append => ({ kind: "append", path: "s", ids: ["x"], close: false, ...rest });

describe("The checkers accept", () => {
  const good: Record<string, Story> = {
    "appends that overlap, and a reader in between": new Story()
      .create([1, 2])
      .append("a", [3, 8], at(2))
      .append("b", [4, 7], at(1))
      .read(["b"], [5, 6], at(1))
      .final(["b", "a"], at(2)),
    "an unknown outcome that turns out to have happened": new Story()
      .create([1, 2])
      .append("a", [3])
      .read(["a"], [5, 6], at(1)),
    "a producer's retry after a lost reply": new Story()
      .create([1, 2])
      .append("a", [3], at(0), { producer: p(0) })
      .repeat("a", [5, 6], at(1), p(0))
      .read(["a"], [7, 8], at(1))
      .final(["a"], at(1)),
    "a stream that is deleted, created anew and read from an old offset": new Story()
      .create([1, 2])
      .append("a", [3, 4], at(1))
      .delete([5, 6])
      .absent([7, 8])
      .create([9, 10], 2)
      .append("b", [11, 12], at(1, 2))
      .read(["b"], [13, 14], at(1, 2), { from: at(1) }),
    "a TTL that ends after its time": new Story().create([1, 2], 1, { ttlSeconds: 1 }).absent([20, 21]),
    "retention that has enough left": new Story()
      .create([1, 2], 1, { retention: { maxMessages: 2 } })
      .append("a", [3, 4], at(1))
      .append("b", [5, 6], at(2))
      .append("c", [7, 8], at(3))
      .read(["b", "c"], [9, 10], at(3)),
  };
  for (const [name, story] of Object.entries(good)) it(name, () => expect(story.check()).toEqual([]));
});

describe("The checkers report that", () => {
  const closing = { close: true };
  const bad: Record<string, readonly [checker: string, Story]> = {
    "an acknowledged message is lost": [
      "durable",
      new Story().create([1, 2]).append("a", [3, 4], at(1)).final([], at(0)),
    ],
    "an acknowledged message's place goes to another": [
      "placement",
      new Story().create([1, 2]).append("a", [3, 4], at(1)).append("b", [5, 6], at(1)),
    ],
    "a duplicate was never written": [
      "durable",
      new Story().create([1, 2]).repeat("a", [3, 4], at(0), p(0)).final([], at(0)),
    ],
    "a message is there twice": [
      "placement",
      new Story().create([1, 2]).append("a", [3, 4], at(1)).read(["a", "a"], [5, 6], at(2)),
    ],
    "a message comes from nowhere": ["placement", new Story().create([1, 2]).read(["x"], [3, 4], at(1))],
    "a refused append happened": [
      "placement",
      new Story().create([1, 2]).refuse(append({}), [3, 4], refused("stream-closed")).read(["x"], [5, 6], at(1)),
    ],
    "the messages of one append are torn apart": [
      "placement",
      new Story()
        .create([1, 2])
        .append("a", [3], at(0), { ids: ["a1", "a2"] })
        .append("b", [4], at(0))
        .read(["a1", "b", "a2"], [5, 6], at(3)),
    ],
    "half of an append is the tail": [
      "linear",
      new Story()
        .create([1, 2])
        .append("a", [3, 8], at(2), { ids: ["a1", "a2"] })
        .head([4, 5], at(1)),
    ],
    "a read does not see what was acknowledged before": [
      "linear",
      new Story().create([1, 2]).append("a", [3, 4], at(1)).read([], [5, 6], at(0)),
    ],
    "a read sees what another one did not see later": [
      "linear",
      new Story().create([1, 2]).append("a", [3, 9], at(1)).read(["a"], [4, 5], at(1)).head([6, 7], at(0)),
    ],
    "a later append goes before an earlier one": [
      "linear",
      new Story().create([1, 2]).append("a", [3, 4], at(2)).append("b", [5, 6], at(1)),
    ],
    "something is seen before it was written": [
      "linear",
      new Story().create([1, 2]).read(["a"], [3, 4], at(1)).append("a", [5, 6], at(1)),
    ],
    "a generation is used again": ["placement", new Story().create([1, 2]).delete([3, 4]).create([5, 6])],
    "a page leaves a hole": [
      "readers",
      new Story()
        .create([1, 2])
        .append("a", [3, 4], at(1))
        .append("b", [5, 6], at(2))
        .read(["b"], [7, 8], at(2), { from: at(0) }),
    ],
    "a page goes back": [
      "readers",
      new Story()
        .create([1, 2])
        .append("a", [3, 4], at(1))
        .read([], [5, 6], at(0), { from: at(1) }),
    ],
    "a read from the beginning does not start there": [
      "readers",
      new Story().create([1, 2]).append("a", [3, 4], at(1)).append("b", [5, 6], at(2)).read(["b"], [7, 8], at(2)),
    ],
    "a closed stream grows": [
      "closing",
      new Story().create([1, 2]).append("", [3, 4], at(0), closing).append("a", [5, 6], at(1)),
    ],
    "a closed stream is open again": [
      "closing",
      new Story().create([1, 2]).append("", [3, 4], at(0), closing).head([5, 6], at(0), false),
    ],
    "a stream is closed without a closing call": ["closing", new Story().create([1, 2]).head([3, 4], at(0), true)],
    "a producer's messages are out of order": [
      "producers",
      new Story()
        .create([1, 2])
        .append("b", [3, 9], at(1), { producer: p(1) })
        .append("a", [4, 8], at(2), { producer: p(0) }),
    ],
    "an older epoch writes behind a newer one": [
      "producers",
      new Story()
        .create([1, 2])
        .append("a", [3, 4], at(1), { producer: p(0, 1) })
        .append("b", [5, 6], at(2), { producer: p(0, 0) }),
    ],
    "Stream-Seq falls": [
      "producers",
      new Story().create([1, 2]).append("a", [3, 4], at(1), { seq: "2" }).append("b", [5, 6], at(2), { seq: "1" }),
    ],
    "a stream vanishes": ["life", new Story().create([1, 2]).absent([3, 4])],
    "a stream is away for a moment": ["life", new Story().create([1, 2]).absent([3, 4]).head([5, 6], at(0))],
    "a deleted stream lives on": ["life", new Story().create([1, 2]).delete([3, 4]).head([5, 6], at(0))],
    "a TTL ends early": ["life", new Story().create([1, 2], 1, { ttlSeconds: 1 }).absent([6, 7])],
    "a stream is created where one lives": ["life", new Story().create([1, 2]).create([3, 4], 2)],
    "retention takes too much": [
      "readers",
      new Story()
        .create([1, 2], 1, { retention: { maxMessages: 2 } })
        .append("a", [3, 4], at(1))
        .append("b", [5, 6], at(2))
        .read(["b"], [7, 8], at(2)),
    ],
    "a sequence is refused for no reason": [
      "refusals",
      new Story().create([1, 2]).refuse(append({ seq: "5" }), [3, 4], refused("sequence-regression")),
    ],
    "a gap is claimed behind what was acknowledged": [
      "refusals",
      new Story()
        .create([1, 2])
        .append("a", [3, 4], at(1), { producer: p(0) })
        .refuse(append({ producer: p(1) }), [5, 6], refused("producer-gap", { expectedSeq: 0 }))
        .append("b", [7, 8], at(2)),
    ],
    "an offset of ours is called malformed": [
      "refusals",
      new Story()
        .create([1, 2])
        .refuse(
          { kind: "read", path: "s", from: at(0), mode: "catch-up", format: "raw" },
          [3, 4],
          refused("offset-ahead"),
        ),
    ],
  };
  for (const [name, [checker, story]] of Object.entries(bad)) {
    it(name, () => expect(story.check().join("\n")).toContain(`[${checker}]`));
  }
});
