import type { Position } from "@sluice/protocol";
import { expect, test } from "vitest";
import type { LoggedMessage } from "../engine/contract.ts";
import { newBlock } from "../leases/block-row.ts";
import { TimerWheel } from "../leases/timer-wheel.ts";
import type { SubscriptionOptions } from "./contract.ts";
import { SUBSCRIPTION_DEFAULTS } from "./defaults.ts";
import { PulledLog } from "./pulled-log.ts";

const at = (seq: number, generation = 1): Position => ({ generation, seq });
const message = (position: Position, key?: string): LoggedMessage => ({
  payload: new Uint8Array(1),
  at: 0,
  position,
  key,
});
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

/** A log whose first three messages are acknowledged, and what an earlier dispatcher stored of those above. */
function stored(block = newBlock(), options: Partial<SubscriptionOptions> = {}): PulledLog {
  let numbers = 0;
  const parts = {
    wheel: new TimerWheel<PulledLog["core"]>(20, 0),
    nextNumber: () => ++numbers,
    filter: undefined,
    options: () => ({ ...SUBSCRIPTION_DEFAULTS, ...options }),
    freed: () => {},
    cacheBytes: 1_000,
  };
  return new PulledLog(parts, 0, "t", { at: at(3), marked: at(12), head: at(15, 2) }, [[0, block]], 0);
}

function leased(log: PulledLog): Position[] {
  const found: Position[] = [];
  for (let one = log.lease("h", false, 0, 1_000); one; one = log.lease("h", false, 0, 1_000)) found.push(one.position);
  return found;
}

function acked(...seqs: number[]) {
  const block = newBlock();
  for (const seq of seqs) block.acked[seq >> 3]! |= 1 << (seq & 7);
  return block;
}

test("acknowledgements above the floor count for the next dispatcher of the same log", () => {
  const log = stored(acked(6, 9, 12));
  log.read(
    range(4, 13).map((seq) => message(at(seq))),
    0,
  );
  expect(leased(log).map(({ seq }) => seq)).toEqual([4, 5, 7, 8, 10, 11, 13]);
});

test("what an earlier dispatcher stored of messages that a failover lost is void for those that took their numbers", () => {
  const log = stored(acked(6, 9, 12));
  const positions = [at(4), at(5), ...range(6, 13).map((seq) => at(seq, 2))];
  log.read(
    positions.map((position) => message(position)),
    0,
  );
  expect(leased(log)).toEqual(positions);
  expect(log.takeChanges()).toMatchObject({ at: at(3), marked: at(13, 2) });
});

test("a message that died under an earlier dispatcher is put aside once it has been read, under its own position", () => {
  const block = newBlock();
  block.attempts.set(8, 5);
  const log = stored(block, { deadLetter: { topic: "dead", maxAttempts: 5 } });
  log.read([message(at(4))], 0);
  expect([...log.dead()]).toEqual([]);
  log.read(
    range(5, 9).map((seq) => message(at(seq))),
    0,
  );
  expect([...log.dead()]).toEqual([[8, "holder-lost"]]);
});

test("a leased message is counted with its key and attributes", () => {
  const log = stored();
  log.read([{ ...message(at(4)), key: "key", attributes: { name: "value" } }], 0);
  log.lease("h", false, 0, 1_000);
  expect(log.bytesOf(4)).toBe(1 + 3 + 4 + 5);
});

test.each([false, true])(
  "of a lost end nothing is leased, and what was leased before it comes again (ordered: %s)",
  (isOrdered) => {
    const log = stored(newBlock(), { isOrdered });
    log.read(
      range(4, 9).map((seq) => message(at(seq), `key ${seq}`)),
      0,
    );
    for (let i = 0; i < 3; i++) log.lease("h", false, 0, 1_000);
    log.read([message(at(6, 2), "key 6")], 0);
    expect(leased(log)).toEqual([at(4), at(5), at(6, 2)]);
    log.read([message(at(7, 2), "key 7")], 0);
    expect(leased(log)).toEqual([at(7, 2)]);
  },
);

test("an ordering key goes on after retention has taken messages of it that were read and not leased", () => {
  const log = stored(newBlock(), { isOrdered: true });
  log.read([message(at(4), "key"), message(at(5), "key")], 0);
  expect(log.lease("h", true, 0, 1_000)?.position).toEqual(at(4));
  log.trimmed(at(8), 0);
  log.read([message(at(9), "key")], 0);
  expect(log.lease("h", true, 0, 1_000)?.position).toEqual(at(9));
  expect(log.ahead).toBe(1);
});

test.each([
  ["the last message that the log had when the dispatcher began", at(15, 2), "done"],
  ["a message after that one", at(16, 2), "gone"],
  ["a message of a generation that the log did not have", at(15, 3), "gone"],
  ["a message of a generation before the floor", at(15, 0), "gone"],
])("an ack id of an earlier dispatcher that names %s", (_, { generation, seq }, outcome) => {
  const log = stored();
  expect(log.ack({ edition: 1, log: 0, generation, seq, lease: 0 }, false, 0)).toBe(outcome);
  expect(log.takeChanges().blocks.size).toBe(outcome === "done" ? 1 : 0);
});

test("a late acknowledgement of a message that a failover lost does not count for the one that took its number", () => {
  const log = stored();
  const late = { edition: 1, log: 0, generation: 1, seq: 14, lease: 0 };
  expect(log.ack(late, false, 0)).toBe("done");
  const positions = [...range(4, 12).map((seq) => at(seq)), ...range(13, 15).map((seq) => at(seq, 2))];
  log.read(
    positions.map((position) => message(position)),
    0,
  );
  expect(leased(log)).toEqual(positions);
});
