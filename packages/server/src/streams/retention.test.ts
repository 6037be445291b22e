/**
 * How much of a log is kept: under random appends within what retention asks for and a tenth more, and under holds up to the hold
 * limit. That rules trim in the same decision as they append is in `append.test.ts`.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { type Effect, type Head, type Message, NO_HEAD } from "../engine/contract.ts";
import { headAfter } from "../engine/head.ts";
import type { View } from "../engine/keeper.ts";
import { type Mark, marksTable } from "../engine/trimming.ts";
import { cutAtCreation, cutByAge, cutForRetention, cutUnheld } from "./retention.ts";
import { holdsTable, type Meta, metaTable, type Retention } from "./state.ts";

/** How much more than asked may be kept, besides what one append brings. */
const SLACK = 1.1;

const appends = fc.array(
  fc.record({ sizes: fc.array(fc.nat({ max: 40 }), { minLength: 1, maxLength: 8 }), afterMs: fc.nat({ max: 30 }) }),
  { minLength: 1, maxLength: 300, size: "max" },
);
const limit = fc.integer({ min: 1, max: 400 });
const limits = { maxMessages: limit, maxBytes: limit.map((count) => 10 * count), maxAgeMs: limit.map((ms) => 2 * ms) };
/** Often one of them alone: several hide each other. */
const retentions: fc.Arbitrary<Retention> = fc.oneof(
  fc.record(limits, { requiredKeys: [] }),
  ...Object.entries(limits).map(([name, one]) => fc.record({ [name]: one })),
);

/** A log as a keeper has it, with the changes that the rule asks for. */
class Log {
  private head: Head = headAfter(NO_HEAD, [{ op: "begin", generation: 1, at: { generation: 1, seq: 0 } }]);
  private marks: readonly Mark[] | undefined;
  readonly all: Message[] = [];

  append(retention: Retention, messages: readonly Message[], now: number): void {
    const get = (table: unknown) => (table === marksTable ? this.marks : undefined);
    const view = { exists: true, head: this.head, nextGeneration: 2, get } as View;
    const changes = cutUnheld(view, retention, messages, now);
    this.head = headAfter(this.head, [{ op: "append", messages }]);
    for (const change of changes) {
      if (change.op === "trim") this.head = headAfter(this.head, [change as Effect]);
      if (change.op === "put") this.marks = change.value as readonly Mark[];
    }
    this.all.push(...messages);
  }

  get kept(): readonly Message[] {
    return this.all.slice(this.head.start.seq);
  }
}

/** An `expect` would cost more than all the rest, because this runs for every append. */
function check(isTrue: boolean, otherwise: string): void {
  if (!isTrue) throw new Error(otherwise);
}

const bytesOf = (messages: readonly Message[]) => messages.reduce((sum, { payload }) => sum + payload.length, 0);

it("retention keeps what was asked for, and at most a tenth more, after every append", () => {
  const property = fc.property(retentions, appends, (retention, steps) => {
    const { maxMessages, maxBytes, maxAgeMs } = retention;
    const log = new Log();
    let now = 1_000;
    for (const { sizes, afterMs } of steps) {
      now += afterMs;
      const messages = sizes.map((size) => ({ payload: new Uint8Array(size), at: now }) as Message);
      log.append(retention, messages, now);
      const gone = log.all.slice(0, log.all.length - log.kept.length);
      const last = gone.at(-1);
      if (last !== undefined) {
        const rest = log.kept;
        const isBeyond =
          (maxMessages !== undefined && rest.length >= maxMessages) ||
          (maxBytes !== undefined && bytesOf(rest) >= maxBytes) ||
          (maxAgeMs !== undefined && last.at <= now - maxAgeMs);
        check(isBeyond, "a message within the limits was trimmed");
      }
      // Marks lie a twentieth of a limit apart, or as far as one append reaches.
      const [most, mostBytes] = [8, 8 * 40];
      check(log.kept.length < (maxMessages ?? Infinity) * SLACK + 2 * most, "too many messages are kept");
      check(bytesOf(log.kept) < (maxBytes ?? Infinity) * SLACK + 2 * mostBytes, "too many bytes are kept");
      const oldest = log.kept[0]?.at ?? now;
      check(now - oldest <= (maxAgeMs ?? Infinity) * SLACK + 2 * 30, "a message that is too old is kept");
    }
  });
  fc.assert(property, { numRuns: 300 });
});

