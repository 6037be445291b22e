/**
 * Whoever waits at the end of a stream gets what is appended there, soon: by long-poll and by SSE, however the append and
 * the beginning of the wait fall together. Asked after the run, when nothing dawdles any more: before that, late is not wrong.
 */
import type { Position } from "@sluice/protocol";
import type { Append, Read } from "../../history.ts";
import type { Cast, StreamPlan } from "./cast.ts";

const ROUNDS = 3;
/** Far more than the calm network and storage take, far less than a waiter's patience. */
const SOON_MS = 500;

/** One line for each waiter that was forgotten. */
export async function checkWaiters(cast: Cast): Promise<string[]> {
  const forgotten: string[] = [];
  for (const plan of cast.plans) {
    for (let round = 0; round < ROUNDS; round++) forgotten.push(...(await checkOnce(cast, plan)));
  }
  return forgotten;
}

async function checkOnce(cast: Cast, plan: StreamPlan): Promise<string[]> {
  // The places of earlier readers are free again.
  await cast.stage.world.quiet();
  const writer = cast.client("waker");
  const head = await writer.head(plan.path);
  if (head.kind !== "done" || head.closed || head.next === undefined) return [];
  const items = cast.items(plan, 1);
  const id = items[0]!.id;
  const op: Append = { kind: "append", path: plan.path, ids: [id], close: false };
  const write = cast.stage.world.sleep(cast.random.between(0, 6)).then(() => writer.append(op, items));
  const startMs = cast.stage.world.now();
  const waiters = [poll(cast, plan, head.next), follow(cast, plan, head.next)];
  const seenAtMs = await Promise.all(waiters);
  // The stream may have come to its end just now.
  if ((await write).kind !== "done") return [];
  const names = ["long-poll", "SSE"];
  const late = names.filter((_, i) => seenAtMs[i] === undefined || seenAtMs[i]! > startMs + SOON_MS);
  return late.map((name) => `[live] ${id} was appended to ${plan.path}, and its ${name} reader was not told in time`);
}

/** When the next message came, or undefined. Both readers stay for what their own next look would bring. */
async function poll(cast: Cast, { path }: StreamPlan, from: Position): Promise<number | undefined> {
  const client = cast.client("waiter");
  const result = await client.read({ kind: "read", path, from, mode: "long-poll", format: "raw" });
  return result.kind === "done" && result.ids!.length > 0 ? cast.stage.world.now() : undefined;
}

async function follow(cast: Cast, { path }: StreamPlan, from: Position): Promise<number | undefined> {
  const client = cast.client("watcher");
  const op: Read = { kind: "read", path, from, mode: "sse", format: "raw" };
  let seenAtMs: number | undefined;
  const keeps = ({ next }: { next: Position }): boolean => {
    if (next.seq > from.seq) seenAtMs = cast.stage.world.now();
    return seenAtMs === undefined;
  };
  await client.follow(op, 1, keeps, 2 * SOON_MS);
  return seenAtMs;
}
