/**
 * Sharded topics as a protocol over a topic and its shards, each step one entity's and fit to be repeated. Called by `Streams`.
 *
 * What must stay true: the topic is there before its first shard and until after its last one. So a shard without its topic is
 * known to be left over, and a topic whose shards are not all as it is says so (`step`) and has a reminder: whoever meets it,
 * a PUT, an append or the sweep, takes the shards through the rest. The other order would leave shards that nobody knows of.
 */
import { hex } from "../core/bytes.ts";
import { shardPath, shardPaths } from "../core/shard-path.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import type { Append, AppendOutcome, ShardedAppend } from "./append.ts";
import type { DeleteOutcome } from "./life.ts";
import type { StreamLimits } from "./limits.ts";
import type { CreateResult, NewStream, Streams } from "./service.ts";
import {
  abandonRule,
  closeRule,
  destroyTopicRule,
  dropShardRule,
  lookRule,
  type MakeShard,
  makeShardRule,
  restRule,
  shardOf,
  wholeRule,
} from "./shards.ts";
import { DEFAULT_CONTENT_TYPE, lastUse, META, type Meta, streamEntity } from "./state.ts";

type Mended =
  | { readonly kind: "whole"; readonly meta: Meta }
  | { readonly kind: "absent" }
  /** The topic could not be made, because something else is where this shard would be. */
  | { readonly kind: "taken"; readonly path: string };

const CLOSING: Append = { payloads: [], close: true };
/** How often an append looks again for the shard that it was sent to. */
const ROUTINGS = 3;

export class Sharded {
  /** By topic, the shard that comes next. Of this process only: it spreads appends, and nobody relies on it. */
  private readonly turns = new Map<string, number>();

  constructor(
    private readonly engine: Engine,
    private readonly keepers: Keepers,
    private readonly world: World,
    private readonly streams: Streams,
    private readonly limits: StreamLimits,
  ) {}

  /** The topic first, then its shards; it is answered when all are there. */
  async create(project: string, path: string, request: NewStream): Promise<CreateResult> {
    const { closed } = request;
    const config = { ...request.config, contentType: request.config.contentType ?? DEFAULT_CONTENT_TYPE };
    const topicId = hex(this.world.randomBytes(12));
    const checkMs = this.limits.shardCheckMs;
    const created = await this.streams.createAt(project, path, { config, closed, payloads: [], topicId, checkMs });
    if (created.kind !== "created" && created.kind !== "exists") return created;
    if (created.meta.topic?.step === undefined) return created;
    const mended = await this.mend(project, path);
    if (mended.kind === "taken") return { kind: "shard-taken", path: mended.path };
    // It went in between. One that was found half made was perhaps given up, and then is not what this request asked for.
    if (mended.kind === "absent" && created.kind === "exists") return this.create(project, path, request);
    return created;
  }

  /** Sends an append to its shard. A closing one is an append first, and then closes the whole topic. */
  async append(project: string, path: string, input: Append, topic: ShardedAppend): Promise<AppendOutcome> {
    if (!topic.isWhole && (await this.mend(project, path)).kind !== "whole") return { kind: "absent" };
    const isCloseOnly = input.close && input.payloads.length === 0 && input.producer === undefined;
    if (isCloseOnly) return this.close(project, path);
    const routed = await this.route(project, path, input, topic);
    if (!input.close || (routed.kind !== "appended" && routed.kind !== "duplicate")) return routed;
    const closed = await this.close(project, path);
    return closed.kind === "absent" ? closed : { ...routed, closed: true };
  }

  private async route(project: string, path: string, input: Append, topic: ShardedAppend): Promise<AppendOutcome> {
    let { shards, topicId } = topic;
    for (let i = 0; ; i++) {
      const shard = shardOf(input, shards) ?? this.turn(`${project}/${path}`, shards);
      const outcome = await this.streams.appendAt(project, shardPath(path, shard), { ...input, close: false, topicId });
      if (outcome.kind !== "absent") return { ...outcome, shard };
      // The topic has gone since we looked, or was made anew with another number of shards, or has lost this one and gets it back.
      const mended = await this.mend(project, path);
      if (i === ROUTINGS || mended.kind !== "whole") return { kind: "absent" };
      shards = mended.meta.config.shards!;
      topicId = mended.meta.topic!.id;
    }
  }

  private turn(topic: string, shards: number): number {
    const shard = (this.turns.get(topic) ?? 0) % shards;
    if (this.turns.size >= this.limits.shardTurns && !this.turns.has(topic)) this.turns.clear();
    this.turns.set(topic, shard + 1);
    return shard;
  }

  private async close(project: string, path: string): Promise<AppendOutcome> {
    const topic = streamEntity(project, path);
    const outcome = await this.keepers.submit(topic, [META], (view, now) => closeRule(view, now, this.limits));
    if (outcome.kind === "absent") return outcome;
    if (outcome.kind === "closing" && (await this.mend(project, path)).kind !== "whole") return { kind: "absent" };
    return { kind: "appended", next: outcome.next, closed: true, isCloseOnly: true };
  }

