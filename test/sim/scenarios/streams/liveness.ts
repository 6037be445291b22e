/**
 * A reader that waits at the end of a stream gets new messages soon: by long-poll and by SSE, however appends and waits
 * interleave. The audit calls it, without faults or delays, because late is not wrong before that.
 *
 * Invariants: afterwards some readers leave in the middle, and the simulation checks that nothing is left of them.
 */
import type { Position } from "@sluice/protocol";
import type { Append, Read } from "../../history.ts";
import type { Cast, StreamPlan } from "./cast.ts";
import { goOn } from "./readers.ts";

const ROUNDS = 2;
const WRITES = 3;
const FOLLOWERS = 3;
/** The time within which writers write and readers arrive. */
const CROWD_MS = 8;
/** Far more than the calm network and storage take, far less than a waiting reader's timeout. */
const SOON_MS = 500;

/** Returns one line for each waiting reader that got no message. */
export async function checkWaiters(cast: Cast, maxReaders: number): Promise<string[]> {
  const forgotten: string[] = [];
  for (const plan of cast.plans) {
    for (let round = 0; round < ROUNDS; round++) forgotten.push(...(await checkOnce(cast, plan, maxReaders)));
  }
  return forgotten;
}

async function checkOnce(cast: Cast, plan: StreamPlan, maxReaders: number): Promise<string[]> {
  const { world } = cast.stage;
  // The slots of earlier readers are free again.
  await world.quiet();
  const head = await cast.client("waker").head(plan.path);
  if (head.kind !== "done" || head.closed || head.next === undefined) return [];
  const from = head.next;
  const startMs = world.now();
  const soon = <T>(start: () => Promise<T>) => cast.pause(CROWD_MS).then(start);
  const writes = Array.from({ length: WRITES }, () => soon(() => write(cast, plan)));
  const followers = Math.min(FOLLOWERS, maxReaders - 1);
  const waiters = [soon(() => poll(cast, plan, from))];
  for (let i = 0; i < followers; i++) waiters.push(soon(() => follow(cast, plan, from)));
  const seenAtMs = await Promise.all(waiters);
  // The stream may have ended just now.
  if ((await Promise.all(writes)).includes(false)) return [];
  const isLate = (atMs: number | undefined) => atMs === undefined || atMs > startMs + SOON_MS;
  return seenAtMs.flatMap((atMs, i) =>
    isLate(atMs) ? [`[live] a ${i === 0 ? "long-poll" : "SSE"} reader of ${plan.path} was not told in time`] : [],
  );
}

async function write(cast: Cast, plan: StreamPlan): Promise<boolean> {
  const items = cast.items(plan, 1);
  const op: Append = { kind: "append", path: plan.path, ids: items.map(({ id }) => id), close: false };
  return (await cast.client("waker").append(op, items)).kind === "done";
}

/** The time of the first message, or of the news that retention trimmed it; or undefined. */
async function poll(cast: Cast, { path }: StreamPlan, from: Position): Promise<number | undefined> {
  const result = await cast.client("waiter").read({ kind: "read", path, from, mode: "long-poll", format: "raw" });
  const isTold = result.kind === "refused" || (result.kind === "done" && result.ids!.length > 0);
  return isTold ? cast.stage.world.now() : undefined;
}

/** The time of the last message, or undefined. */
async function follow(cast: Cast, { path }: StreamPlan, from: Position): Promise<number | undefined> {
  const op: Read = { kind: "read", path, from, mode: "sse", format: "raw" };
  let seenAtMs: number | undefined;
  let at: Read["from"] = from;
  const keeps = ({ next }: { next: Position }): boolean => {
    if (next.seq >= from.seq + WRITES) seenAtMs = cast.stage.world.now();
    return seenAtMs === undefined;
  };
  const client = cast.client("watcher");
  const untilMs = cast.stage.world.now() + 2 * SOON_MS;
  // A reader that falls behind is disconnected and reconnects.
  while (seenAtMs === undefined && cast.stage.world.now() < untilMs) {
    const end = await client.follow({ ...op, from: at }, 1, keeps, 2 * SOON_MS);
    at = goOn(at, end);
  }
  return seenAtMs;
}

/** Readers of every kind that leave while they wait. */
export async function leaveInTheMiddle(cast: Cast): Promise<void> {
  const leavers = cast.plans.map(async ({ path }, i) => {
    const from = "now";
    const client = cast.client("leaver");
    if (i % 2 === 0) await client.read({ kind: "read", path, from, mode: "long-poll", format: "raw" }, 20);
    else await client.follow({ kind: "read", path, from, mode: "sse", format: "raw" }, 1, () => true, 20);
  });
  await Promise.all(leavers);
}
