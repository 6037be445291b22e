/**
 * Streams as every door and feature sees them: create, append, read, wait, delete, list, hold. It checks what callers ask for
 * (intake.ts) and turns it into rules on the stream's keeper. Steps over two streams are in forks.ts, over more in sharded.ts.
 *
 * Invariants: whatever a door forgets to check, no reserved or malformed name is written here.
 */
import { header, type Position } from "@sluice/protocol";
import { type Access, FULL_ACCESS, type Permission } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import { isReserved, isSessionPath, refuseReserved } from "../core/reserved.ts";
import { topicOfShard } from "../core/shard-path.ts";
import type { World } from "../core/world.ts";
import { type Engine, EngineError, type Unwatch } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { type Append, type AppendOutcome, appendRule, type ShardedAppend } from "./append.ts";
import { filled } from "./borrowed.ts";
import { type Follow, type FollowOutcome, followRule, keepRule } from "./following.ts";
import { Forks } from "./forks.ts";
import { type AppendRequest, checked, checkNewPath, refuseAmongShards, split, takeAppend } from "./intake.ts";
import {
  type Create,
  type CreateOutcome,
  createRule,
  type DeleteOutcome,
  deleteRule,
  holdRule,
  sweepRule,
  touchRule,
} from "./life.ts";
import { STREAM_LIMITS, type StreamLimits } from "./limits.ts";
import { StreamMeter } from "./meter.ts";
import { type Located, positionAt, positionBack } from "./positions.ts";
import { type Described, describe, type ReadOutcome, readPage } from "./reading.ts";
import { absent } from "./refusals.ts";
import { Sharded } from "./sharded.ts";
import {
  DEFAULT_CONTENT_TYPE,
  type Follows,
  HOLDS,
  lifeOf,
  MARKS,
  META,
  producerTable,
  SEQ,
  STREAM,
  slides,
  streamEntity,
} from "./state.ts";

/** What a PUT of a fork asks for; what it leaves open comes from the source. */
export interface Fork {
  readonly source: string;
  readonly offset?: string | undefined;
  readonly subOffset: number;
}

/** What a stream is to be. Its first messages are a body, or are apart already. */
export interface CreateRequest extends Omit<NewStream, "payloads"> {
  readonly body?: Uint8Array | undefined;
  readonly payloads?: readonly Uint8Array[] | undefined;
  readonly fork?: Fork | undefined;
}

/** The same, checked. */
export interface NewStream extends Omit<Create, "origin" | "config"> {
  readonly config: Omit<Create["config"], "contentType"> & { readonly contentType?: string | undefined };
}

/** What reading a stream needs. */
export const READ_STREAM: Permission = { action: "stream.read", need: "read" };
export const APPEND_TO_STREAM: Permission = { action: "stream.append", need: "write" };

const TOPIC_BEGINS_EMPTY =
  "a body cannot go with Stream-Shards: a sharded topic begins empty, so that a repeated PUT appends nothing twice";

export type CreateResult =
  | Exclude<CreateOutcome, { kind: "over" }>
  | {
      readonly kind:
        | "source-absent"
        | "source-gone"
        | "source-sharded"
        | "fork-ahead"
        | "fork-trimmed"
        | "fork-sub-offset"
        | "fork-too-deep";
    }
  | { readonly kind: "source-type"; readonly contentType: string }
  | { readonly kind: "bad-fork-offset" }
  /** A topic could not be made because of what is at this path. */
  | { readonly kind: "shard-taken"; readonly path: string };

export type StreamEvent = {
  /** `doubtful`: it may have been appended to, or not; nobody was told. */
  readonly kind: "appended" | "doubtful" | "created" | "deleted";
  readonly project: string;
  readonly path: string;
  /** The features that follow the stream, and the name that each knows it by. */
  readonly follows?: Follows | undefined;
};

const APPEND_KEYS = [META, SEQ, MARKS, HOLDS];

export class Streams {
  readonly meter = new StreamMeter();
  private readonly listeners: ((event: StreamEvent) => void)[] = [];
  private readonly forks: Forks;
  private readonly sharded: Sharded;
  private checkInbox: (project: string, path: string, access: Access) => Promise<void> = async (_, path) => {
    throw absent(path);
  };

  constructor(
    readonly engine: Engine,
    private readonly keepers: Keepers,
    world: World,
    private readonly limits: StreamLimits = STREAM_LIMITS,
  ) {
    this.forks = new Forks(engine, keepers, world, this, limits);
    this.sharded = new Sharded(engine, keepers, world, this, limits);
  }

  /** Told after the event is durable, or when that is not known. A hint for features that follow the log; it must not throw. */
  onEvent(listener: (event: StreamEvent) => void): void {
    this.listeners.push(listener);
  }

  /** Throws a Refusal for an append that no stream takes. */
  append(project: string, path: string, request: AppendRequest): Promise<AppendOutcome> {
    return this.appendAt(project, path, takeAppend(path, request, this.limits));
  }