  /** Makes the shards that are missing and closes those that should be; afterwards the topic is whole, or gone. */
  private async mend(project: string, path: string): Promise<Mended> {
    const topic = streamEntity(project, path);
    for (;;) {
      const found = await this.keepers.submit(topic, [META], lookRule);
      if (found.kind === "absent") return found;
      const { config, closed, topic: of } = found.meta;
      const make = { topicId: of!.id, config, closed };
      const paths = shardPaths(path, config.shards!);
      const made = await all(paths.map((shard) => this.makeShard(project, path, shard, make)));
      const taken = made.indexOf("taken");
      if (taken >= 0) {
        await this.abandon(project, path, make.topicId);
        return { kind: "taken", path: paths[taken]! };
      }
      const outcome = await this.keepers.submit(topic, [META], (view, now) =>
        wholeRule(view, now, make.topicId, closed),
      );
      if (outcome === "whole") return { kind: "whole", meta: found.meta };
      if (outcome === "changed") continue;
      // It went while we were at it, and what we made may have come too late for who took the shards away.
      await this.dropShards(project, paths, make.topicId);
      return { kind: "absent" };
    }
  }

  private async makeShard(
    project: string,
    topicPath: string,
    path: string,
    make: MakeShard,
  ): Promise<"made" | "there" | "taken" | "others"> {
    const shard = streamEntity(project, path);
    for (;;) {
      const outcome = await this.keepers.submit(shard, [META], (view, now) =>
        makeShardRule(view, now, make, this.limits),
      );
      if (outcome.kind === "others") {
        // We look at the topic after the shard: if it is still ours, the shard's has gone; if not, it is we who come too late.
        if ((await this.metaOf(project, topicPath))?.topic?.id !== make.topicId) return "others";
        await this.dropShard(project, path, outcome.topicId);
        continue;
      }
      if (outcome.kind === "made") this.streams.wasCreated(project, path);
      if (outcome.kind === "there" && make.closed && !outcome.closed)
        await this.streams.appendAt(project, path, CLOSING);
      return outcome.kind;
    }
  }

  private async abandon(project: string, path: string, topicId: string): Promise<void> {
    const outcome = await this.keepers.submit(streamEntity(project, path), [META], (view, now) =>
      abandonRule(view, now, topicId, this.limits),
    );
    if (outcome.kind === "kept") throw new Error(`a shard of ${path} was replaced by something else`);
    if (outcome.kind === "ending") await this.finish(project, path, outcome.meta);
  }

  /** The second half of ending a topic. Nobody sees it any more; the sweep comes back for what is not done here. */
  async finish(project: string, path: string, { topic, config }: Meta): Promise<DeleteOutcome> {
    const { id } = topic!;
    await this.dropShards(project, shardPaths(path, config.shards!), id);
    await this.destroy(project, path, id);
    // Somebody else may have taken the last step; it is gone either way.
    return { kind: "deleted" };
  }

  private async dropShards(project: string, paths: readonly string[], topicId: string): Promise<void> {
    await all(paths.map((path) => this.dropShard(project, path, topicId)));
  }

  /** False when it stays, because it is in use. */
  private async dropShard(project: string, path: string, topicId: string, ifIdle = false): Promise<boolean> {
    const outcome = await this.keepers.submit(streamEntity(project, path), [META], (view, now) =>
      dropShardRule(view, now, topicId, ifIdle, this.limits),
    );
    this.streams.wasDeleted(project, path, outcome);
    return outcome.kind !== "kept";
  }

  /** A topic whose reminder has passed: finishes what was begun, and ends it when none of its shards was used for its TTL. */
  async sweep(project: string, path: string, { topic, config }: Meta): Promise<void> {
    const { id, step } = topic!;
    if (step !== "ending") {
      if ((await this.mend(project, path)).kind !== "whole") return;
      const usedAt = config.ttlSeconds === undefined ? 0 : await this.lastUse(project, path, config.shards!);
      const outcome = await this.keepers.submit(streamEntity(project, path), [META], (view, now) =>
        restRule(view, now, id, usedAt, this.limits),
      );
      if (outcome !== "ending") return;
    }
    await this.end(project, path, id, config.shards!);
  }

  /** A shard that was used since we looked stays, and the topic with it; the others, whose time was over, begin anew. */
  private async end(project: string, path: string, topicId: string, shards: number): Promise<void> {
    const dropped = await all(shardPaths(path, shards).map((shard) => this.dropShard(project, shard, topicId, true)));
    const isIdle = !dropped.includes(false);
    if (isIdle && (await this.destroy(project, path, topicId))) return;
    await this.mend(project, path);
  }

  private async destroy(project: string, path: string, topicId: string): Promise<boolean> {
    const topic = streamEntity(project, path);
    const outcome = await this.keepers.submit(topic, [META], (view) => destroyTopicRule(view, topicId));
    this.streams.wasDeleted(project, path, outcome);
    return outcome.kind === "deleted";
  }

  private async lastUse(project: string, path: string, shards: number): Promise<number> {
    const uses = shardPaths(path, shards).map(async (shard) => {
      const { head, rows } = await this.engine.load(streamEntity(project, shard), [META]);
      return rows[0] === undefined ? 0 : lastUse(META.of.decode(rows[0]), head);
    });
    return Math.max(...(await all(uses)));
  }

  /** Takes a shard away whose topic is not there any more: it was made by somebody slow while the topic went. */
  async verify(project: string, path: string, topicPath: string): Promise<void> {
    const meta = await this.metaOf(project, path);
    if (meta?.shardOf === undefined || meta.deleted) return;
    const topic = await this.metaOf(project, topicPath);
    if (topic?.topic?.id === meta.shardOf && !topic.deleted) return;
    await this.dropShard(project, path, meta.shardOf);
  }

  private async metaOf(project: string, path: string): Promise<Meta | undefined> {
    const { rows } = await this.engine.load(streamEntity(project, path), [META]);
    return rows[0] && META.of.decode(rows[0]);
  }
}

/** Fails when one did, but not before the others are done: nothing goes on behind an answer. */
async function all<T>(steps: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(steps);
  return Promise.all(steps);
}
