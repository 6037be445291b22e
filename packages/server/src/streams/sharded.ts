/**
 * Sharded topics as a protocol over a topic and its shards. Called by `Streams`.
 *
 * A topic is an entity without messages. Each of its shards is a stream at `{topic}/$shard/{i}`. Creating, closing and
 * deleting a topic therefore takes one commit per shard and two on the topic:
 *
 * - create: the topic (step `making`), every shard, the topic again (no step)
 * - close: the topic (step `closing`), every shard, the topic again (no step)
 * - delete: the topic (deleted), every shard, the topic is destroyed
 * - expiry: the topic (step `ending`), every shard that was idle for its TTL, the topic is destroyed. If a shard was
 *   used meanwhile, the topic stays and the shards that were dropped are created again.
 *
 * An append first asks the topic's keeper, which commits nothing and returns the number of shards. It then goes to the
 * shard that `shardOf` selects, or to the next one in turn. An append to a plain stream pays a few comparisons.
 *
 * Invariants: a topic exists before its first shard and until after its last. So a shard without its topic is known to
 * be left over, and the sweep removes it (`verify`). The opposite order would leave shards that no entity refers to.
 * While a step is incomplete, the topic stores it and has a reminder. Any PUT, append or sweep that meets the topic
 * completes the step (`mend`). Each step commits one entity and is idempotent.
 */
import { hex } from "../core/bytes.ts";
import { shardPath, shardPaths } from "../core/shard-path.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import type { Append, AppendOutcome, ShardedAppend } from "./append.ts";
import type { StreamLimits } from "./defaults.ts";
import type { CreateResult, DeleteOutcome } from "./life.ts";
import type { NewStream, Streams } from "./service.ts";
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
  /** The topic could not be created, because another stream occupies this shard's path. */
  | { readonly kind: "taken"; readonly path: string };

const CLOSING: Append = { payloads: [], close: true };
/** How often an append retries the routing when its shard is missing. */
const ROUTINGS = 3;

export class Sharded {
  /** By topic, the shard that comes next. Each process has its own turns; they spread appends and guarantee nothing. */
  private readonly turns = new Map<string, number>();

  constructor(
    private readonly engine: Engine,
    private readonly keepers: Keepers,
    private readonly world: World,
    private readonly streams: Streams,
    private readonly limits: StreamLimits,
  ) {}

  /** Creates the topic first, then its shards. It returns when all of them exist. */
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
    // The topic went meanwhile. A half-made topic that this request found may have been abandoned, so the request
    // starts over.
    if (mended.kind === "absent" && created.kind === "exists") return this.create(project, path, request);
    return created;
  }

  /** Routes an append to its shard. A closing append appends first and then closes the whole topic. */
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
      // The topic was deleted or created again with another number of shards, or it lost this shard and `mend` restores
      // it.
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

  /** Creates the missing shards and closes the open ones of a closed topic. Afterwards the topic is whole, or absent. */
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
      // The topic went meanwhile. A shard created just now may have come too late for the request that deleted the topic.
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
        // The topic is read after the shard. If it still has this id, the shard belongs to a topic that is gone; if
        // not, this request is late.
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

  /** The second half of ending a topic, which clients no longer see. If this is interrupted, the sweep resumes it. */
  async finish(project: string, path: string, { topic, config }: Meta): Promise<DeleteOutcome> {
    const { id } = topic!;
    await this.dropShards(project, shardPaths(path, config.shards!), id);
    await this.destroy(project, path, id);
    // Another request may have taken the last step. The topic is gone either way.
    return { kind: "deleted" };
  }

  private async dropShards(project: string, paths: readonly string[], topicId: string): Promise<void> {
    await all(paths.map((path) => this.dropShard(project, path, topicId)));
  }

  /** False if the shard stays because it is in use. */
  private async dropShard(project: string, path: string, topicId: string, ifIdle = false): Promise<boolean> {
    const outcome = await this.keepers.submit(streamEntity(project, path), [META], (view, now) =>
      dropShardRule(view, now, topicId, ifIdle, this.limits),
    );
    this.streams.wasDeleted(project, path, outcome);
    return outcome.kind !== "kept";
  }

  /** Handles a topic whose reminder has passed: completes its step, and ends it if no shard was used for its TTL. */
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

  /** A shard that was used meanwhile stays, and so does the topic. The expired shards are created again. */
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

  /** Removes a shard whose topic no longer exists. A slow request created it while the topic was deleted. */
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

/** Rejects if one step failed, but only after all have settled, so that no step continues after the response. */
async function all<T>(steps: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(steps);
  return Promise.all(steps);
}