  /** As `append`, for input that was checked before. */
  async appendAt(project: string, path: string, input: Append): Promise<AppendOutcome> {
    const keys = input.producer ? [...APPEND_KEYS, producerTable.at(input.producer.id)] : APPEND_KEYS;
    const stream = streamEntity(project, path);
    const { holdBytes } = this.limits;
    let outcome: AppendOutcome | ShardedAppend;
    try {
      outcome = await this.keepers.submit(stream, keys, (view, now) => appendRule(view, now, input, holdBytes));
    } catch (fault) {
      if (!isUntouched(fault)) this.tell("doubtful", project, path);
      throw fault;
    }
    if (outcome.kind === "sharded") return this.sharded.append(project, path, input, outcome);
    this.meter.append(outcome.kind, input.payloads);
    if (outcome.kind === "appended") this.tell("appended", project, path, outcome.follows);
    return outcome;
  }

  /** Throws a Refusal for a stream that cannot be, and for a fork of a stream that the caller may not read. */
  async create(project: string, path: string, asked: CreateRequest, access = FULL_ACCESS): Promise<CreateResult> {
    const { config, fork } = asked;
    checkNewPath(path, config.shards);
    if (fork) await this.checkFork(project, fork, config.shards, access);
    const contentType = config.contentType ?? (fork && (await this.contentTypeOf(project, fork.source)));
    const payloads = asked.payloads
      ? checked(asked.payloads, contentType, this.limits)
      : split(asked.body, contentType, this.limits);
    const request = { config, closed: asked.closed, payloads };
    if (fork) return this.forks.create(project, path, request, fork);
    if (config.shards !== undefined) {
      if (payloads.length > 0) throw new Refusal("bad-body", TOPIC_BEGINS_EMPTY);
      return this.sharded.create(project, path, request);
    }
    return this.createAt(project, path, {
      ...request,
      config: { ...config, contentType: config.contentType ?? DEFAULT_CONTENT_TYPE },
    });
  }

  private async checkFork(
    project: string,
    { source }: Fork,
    shards: number | undefined,
    access: Access,
  ): Promise<void> {
    if (shards !== undefined) {
      throw new Refusal("bad-header", `${header.streamShards} and ${header.streamForkedFrom} exclude each other`);
    }
    if (isReserved(source)) throw new Refusal("reserved-name", `${header.streamForkedFrom} names a reserved path`);
    await access.demand({ ...READ_STREAM, project, stream: source });
  }

  private async contentTypeOf(project: string, path: string): Promise<string | undefined> {
    const described = await this.describe(project, path);
    return described.kind === "live" ? described.meta.config.contentType : undefined;
  }

  /** Creates or compares; a stream that is over makes room first. */
  async createAt(project: string, path: string, input: Create): Promise<Exclude<CreateOutcome, { kind: "over" }>> {
    const stream = streamEntity(project, path);
    for (;;) {
      const outcome = await this.keepers.submit(stream, [META], (view, now) => createRule(view, now, input));
      if (outcome.kind === "created") {
        this.meter.add(input.payloads);
        this.wasCreated(project, path);
      }
      if (outcome.kind !== "over") return outcome;
      await this.sweep(project, path);
    }
  }

  /** Throws a Refusal for what only the server deletes. */
  delete(project: string, path: string): Promise<DeleteOutcome> {
    refuseReserved(path);
    refuseAmongShards(path);
    return this.deleteAt(project, path);
  }

  /** As `delete`, for any path. */
  async deleteAt(project: string, path: string): Promise<DeleteOutcome> {
    const stream = streamEntity(project, path);
    await this.forks.announceEnd(project, path);
    const outcome = await this.keepers.submit(stream, [META], (view, now) => deleteRule(view, now, this.limits));
    if (outcome.kind === "ending") return this.sharded.finish(project, path, outcome.meta);
    this.wasDeleted(project, path, outcome);
    if (outcome.kind === "deleted" && outcome.origin) await this.forks.drop(project, outcome.origin);
    return outcome;
  }

  /** Ends the stream if its time is over, cuts by age, and makes sure that the forks it is kept for exist. */
  async sweep(project: string, path: string): Promise<void> {
    const stream = streamEntity(project, path);
    const topicPath = topicOfShard(path);
    if (topicPath !== undefined) await this.sharded.verify(project, path, topicPath);
    const checkForksAt = await this.forks.verify(project, path);
    await this.forks.announceEnd(project, path);
    const keys = [META, MARKS, HOLDS];
    const outcome = await this.keepers.submit(stream, keys, (view, now) =>
      sweepRule(view, now, this.limits, checkForksAt),
    );
    if (outcome.kind === "topic") return this.sharded.sweep(project, path, outcome.meta);
    if (outcome.kind === "ending") return void (await this.sharded.finish(project, path, outcome.meta));
    this.wasDeleted(project, path, outcome);
    if (outcome.kind === "deleted" && outcome.origin) await this.forks.drop(project, outcome.origin);
  }

