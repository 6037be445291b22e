import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeBlock, encodeBlock } from "./block-row.ts";
import { LeaseCore } from "./lease-core.ts";
import { TimerWheel } from "./timer-wheel.ts";

const LEASE_MS = 1_000;
const TICK_MS = 10;

/** A core with an owner that stores it, and a clock. */
class Owner {
  now = 0;
  wheel = new TimerWheel<LeaseCore>(TICK_MS, 0);
  core: LeaseCore;
  private numbers = 0;
  private readonly rows = new Map<number, Uint8Array>();

  constructor(
    public tail: number,
    private readonly maxAttempts?: number,
  ) {
    this.core = new LeaseCore(this.parts, 0, tail);
  }

  private get parts() {
    return { wheel: this.wheel, nextNumber: () => ++this.numbers, maxAttempts: this.maxAttempts };
  }

  pass(ms: number): void {
    this.now += ms;
    for (const [core, seqs] of this.wheel.take(this.now)) for (const seq of seqs) core.due(seq, this.now);
  }

  lease(holder = "h") {
    return this.core.lease(holder, this.now, LEASE_MS);
  }

  /** Stores what has changed, and goes on as another owner that has loaded it. */
  restart(): void {
    for (const [number, block] of this.core.acks.takeChanged()) {
      if (block === undefined) this.rows.delete(number);
      else this.rows.set(number, encodeBlock(block));
    }
    this.wheel = new TimerWheel<LeaseCore>(TICK_MS, this.now);
    const blocks = [...this.rows].map(([number, row]) => [number, decodeBlock(row)] as const);
    this.core = new LeaseCore(this.parts, this.core.floor, this.tail, blocks, this.now);
  }
}

const seqs = (owner: Owner) => {
  const taken: number[] = [];
  for (let lease = owner.lease(); lease !== undefined; lease = owner.lease()) taken.push(lease.seq);
  return taken;
};

test("messages are leased in order, each once, up to the tail", () => {
  const owner = new Owner(3);
  expect(seqs(owner)).toEqual([1, 2, 3]);
  owner.core.extendTail(5);
  expect(seqs(owner)).toEqual([4, 5]);
});

test("an acknowledgement ends the lease for good, and only under its own number", () => {
  const owner = new Owner(2);
  const lease = owner.lease()!;
  expect(owner.core.ack(1, lease.number + 1)).toBe("gone");
  expect(owner.core.ack(1, lease.number)).toBe("done");
  expect(owner.core.ack(1, lease.number)).toBe("gone");
  expect(owner.core.floor).toBe(1);
  owner.pass(10 * LEASE_MS);
  expect(seqs(owner)).toEqual([2]);
});

test("a lease that ends gives the message back, with one more attempt", () => {
  const owner = new Owner(1);
  const first = owner.lease()!;
  owner.pass(LEASE_MS - 1);
  expect(owner.lease()).toBeUndefined();
  owner.pass(TICK_MS + 1);
  const second = owner.lease()!;
  expect([first.attempt, second.attempt]).toEqual([1, 2]);
  expect(owner.core.ack(1, first.number)).toBe("gone");
  expect(owner.core.ack(1, second.number)).toBe("done");
});

test("an extended lease ends later, and one that is shortened ends earlier", () => {
  const owner = new Owner(2);
  const [long, short] = [owner.lease()!, owner.lease()!];
  owner.core.extend(long.seq, long.number, owner.now, 5_000);
  owner.core.extend(short.seq, short.number, owner.now, 100);
  expect(owner.core.extend(1, 99, owner.now, 100)).toBe("gone");
  owner.pass(100 + TICK_MS);
  expect(owner.lease()?.seq).toBe(2);
  owner.pass(4_900 - TICK_MS - 1);
  expect(owner.core.ack(1, long.number)).toBe("done");
});

test("a message that is given back waits for its delay, while others flow, also over a restart", () => {
  const owner = new Owner(2);
  const lease = owner.lease()!;
  expect(owner.core.nack(1, lease.number, owner.now, 500)).toBe("done");
  expect(seqs(owner)).toEqual([2]);
  owner.core.release("h", true);
  owner.restart();
  expect(seqs(owner)).toEqual([2]);
  owner.pass(500 + TICK_MS);
  expect(owner.lease()).toMatchObject({ seq: 1, attempt: 2 });
});

