import fc from "fast-check";
import { expect, test } from "vitest";
import { type Effect, type Head, type Message, NO_HEAD } from "../engine/contract.ts";
import { headAfter } from "../engine/head.ts";
import type { View } from "../engine/keeper.ts";
import { type Mark, marksTable } from "../engine/trimming.ts";
import { cutUnheld } from "./retention.ts";
import type { Retention } from "./state.ts";

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

const bytesOf = (messages: readonly Message[]) => messages.reduce((sum, { payload }) => sum + payload.length, 0);

test("retention never takes what was asked for and never leaves much more", () => {
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
        expect(isBeyond).toBe(true);
      }
      // Marks lie a twentieth of a limit apart, or as far as one append reaches.
      const [most, mostBytes] = [8, 8 * 40];
      if (maxMessages !== undefined) expect(log.kept.length).toBeLessThan(maxMessages * SLACK + 2 * most);
      if (maxBytes !== undefined) expect(bytesOf(log.kept)).toBeLessThan(maxBytes * SLACK + 2 * mostBytes);
      if (maxAgeMs !== undefined) {
        const oldest = log.kept[0]?.at ?? now;
        expect(now - oldest).toBeLessThanOrEqual(maxAgeMs * SLACK + 2 * 30);
      }
    }
  });
  fc.assert(property, { numRuns: 300 });
});
