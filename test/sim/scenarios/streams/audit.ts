/**
 * After the run, with nothing failing any more: reads every stream from its beginning, in pages and live, looks at the
 * listing, and finally takes everything down to see that nothing stays behind.
 */
import type { Final, Read } from "../../history.ts";
import type { Cast, StreamPlan } from "./cast.ts";
import type { StreamClient } from "./client.ts";

const MAX_PAGES = 1_000;

/** Fills in what the history's checkers compare with. */
export async function auditAll(cast: Cast): Promise<void> {
  const client = cast.client("audit");
  for (const plan of cast.plans) cast.history.finals.set(plan.path, await auditOne(client, plan));
  await client.list();
  for (const plan of cast.plans) await client.head(plan.path);
}

async function auditOne(client: StreamClient, { path }: StreamPlan): Promise<Final> {
  const ids: string[] = [];
  let from: Read["from"] = "-1";
  for (let page = 0; page < MAX_PAGES; page++) {
    const result = await client.read({ kind: "read", path, from, mode: "catch-up", format: "envelope" });
    // It may end just now; then a look from the beginning says how.
    if (result.kind === "refused" && from === "-1") return { kind: result.status === 410 ? "gone" : "absent" };
    if (result.kind === "refused") {
      ids.length = 0;
      from = "-1";
      continue;
    }
    if (result.kind !== "done" || result.next === undefined) throw new Error(`the audit of ${path} was not answered`);
    ids.push(...(result.ids ?? []));
    from = result.next;
    if (!result.upToDate) continue;
    await readLive(client, path);
    return { kind: "live", next: result.next, closed: result.closed, ids };
  }
  throw new Error(`the audit of ${path} does not end`);
}

/** The same again by SSE: the ledger compares. */
async function readLive(client: StreamClient, path: string): Promise<void> {
  const op: Read = { kind: "read", path, from: "-1", mode: "sse", format: "raw" };
  await client.follow(op, 1, ({ upToDate }) => !upToDate, 5_000);
}

/** Longer than any TTL of a plan with its tenth, than the check of a fork, and than several sweeps. */
const AFTERLIFE_MS = 26_000;

/**
 * Deletes what has no TTL, forks first in some runs and last in others. In the end nothing may be left: not a stream that is
 * kept for forks which have all gone, not one whose time is over.
 */
export async function takeDown(cast: Cast): Promise<string[]> {
  const client = cast.client("undertaker");
  const plans = cast.plans.filter(({ ttlSeconds }) => ttlSeconds === undefined);
  if (cast.random.chance(0.5)) plans.reverse();
  for (const { path } of plans) await client.delete(path);
  await cast.stage.world.sleep(AFTERLIFE_MS);
  const left: string[] = [];
  for (const { path } of cast.plans) {
    const result = await client.head(path);
    if (result.kind !== "refused" || result.code !== "stream-not-found")
      left.push(`[afterlife] ${path} is still there`);
  }
  return left;
}