describe("a log that is held", () => {
  const UNLIMITED = Number.POSITIVE_INFINITY;
  const at = (seq: number) => ({ generation: 1, seq });
  const kept = (seq: number, forks?: number): Meta => ({
    config: { contentType: "text/plain", retention: { maxMessages: seq } },
    createdAt: 0,
    touchedAt: 0,
    closed: false,
    forks: forks === undefined ? undefined : { count: 1, needAfter: at(forks) },
  });

  const begun = () => new RuleView(headAfter(NO_HEAD, [{ op: "begin", generation: 1, at: at(0) }]));

  /** Appends so many messages of ten bytes each, one by one. */
  function append(view: RuleView, retention: Retention, count: number, holdBytes = UNLIMITED): RuleView {
    for (let i = 0; i < count; i++) {
      const messages = [{ payload: new Uint8Array(10), at: 1 }];
      const changes = cutForRetention(view, retention, messages, 1, holdBytes);
      view.run({ outcome: undefined, changes: [{ op: "append", messages }, ...changes] });
    }
    return view;
  }

  it.each<[string, Record<string, ReturnType<typeof at>>, number | undefined, number]>([
    ["is trimmed to its limits when nothing holds it", {}, undefined, 9],
    ["is kept after the hold", { a: at(4) }, undefined, 4],
    ["is kept after the lowest of several holds", { a: at(7), b: at(3), c: at(5) }, undefined, 3],
    ["is kept after what a fork needs", {}, 2, 2],
    ["is kept after a hold that is lower than what a fork needs", { a: at(1) }, 2, 1],
    ["is kept after what a fork needs when that is lower than a hold", { a: at(6) }, 2, 2],
    ["is trimmed to its limits when the holds lie within them", { a: at(10) }, undefined, 9],
  ])("%s", (_, holds, forks, start) => {
    const view = begun().with(metaTable, "", kept(1, forks)).with(holdsTable, "", holds);
    append(view, { maxMessages: 1 }, 10);
    expect(view.head.start.seq).toBe(start);
  });

  it("is trimmed all the same once the hold costs more than the hold limit", () => {
    const view = begun().with(holdsTable, "", { a: at(0) });
    expect(append(view, { maxMessages: 1 }, 5, 50).head.start.seq).toBe(0);
    expect(append(view, { maxMessages: 1 }, 1, 50).head.start.seq).toBe(5);
  });

  it("counts only what is kept over its own limit in bytes against the hold limit", () => {
    const view = begun().with(holdsTable, "", { a: at(0) });
    expect(append(view, { maxBytes: 30 }, 8, 50).head.start.seq).toBe(0);
    expect(append(view, { maxBytes: 30 }, 1, 50).head.start.seq).toBe(6);
  });

  it("writes a bounded number of marks, however long the hold lasts, and is trimmed at once when it ends", () => {
    const view = begun().with(holdsTable, "", { a: at(0) });
    append(view, { maxMessages: 20 }, 2_000);
    expect(view.get(marksTable, "")!.length).toBeLessThanOrEqual(101);
    view.with(holdsTable, "", {});
    append(view, { maxMessages: 20 }, 1);
    expect(view.head.last.seq - view.head.start.seq).toBeLessThanOrEqual(22);
  });

  it("keeps what is too old as long as it is held, and not after that", () => {
    const view = append(begun(), { maxAgeMs: 100 }, 3).with(holdsTable, "", { a: at(1) });
    const sweep = () => view.run({ outcome: undefined, changes: cutByAge(view, { maxAgeMs: 100 }, 1_000, UNLIMITED) });
    sweep();
    expect(view.head.start.seq).toBeLessThanOrEqual(1);
    view.with(holdsTable, "", {});
    sweep();
    expect(view.head.start.seq).toBe(3);
  });
});

it("a log without retention is never trimmed, and neither is one that is created without messages", () => {
  const message = { payload: new Uint8Array(1), at: 1 };
  const view = new RuleView({ ...NO_HEAD, generation: 1 });
  expect(cutForRetention(view, undefined, [message], 1, 0)).toEqual([]);
  expect(cutUnheld(view, undefined, [message], 1)).toEqual([]);
  expect(cutAtCreation(view.head, undefined, [message], 1)).toEqual([]);
  expect(cutAtCreation(view.head, { maxMessages: 1 }, [], 1)).toEqual([]);
});