test("a message is dead after its last attempt, and then not leased until its owner has put it aside", () => {
  const owner = new Owner(2, 2);
  for (let i = 0; i < 2; i++) {
    const lease = owner.lease()!;
    owner.core.nack(1, lease.number, owner.now);
  }
  expect([...owner.core.dead]).toEqual([[1, "nack"]]);
  expect(seqs(owner)).toEqual([2]);
  owner.core.release("h", true);
  owner.restart();
  expect([...owner.core.dead.keys()]).toEqual([1]);
  owner.core.drop(1);
  expect(owner.core.floor).toBe(1);
  expect([...owner.core.dead]).toEqual([]);
});

test.each([
  [true, 1],
  [false, 2],
])("the messages of a holder that leaves (graceful: %s) are free at once, at attempt %i", (isGraceful, attempt) => {
  const owner = new Owner(3);
  owner.lease("a");
  owner.lease("b");
  owner.lease("a");
  expect(owner.core.outstandingOf("a")).toBe(2);
  owner.core.release("a", isGraceful);
  expect([owner.lease("c"), owner.lease("c")]).toMatchObject([
    { seq: 1, attempt },
    { seq: 3, attempt },
  ]);
  expect(owner.lease("c")).toBeUndefined();
  expect(owner.core.outstanding).toBe(3);
});

test("a rewind fences what is in flight, and messages come again from there on", () => {
  const owner = new Owner(5);
  const leases = [owner.lease()!, owner.lease()!, owner.lease()!];
  owner.core.ack(1, leases[0]!.number);
  owner.core.ack(3, leases[2]!.number);
  owner.core.rewind(0, 5);
  expect(owner.core.ack(2, leases[1]!.number)).toBe("gone");
  expect(seqs(owner)).toEqual([1, 2, 3, 4, 5]);
});

test("what retention took is over, leased or not", () => {
  const owner = new Owner(5);
  const lease = owner.lease()!;
  owner.core.dropThrough(3);
  expect(owner.core.ack(1, lease.number)).toBe("gone");
  expect(seqs(owner)).toEqual([4, 5]);
});

describe("with any operations, restarts included", () => {
  test("no message is leased twice at a time or after its acknowledgement, and none is lost", () => {
    const op = fc.record({
      kind: fc.constantFrom("lease", "lease", "lease", "ack", "ack", "nack", "extend", "pass", "release", "restart"),
      pick: fc.nat(),
    });
    fc.assert(
      fc.property(fc.array(op, { maxLength: 120 }), (ops) => {
        const owner = new Owner(12);
        const open = new Map<number, { seq: number; number: number; holder: string }>();
        const acked = new Set<number>();
        for (const { kind, pick } of ops) {
          const chosen = [...open.values()][pick % Math.max(1, open.size)];
          if (kind === "lease") {
            const lease = owner.lease(`h${pick % 3}`);
            if (lease === undefined) continue;
            expect(acked.has(lease.seq)).toBe(false);
            expect(open.has(lease.seq)).toBe(false);
            open.set(lease.seq, lease);
          } else if (kind === "pass") {
            owner.pass(pick % 700);
            for (const [seq, { number }] of open) {
              if (owner.core.extend(seq, number, owner.now, LEASE_MS) === "gone") open.delete(seq);
            }
          } else if (kind === "release") {
            owner.core.release(`h${pick % 3}`, pick % 2 === 0);
            for (const [seq, { holder }] of open) if (holder === `h${pick % 3}`) open.delete(seq);
          } else if (kind === "restart") {
            owner.restart();
            open.clear();
          } else if (chosen !== undefined) {
            const { seq, number } = chosen;
            if (kind === "ack" && owner.core.ack(seq, number) === "done") acked.add(seq);
            else if (kind === "nack") owner.core.nack(seq, number, owner.now, pick % 300);
            else if (kind === "extend") owner.core.extend(seq, number, owner.now, LEASE_MS);
            if (kind !== "extend") open.delete(seq);
          }
        }
        owner.pass(5_000);
        for (let lease = owner.lease(); lease !== undefined; lease = owner.lease()) {
          expect(acked.has(lease.seq)).toBe(false);
          acked.add(lease.seq);
        }
        expect(acked.size).toBe(12);
      }),
    );
  });
});

test("thirty thousand outstanding leases cost per message what three hundred cost", () => {
  const costOf = (count: number) => {
    let least = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 3; round++) {
      const owner = new Owner(count);
      const started = performance.now();
      const leases = Array.from({ length: count }, () => owner.lease()!);
      for (const { seq, number } of leases.reverse()) owner.core.ack(seq, number);
      least = Math.min(least, (performance.now() - started) / count);
      expect(owner.core.floor).toBe(count);
    }
    return least;
  };
  // Anything that grows with the outstanding leases would cost a hundred times as much.
  expect(costOf(30_000)).toBeLessThan(20 * costOf(300));
});