  /** Counts and tells what a step on a stream's keeper has come to, for those who take such steps beside us. */
  wasCreated(project: string, path: string): void {
    this.meter.created++;
    this.tell("created", project, path);
  }

  wasDeleted(project: string, path: string, outcome: DeleteOutcome | { readonly kind: "kept" }): void {
    if (outcome.kind === "deleted") this.meter.deleted++;
    if (outcome.kind === "deleted" || outcome.kind === "kept-for-forks")
      this.tell("deleted", project, path, outcome.follows);
  }

  describe(project: string, path: string): Promise<Described> {
    return this.confirmExpiry(project, path, () => describe(this.engine, project, path));
  }

  /** Looks again while the stream seems expired and its keeper knows of a use that prolongs it and is not durable yet. */
  private async confirmExpiry<T extends { readonly kind: string }>(
    project: string,
    path: string,
    look: () => Promise<T>,
  ): Promise<T> {
    for (;;) {
      const found = await look();
      if (!("over" in found) || !found.over) return found;
      const stream = streamEntity(project, path);
      const life = await this.keepers.submit(stream, [META], (view, now) => ({
        outcome: lifeOf(view.get(META.of, ""), view.head, now),
      }));
      if (life !== "live") return found;
    }
  }

  /** Reads after a position; undefined means from the earliest message kept. Slides the TTL. */
  async read(project: string, path: string, after: Position | undefined, maxBytes: number): Promise<ReadOutcome> {
    const page = await this.confirmExpiry(project, path, () => readPage(this.engine, project, path, after, maxBytes));
    if (page.kind !== "page") return page;
    if (slides(page.meta, page.head, this.engine.now())) await this.touch(project, path);
    return page.meta.inbox ? filled(this.engine, project, page, maxBytes) : page;
  }

  /** Where reading starts that wants every message published at or after `timeMs`. */
  positionAt(project: string, path: string, timeMs: number): Promise<Located> {
    return this.confirmExpiry(project, path, () => positionAt(this.engine, project, path, timeMs));
  }

  /** The time so long ago, by the clock that messages are stamped with. */
  ago(ms: number): number {
    return this.engine.now() - ms;
  }

  /** Where reading starts that wants the last `count` messages. */
  positionBack(project: string, path: string, count: number): Promise<Located> {
    return this.confirmExpiry(project, path, () => positionBack(this.engine, project, path, count));
  }

  /** As `read`, for those who copy the log elsewhere: no use of the stream. */
  peek(project: string, path: string, after: Position, maxBytes: number): Promise<ReadOutcome> {
    return this.confirmExpiry(project, path, () => readPage(this.engine, project, path, after, maxBytes));
  }

  /** From this commit on, every append tells that the stream is followed under the name that comes back. */
  follow(project: string, path: string, follow: Follow): Promise<FollowOutcome> {
    const stream = streamEntity(project, path);
    return this.keepers.submit(stream, [META, HOLDS], (view, now) => followRule(view, now, follow));
  }

  /** Holds what comes after a position for a follower, unless it is held already. */
  keep(project: string, path: string, follow: Required<Follow>): Promise<void> {
    const stream = streamEntity(project, path);
    return this.keepers.submit(stream, [META, HOLDS], (view, now) => keepRule(view, now, follow));
  }

  /** `check` decides who reads the inboxes of sessions; it throws a Refusal. Sessions bring it. */
  guardInboxes(check: (project: string, path: string, access: Access) => Promise<void>): void {
    this.checkInbox = check;
  }

  /** Throws a Refusal unless the caller may read here, beyond what its token says. Every door asks before it reads. */
  async demandReader(project: string, path: string, access: Access): Promise<void> {
    if (isSessionPath(path)) await this.checkInbox(project, path, access);
  }

  /** A use that slides the TTL. */
  touch(project: string, path: string): Promise<void> {
    return this.keepers.submit(streamEntity(project, path), [META], touchRule);
  }

  /** Calls `wake` after commits to the stream; look again, it tells nothing else. */
  watch(project: string, path: string, wake: () => void): Unwatch {
    return this.engine.watch(streamEntity(project, path), wake);
  }

  list(project: string, prefix: string, after: string, limit: number) {
    return this.engine.list(project, STREAM, prefix, after, limit);
  }

  /**
   * Keeps the messages after `position` from being trimmed for `holder`; undefined lets go. With `name`, only of the stream that
   * the holder follows under that name.
   */
  hold(project: string, path: string, holder: string, position: Position | undefined, name?: string) {
    const stream = streamEntity(project, path);
    const { holds } = this.limits;
    return this.keepers.submit(stream, [META, HOLDS], (view, now) =>
      holdRule(view, now, holder, position, holds, name),
    );
  }

  private tell(kind: StreamEvent["kind"], project: string, path: string, follows?: Follows): void {
    for (const listener of this.listeners) listener({ kind, project, path, follows });
  }
}

/** Whether it was refused before anything was tried. */
function isUntouched(fault: unknown): boolean {
  return fault instanceof EngineError && fault.code === "overloaded";
}
