/**
 * The writers of streams: plain, with Stream-Seq, and as producers that repeat messages of unknown outcome. The streams
 * scenario starts them.
 *
 * Invariants: each writes to one path until its share is done; on a missing stream it waits for its creation, or creates it.
 */
import type { Result, Triple } from "../../history.ts";
import { type Cast, isAbsent, isClosed, type StreamPlan } from "./cast.ts";
import type { StreamClient } from "./client.ts";
import type { Item } from "./messages.ts";

/** Every attempt is a message of its own, so that one of unknown outcome is stored once or not at all. */
export async function writePlainly(cast: Cast, plan: StreamPlan, count: number): Promise<void> {
  const client = cast.client("plain");
  for (let i = 0; i < count; i++) {
    const items = cast.items(plan);
    const op = { kind: "append" as const, path: plan.path, ids: idsOf(items), close: false };
    const result = cast.note(plan.path, await client.append(op, items));
    if (!(await goesOn(cast, client, plan, result))) return;
  }
}

/** Two connections share a rising Stream-Seq, so that some requests come too late. */
export async function writeInSequence(cast: Cast, plan: StreamPlan, count: number): Promise<void> {
  const client = cast.client("seq");
  let seq = 0;
  const write = async (): Promise<void> => {
    while (seq < count) {
      const items = cast.items(plan, 2);
      const text = String(++seq).padStart(6, "0");
      const op = { kind: "append" as const, path: plan.path, ids: idsOf(items), close: false, seq: text };
      const result = cast.note(plan.path, await client.append(op, items));
      if (!(await goesOn(cast, client, plan, result))) return;
    }
  };
  await Promise.all(cast.random.chance(0.5) ? [write(), write()] : [write()]);
}

const MAX_ATTEMPTS = 8;

/**
 * A producer with a window of messages in flight. It repeats each until it knows the outcome. Where one cannot be delivered
 * it starts a new epoch, sometimes before all requests of the old one have arrived.
 */
export async function produce(cast: Cast, plan: StreamPlan, count: number): Promise<void> {
  const client = cast.client("producer");
  const id = client.name;
  const window = cast.random.pick([1, 1, 2, 4]);
  const all: Promise<void>[] = [];
  let sent = 0;
  for (let epoch = 0; sent < count && epoch < 4; epoch++) {
    const underWay = new Set<Promise<void>>();
    let isOver = false;
    for (let seq = 0; sent < count && !isOver; seq++, sent++) {
      const delivery = deliver(cast, client, plan, { id, epoch, seq }).then((isDelivered) => {
        underWay.delete(delivery);
        if (!isDelivered) isOver = true;
      });
      underWay.add(delivery);
      all.push(delivery);
      if (underWay.size >= window) await Promise.race(underWay);
      await cast.pause(50);
    }
    if (cast.random.chance(0.7)) await Promise.all(underWay);
    if (isOver && cast.random.chance(0.5)) await cast.create(client, plan);
  }
  await Promise.all(all);
}

/** False when the producer cannot continue in this epoch. */
async function deliver(cast: Cast, client: StreamClient, plan: StreamPlan, producer: Triple): Promise<boolean> {
  const items = cast.items(plan, 2);
  const close = cast.random.chance(0.02);
  const op = { kind: "append" as const, path: plan.path, ids: idsOf(items), close, producer };
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const result = cast.note(plan.path, await client.append(op, items));
    if (result.kind === "done") {
      // Some producers repeat acknowledged messages, as an impatient proxy would.
      if (cast.random.chance(0.05)) await client.append(op, items);
      return !close;
    }
    const mayHelp =
      result.kind !== "refused" || result.code === "producer-gap" || result.code === "producer-epoch-start";
    if (!mayHelp) return false;
    await cast.pause(result.kind === "refused" ? 100 : 400);
  }
  return false;
}

/** The writer's reaction to an answer; false when it has nothing more to do here. */
async function goesOn(cast: Cast, client: StreamClient, plan: StreamPlan, result: Result): Promise<boolean> {
  await cast.pause(result.kind === "done" ? 60 : 300);
  if (isClosed(result)) return cast.random.chance(0.3);
  if (isAbsent(result) && cast.random.chance(0.4)) await cast.create(client, plan);
  return true;
}

function idsOf(items: readonly Item[]): string[] {
  return items.map(({ id }) => id);
}
