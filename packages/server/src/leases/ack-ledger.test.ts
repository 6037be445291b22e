import fc from "fast-check";
import { expect, test } from "vitest";
import { AckLedger } from "./ack-ledger.ts";
import { BLOCK, type Block, decodeBlock, encodeBlock } from "./block-row.ts";

/** A ledger and its rows, stored and loaded again. */
class Stored {
  ledger: AckLedger;
  readonly rows = new Map<number, Uint8Array>();
  floor: number;

  constructor(floor = 0) {
    this.floor = floor;
    this.ledger = new AckLedger(floor);
  }

  reload(): void {
    for (const [number, block] of this.ledger.takeChanged()) {
      if (block === undefined) this.rows.delete(number);
      else this.rows.set(number, encodeBlock(block));
    }
    this.floor = this.ledger.floor;
    const blocks = [...this.rows].map(([number, row]): [number, Block] => [number, decodeBlock(row)]);
    this.ledger = new AckLedger(this.floor, blocks);
  }
}

test("the floor rises over what was acknowledged out of order, and its blocks are dropped", () => {
  const stored = new Stored();
  for (let seq = 2; seq <= BLOCK + 10; seq++) stored.ledger.ack(seq);
  expect(stored.ledger.floor).toBe(0);
  stored.reload();
  expect([...stored.rows.keys()]).toEqual([0, 1]);
  stored.ledger.ack(1);
  expect(stored.ledger.floor).toBe(BLOCK + 10);
  stored.reload();
  expect([...stored.rows.keys()]).toEqual([1]);
});

test("it agrees with a plain set over any acknowledgements, stored and loaded in between", () => {
  const seq = fc.integer({ min: 1, max: 40 }).map((n) => BLOCK - 20 + n);
  const step = fc.oneof(
    { weight: 10, arbitrary: fc.record({ op: fc.constant("ack" as const), seq }) },
    fc.record({ op: fc.constant("through" as const), seq }),
    fc.record({ op: fc.constant("rewind" as const), seq }),
    fc.record({ op: fc.constant("reload" as const), seq }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const stored = new Stored(BLOCK - 20);
      const acked = new Set<number>();
      let least = BLOCK - 20;
      for (const { op, seq } of steps) {
        if (op === "ack") {
          stored.ledger.ack(seq);
          acked.add(seq);
        } else if (op === "through") {
          stored.ledger.ackThrough(seq);
          for (let one = least; one <= seq; one++) acked.add(one);
        } else if (op === "rewind") {
          stored.ledger.rewind(seq);
          for (const one of acked) if (one > seq) acked.delete(one);
          least = Math.min(least, seq);
        } else stored.reload();
        let floor = least;
        while (acked.has(floor + 1)) floor++;
        expect(stored.ledger.floor).toBe(floor);
        const wrong = Array.from({ length: 41 }, (_, i) => BLOCK - 19 + i).filter(
          (one) => stored.ledger.isAcked(one) !== acked.has(one),
        );
        expect(wrong).toEqual([]);
      }
    }),
  );
});

test("attempts and delays outlive a reload, and end with the acknowledgement", () => {
  const stored = new Stored();
  stored.ledger.setAttempts(7, 3);
  stored.ledger.setDelay(8, 12_345);
  stored.reload();
  expect(stored.ledger.attemptsOf(7)).toBe(3);
  expect(stored.ledger.delayOf(8)).toBe(12_345);
  expect([...stored.ledger.marked()].sort()).toEqual([7, 8]);
  stored.ledger.setDelay(8, undefined);
  stored.ledger.ack(7);
  stored.reload();
  expect([...stored.ledger.marked()]).toEqual([]);
  expect(stored.ledger.attemptsOf(7)).toBe(0);
});

test("rows that failed to be stored are taken again", () => {
  const ledger = new AckLedger(0);
  ledger.ack(5);
  const taken = ledger.takeChanged();
  expect(ledger.isChanged).toBe(false);
  ledger.redo(taken.keys());
  expect([...ledger.takeChanged().keys()]).toEqual([0]);
});

test("acknowledgements above the floor are counted, whichever blocks they are in", () => {
  const ledger = new AckLedger(0);
  expect(ledger.ackedAbove).toBe(0);
  for (const seq of [1, 3, 4, 5_000]) ledger.ack(seq);
  expect([ledger.floor, ledger.ackedAbove]).toEqual([1, 3]);
  ledger.ack(2);
  expect([ledger.floor, ledger.ackedAbove]).toEqual([4, 1]);
});

test("what is taken to be stored does not change on its way to the store", () => {
  const ledger = new AckLedger(0);
  ledger.ack(3);
  const taken = ledger.takeChanged().get(0)!;
  const bytes = encodeBlock(taken);
  ledger.ack(2);
  ledger.setAttempts(5, 1);
  expect(encodeBlock(taken)).toEqual(bytes);
});
