/** Promises to a reader: pages without holes from any position, never empty before the tail, with committed messages only. */
import { type Position, ZERO } from "@sluice/protocol";
import { expect } from "vitest";
import { ENGINE_BOUNDS } from "../../../packages/server/src/engine/bounds.ts";
import { append, type Behavior, type Fixture, stream } from "./fixture.ts";

const a = stream("a");

export function reads(behavior: Behavior): void {
  behavior("fills a page with as many messages as fit, and at least one", async (on) => {
    const { at } = await messagesOfTen(on, 6);
    await on.lives(async () => {
      for (const [maxBytes, count] of [
        [0, 1],
        [1, 1],
        [10, 1],
        [19, 1],
        [20, 2],
        [59, 5],
        [60, 6],
        [99, 6],
      ] as const) {
        const page = await on.engine.read(a, ZERO, maxBytes);
        expect([maxBytes, page.messages.length]).toEqual([maxBytes, count]);
        expect(page.atTail).toBe(count === 6);
      }
      expect((await on.engine.read(a, at(4), 10)).atTail).toBe(false);
      expect((await on.engine.read(a, at(5), 10)).atTail).toBe(true);
    });
  });

  behavior("page by page returns every message once, in order", async (on) => {
    await on.begin(a);
    const sizes = Array.from({ length: 300 }, (_, i) => (i * 7919) % 997);
    for (let i = 0; i < sizes.length; i += 10)
      await on.append(a, ...sizes.slice(i, i + 10).map((n) => new Uint8Array(n)));
    await on.lives(async () => {
      for (const maxBytes of [1, 2_000, 50_000]) {
        const met: number[] = [];
        for (let after: Position = ZERO, atTail = false; !atTail; ) {
          const page = await on.engine.read(a, after, maxBytes);
          expect(page.messages.length).toBeGreaterThan(0);
          for (const { position, payload } of page.messages) {
            expect(position.seq).toBe(met.push(payload.length));
            after = position;
          }
          atTail = page.atTail;
        }
        expect(met).toEqual(sizes);
      }
    });
  });

  behavior("bounds a page of tiny messages by their number", async (on) => {
    await on.begin(a);
    await on.append(a, ...Array.from({ length: ENGINE_BOUNDS.pageMessages + 1 }, () => ""));
    const page = await on.engine.read(a, ZERO, 1 << 20);
    expect([page.messages.length, page.atTail]).toEqual([ENGINE_BOUNDS.pageMessages, false]);
    expect((await on.engine.read(a, page.messages.at(-1)!.position, 1 << 20)).messages.length).toBe(1);
  });

  behavior("puts a large message after small ones on the next page", async (on) => {
    await on.begin(a);
    await on.append(a, "small", new Uint8Array(200_000), "small");
    await on.lives(async () => {
      const first = await on.engine.read(a, ZERO, 1_000);
      expect(first.messages.map(({ payload }) => payload.length)).toEqual([5]);
      const second = await on.engine.read(a, first.messages[0]!.position, 1_000);
      expect(second.messages.map(({ payload }) => payload.length)).toEqual([200_000]);
      expect(second.atTail).toBe(false);
      const third = await on.engine.read(a, second.messages[0]!.position, 1_000);
      expect(third.messages.map(({ payload }) => payload.length)).toEqual([5]);
      expect(third.atTail).toBe(true);
    });
  });

  behavior("counts payload bytes only: empty messages fit into any page", async (on) => {
    await on.begin(a);
    await on.append(a, "", "", "0123456789", "", "");
    await on.append(a, "", "x");
    await on.lives(async () => {
      for (const [maxBytes, count] of [
        [0, 2],
        [9, 2],
        [10, 6],
        [11, 7],
      ] as const) {
        const page = await on.engine.read(a, ZERO, maxBytes);
        expect([maxBytes, page.messages.length]).toEqual([maxBytes, count]);
      }
    });
  });

  behavior("continues after any position of the log", async (on) => {
    const { at } = await messagesOfTen(on, 6);
    await on.lives(async () => {
      for (let seq = 0; seq <= 6; seq++) {
        const found = await on.messages(a, at(seq));
        expect(found.map(({ position }) => position.seq)).toEqual([1, 2, 3, 4, 5, 6].slice(seq));
      }
    });
  });

  behavior("at the tail returns an empty page, with the head it was read under", async (on) => {
    const { at } = await messagesOfTen(on, 3);
    await on.lives(async () => {
      const { head } = await on.load(a);
      expect(await on.engine.read(a, at(3), 100)).toEqual({ messages: [], head, atTail: true });
    });
  });

  behavior("beyond the tail, in this generation or a later one, returns an empty page", async (on) => {
    const { generation, at } = await messagesOfTen(on, 3);
    await on.lives(async () => {
      for (const after of [
        at(4),
        at(1_000),
        { generation: generation + 1, seq: 0 },
        { generation: generation + 1, seq: 2 },
      ]) {
        expect(await on.engine.read(a, after, 100)).toMatchObject({ messages: [], atTail: true });
      }
    });
  });

  behavior("from the zero position or any older generation returns the log from its start", async (on) => {
    const { generation: older } = await messagesOfTen(on, 9);
    await on.commit(a, [{ op: "destroy" }]);
    const generation = await on.begin(a);
    await on.append(a, "1", "2", "3");
    const positions = [ZERO, { generation: 0, seq: 99 }, { generation: older, seq: 2 }, { generation: older, seq: 9 }];
    await on.lives(async () => {
      for (const after of [...positions, { generation: generation - 1, seq: 1_000_000 }]) {
        expect(await on.payloads(a, after)).toEqual(["1", "2", "3"]);
      }
    });
  });

  behavior("of a log begun at another position treats lower numbers as before its start", async (on) => {
    const { nextGeneration: generation } = await on.load(a);
    const at = { generation: generation - 1, seq: 10 };
    await on.commit(a, [{ op: "begin", generation, at }, append("11", "12")]);
    await on.lives(async () => {
      expect(await on.payloads(a, { generation, seq: 3 })).toEqual(["11", "12"]);
      expect(await on.payloads(a, { generation: generation - 1, seq: 50 })).toEqual(["11", "12"]);
      expect(await on.payloads(a, { generation, seq: 11 })).toEqual(["12"]);
    });
  });

  behavior("shows committed messages only, under the head that counts them", async (on) => {
    await on.begin(a);
    const acknowledged: number[] = [];
    for (let i = 1; i <= 30; i++) {
      const { rev } = await on.load(a);
      const committing = on.engine.commit(a, { rev }, [append(`first of ${i}`, `second of ${i}`)]);
      const page = await on.engine.read(a, ZERO, 1 << 20);
      expect(page.messages.length).toBe(page.head.last.seq);
      expect([2 * i - 2, 2 * i]).toContain(page.messages.length);
      await committing;
      acknowledged.push((await on.messages(a)).length);
    }
    expect(acknowledged).toEqual(Array.from({ length: 30 }, (_, i) => 2 * i + 2));
  });
}

async function messagesOfTen(on: Fixture, count: number) {
  const generation = await on.begin(a);
  for (let i = 0; i < count; i++) await on.append(a, "0123456789");
  return { generation, at: (seq: number): Position => ({ generation, seq }) };
}
