/**
 * The checks of the final state, without further faults. The sessions scenario calls them.
 *
 * Invariants: a stuck session delays no other session; deleted and expired sessions leave nothing behind.
 */
import { limitsOf } from "../../../../packages/server/src/config/schema.ts";
import type { Stage } from "../../scenario.ts";
import type { Core } from "./faulty-core.ts";
import type { Owner, SourceSpec } from "./owner.ts";
import type { Publisher } from "./publisher.ts";
import type { Story } from "./story.ts";

export interface AuditParts {
  readonly stage: Stage;
  readonly story: Story;
  readonly core: Core;
  readonly owners: readonly Owner[];
  readonly sources: readonly SourceSpec[];
  publisher(source: SourceSpec): Publisher;
}

/** Requests, storage and reads take some time even without faults. */
const SLACK_MS = 1_500;

function followersOf({ owners }: AuditParts, path: string): Owner[] {
  return owners.filter(({ life }) => life?.epochs.some(({ source, ended }) => source === path && ended === undefined));
}

/** With one session stuck, the others get new messages within the grace time; the stuck one gets them once it recovers. */
export async function auditStuck(parts: AuditParts): Promise<void> {
  const { stage, story, core, sources } = parts;
  const { graceMs, timeoutMs, maxRetryMs } = limitsOf(stage.host.settings).fanout;
  for (const source of sources) {
    const [stuck, ...others] = followersOf(parts, source.path);
    if (stuck === undefined || others.length === 0) continue;
    // A single session cannot be told from an outage; with several, one must get through.
    core.stick(stuck.session);
    for (let i = 0; i < 2; i++) {
      const { ids } = await parts.publisher(source).publish("stream");
      // A session slower than the grace time is retried separately; no other session waits for the timeout of its call.
      await stage.world.sleep(2 * graceMs + 2 * maxRetryMs + SLACK_MS);
      for (const owner of others) await expectSeen(story, owner, ids, `while ${stuck.session} is stuck`);
    }
    const last = await parts.publisher(source).publish("stream");
    core.unstick(stuck.session);
    await stage.world.sleep(timeoutMs + 2 * maxRetryMs + SLACK_MS);
    await expectSeen(story, stuck, last.ids, "though it is not stuck any more");
  }
}

async function expectSeen(story: Story, owner: Owner, ids: readonly string[], when: string): Promise<void> {
  await owner.read();
  if (owner.life === undefined) return;
  for (const id of ids) {
    if (!owner.life.seen.some((found) => found.id === id)) story.object(`${owner.session} lacks ${id} ${when}`);
  }
}

/** A remaining session can read all its copies again, whichever sessions have left and whatever was trimmed with them. */
export async function auditBorrowing({ stage, story, owners }: AuditParts): Promise<void> {
  const living = owners.filter(({ life }) => life !== undefined && !life.wasCut);
  if (living.length === 0) return;
  const last = stage.random.pick(living);
  for (const owner of owners) if (owner !== last) await owner.leave();
  await last.read();
  await stage.world.sleep(2 * limitsOf(stage.host.settings).fanout.checkMs + SLACK_MS);
  if (last.life === undefined) return;
  const before = last.life.seen.map(({ id }) => id);
  const after = await last.readAgain();
  if (after.join() !== before.join()) story.object(`${last.session} had ${before.join()}, and has ${after.join()}`);
}

/** Deleted and expired sessions are gone everywhere, once their streams were published to. */
export async function auditEmptiness(parts: AuditParts): Promise<void> {
  const { stage, story, sources, owners } = parts;
  const { sessionTtlSeconds: ttl, session, fanout } = limitsOf(stage.host.settings);
  const isShort = ttl < 1_000;
  if (isShort) await stage.world.sleep(ttl * 1_200 + 2 * session.cleanupMs + session.endAgainMs);
  else for (const owner of owners) await owner.leave();
  // A registry that still points at them learns that they are gone.
  for (const source of sources) await parts.publisher(source).publish("publish");
  await stage.world.sleep(2 * fanout.maxRetryMs + fanout.timeoutMs + 2 * fanout.checkMs + 3_000);
  const engine = stage.host.engine!;
  for (const kind of ["session", "fanout"]) {
    const { ids } = await engine.list("default", kind, "", "", 10);
    if (ids.length > 0) story.object(`${kind} ${ids.join()} is left, though all sessions are over`);
  }
  for (let shard = 0; shard < engine.shards; shard++) {
    const due = (await engine.due(shard, 10)).filter(({ kind }) => kind === "session" || kind === "fanout");
    if (due.length > 0) story.object(`${due.map(({ key }) => key).join()} is in the index, and not swept`);
  }
}

/** When no session follows a stream any more, its retention applies in full. */
export async function auditRetention(parts: AuditParts): Promise<void> {
  const { stage, story } = parts;
  for (const source of parts.sources) {
    const { maxMessages, path } = source;
    if (maxMessages === undefined) continue;
    const publisher = parts.publisher(source);
    for (let i = 0; i < 2 * maxMessages; i++) await publisher.publish("stream");
    const { head } = await stage.host.engine!.load(
      { project: "default", kind: "stream", id: path, key: `default/stream/${path}` },
      [],
    );
    const kept = head.last.seq - head.start.seq;
    if (kept > maxMessages * 1.1 + 3) story.object(`${path} keeps ${kept} messages, ${maxMessages} were asked for`);
  }
}
