/**
 * One turn of a dispatcher: leases what is ready to the streams that have room, one message to each in turn, and delivers it.
 *
 * Invariants: a turn leases a bounded number of messages. A stream gets its messages in the order in which they were leased. A
 * message that must be read again is fetched before any later one is leased to its stream.
 */
import type { Delivery } from "./contract.ts";
import type { Holder } from "./holders.ts";
import type { LogReader } from "./log-reader.ts";
import { deliveryOf } from "./message.ts";
import type { PulledLog, Taken } from "./pulled-log.ts";

export interface Giving {
  readonly limits: { readonly turnMessages: number };
  readonly logs: readonly PulledLog[];
  readonly holders: readonly Holder[];
  /** Where the round of streams and logs begins. */
  readonly turn: number;
  readonly now: number;
  readonly ackDeadlineMs: number;
  readonly edition: number;
  readonly isSharded: boolean;
  readonly reader: Pick<LogReader, "fetch">;
}

export interface Given {
  readonly leased: number;
  /** The turn ended before the messages did. */
  readonly isCut: boolean;
  /** A stream has room, and no message is ready for it. */
  readonly isHungry: boolean;
}

interface Batch {
  readonly holder: Holder;
  readonly taken: { readonly log: PulledLog; readonly one: Taken }[];
}

export function give(giving: Giving): Given {
  const { limits, holders, turn } = giving;
  let taking = holders
    .filter((holder) => takes(holder) && holder.flow.hasRoom)
    .map((holder): Batch => ({ holder, taken: [] }));
  const first = taking.length === 0 ? 0 : turn % taking.length;
  taking = [...taking.slice(first), ...taking.slice(0, first)];
  const batches = taking;
  let leased = 0;
  let isHungry = false;
  while (taking.length > 0 && leased < limits.turnMessages) {
    const next: Batch[] = [];
    for (const batch of taking) {
      const { flow } = batch.holder;
      if (!flow.hasRoom && !(flow.allowsExcess && batch.taken.length > 0)) continue;
      if (!leaseOne(giving, batch, turn + leased)) {
        isHungry ||= flow.hasRoom;
        continue;
      }
      leased++;
      next.push(batch);
    }
    taking = next;
  }
  for (const batch of batches) if (batch.taken.length > 0) deliver(giving, batch);
  return { leased, isCut: leased >= limits.turnMessages, isHungry };
}

function takes({ isPaused, isClosed, isFetching }: Holder): boolean {
  return !isPaused && !isClosed && !isFetching;
}

function leaseOne({ logs, now, ackDeadlineMs }: Giving, { holder, taken }: Batch, turn: number): boolean {
  const { id, isSequential, leaseMs = ackDeadlineMs, flow } = holder;
  for (let i = 0; i < logs.length; i++) {
    const log = logs[(turn + i) % logs.length]!;
    const one = log.lease(id, isSequential, now, leaseMs);
    if (one === undefined) continue;
    holder.outstanding++;
    flow.add(log.bytesOf(one.lease.seq));
    taken.push({ log, one });
    return true;
  }
  return false;
}

function deliver(giving: Giving, batch: Batch): void {
  const { holder, taken } = batch;
  const { edition, isSharded, reader } = giving;
  const delivery = (log: PulledLog, { lease }: Taken, message: NonNullable<Taken["message"]>): Delivery =>
    deliveryOf(message, { lease, edition, log: log.index, isSharded });
  const isWhole = taken.every(({ one }) => one.message !== undefined);
  if (isWhole) {
    holder.events.deliver(taken.map(({ log, one }) => delivery(log, one, one.message!)));
    return;
  }
  holder.isFetching = true;
  void reader.fetch(holder, taken, (log, one, message) => delivery(log, one, message));
}
