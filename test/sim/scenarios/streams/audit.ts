/**
 * The audit after the run, without further faults: reads every stream from its beginning, in pages and live, checks the
 * listing, and finally deletes everything to see that nothing stays behind. The streams scenario calls it.
 */
import type { Final, Read } from "../../history.ts";
import type { Cast, StreamPlan } from "./cast.ts";
import type { StreamClient } from "./client.ts";

const MAX_PAGES = 1_000;

/** Records the final state that the checkers compare with. */
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
    // It may expire just now; then a read from the beginning tells how it ended.
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

/** Reads the same again by SSE; the ledger compares. */
async function readLive(client: StreamClient, path: string): Promise<void> {
  const op: Read = { kind: "read", path, from: "-1", mode: "sse", format: "raw" };
  await client.follow(op, 1, ({ upToDate }) => !upToDate, 5_000);
}

/** Longer than any TTL of a plan with its tenth, than the check of a fork, and than several sweeps. */
const AFTERLIFE_MS = 26_000;

/**
 * Deletes streams without a TTL, forks first in some runs and last in others. In the end nothing may be left: no stream kept
 * for forks that are all gone, and no expired stream.
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
