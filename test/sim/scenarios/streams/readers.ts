/**
 * The readers of streams: page by page, by long-poll, and by SSE with reconnects from the last offset; fast and slow, some
 * leaving in the middle. The streams scenario starts them.
 *
 * Invariants: each resumes from the offset it was last given, so a hole or a repetition shows.
 */
import type { Read, Result } from "../../history.ts";
import type { Cast, StreamPlan } from "./cast.ts";

type From = Read["from"];

export async function readPages(cast: Cast, plan: StreamPlan, rounds: number): Promise<void> {
  const client = cast.client("pager");
  for (let round = 0; round < rounds; round++) {
    let from = start(cast, plan, ["-1"]);
    for (let pages = 0; pages < 30; pages++) {
      const op: Read = { kind: "read", path: plan.path, from, mode: "catch-up", format: formatOf(cast) };
      const result = cast.note(plan.path, await client.read(op));
      from = follow(from, result);
      if (result.kind !== "done" || result.upToDate) break;
    }
    await cast.pause(500);
  }
}

export async function pollLong(cast: Cast, plan: StreamPlan, rounds: number): Promise<void> {
  const client = cast.client("poller");
  let from = start(cast, plan, ["-1", "now"]);
  for (let round = 0; round < rounds; round++) {
    const op: Read = { kind: "read", path: plan.path, from, mode: "long-poll", format: formatOf(cast) };
    const patienceMs = cast.random.chance(0.2) ? cast.random.between(1, 2_000) : undefined;
    const result = cast.note(plan.path, await client.read(op, patienceMs));
    from = follow(from, result);
    if (result.kind === "done" && result.closed && cast.random.chance(0.7)) return;
    await cast.pause(result.kind === "done" ? 20 : 400);
  }
}

export async function followLive(cast: Cast, plan: StreamPlan, rounds: number): Promise<void> {
  const client = cast.client("follower");
  const format = formatOf(cast);
  const readMs = cast.random.pick([1, 20, 20, 400, 3_000]);
  let from = start(cast, plan, ["-1", "now"]);
  for (let round = 0; round < rounds; round++) {
    const op: Read = { kind: "read", path: plan.path, from, mode: "sse", format };
    let isOver = false;
    const keeps = ({ closed }: { closed: boolean }): boolean => {
      isOver = closed;
      return !cast.random.chance(0.02);
    };
    const end = await client.follow(op, readMs, keeps, cast.random.between(50, 8_000));
    from = goOn(from, end);
    if (isOver && cast.random.chance(0.7)) return;
    await cast.pause(300);
  }
}

/** Where a reader resumes after its connection has ended: at the offset it was last given, or where the server sent it. */
export function goOn(from: From, end: From | Result): From {
  return typeof end === "object" && "kind" in end ? follow(from, end) : end;
}

function start(cast: Cast, { path }: StreamPlan, words: readonly From[]): From {
  const known = cast.someOffset(path);
  return known !== undefined && cast.random.chance(0.4) ? known : cast.random.pick(words);
}

/** Where to resume: behind the received messages, or at the earliest kept message. */
function follow(from: From, result: Result): From {
  if (result.kind === "done") return result.next ?? from;
  return result.kind === "refused" && result.earliest ? result.earliest : from;
}

function formatOf(cast: Cast): Read["format"] {
  return cast.random.chance(0.5) ? "raw" : "envelope";
}
