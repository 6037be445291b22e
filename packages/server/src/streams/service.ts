/**
 * Streams as every door and feature uses them: create, append, read, wait, delete, list, hold. It checks each request
 * (paths.ts, bodies.ts, stream-config.ts) and submits rules to the stream's keeper. Steps over two streams are in forks.ts,
 * over a topic's shards in sharded.ts.
 *
 * Invariants: no reserved or malformed name, and no malformed setting, is written, even if a door forgets to check.
 */
import { header, type Position } from "@sluice/protocol";
import { type Access, FULL_ACCESS, type Permission } from "../core/action.ts";
import { type Awaitable, andThen } from "../core/awaitable.ts";
import { Refusal } from "../core/refusal.ts";
import { isReserved, isSessionPath, refuseReserved } from "../core/reserved.ts";
import { topicOfShard } from "../core/shard-path.ts";
import type { World } from "../core/world.ts";
import { type Engine, EngineError, type Unwatch } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { type Append, type AppendOutcome, appendRule, type ShardedAppend } from "./append.ts";
import { type AppendRequest, checked, split, takeAppend } from "./bodies.ts";
import { filled } from "./borrowed-payloads.ts";
import { STREAM_LIMITS, type StreamLimits } from "./defaults.ts";
import { type Follow, type FollowOutcome, followRule, type Held, keepRule } from "./following.ts";
import { Forks } from "./forks.ts";
import {
  type Create,
  type CreateOutcome,
  type CreateResult,
  createRule,
  type DeleteOutcome,
  deleteRule,
  holdRule,
  sweepRule,
  touchRule,
} from "./life.ts";
import { StreamMeter } from "./meter.ts";
import { checkNewPath, refuseAmongShards } from "./paths.ts";
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
import { checkConfig } from "./stream-config.ts";

/** What a PUT of a fork asks for. Settings that it omits come from the source. */
export interface Fork {
  readonly source: string;
  readonly offset?: string | undefined;
  readonly subOffset: number;
}

/** The stream to create. Its first messages come as one body or as separate payloads. */
export interface CreateRequest extends Omit<NewStream, "payloads"> {
  readonly body?: Uint8Array | undefined;
  readonly payloads?: readonly Uint8Array[] | undefined;
  readonly fork?: Fork | undefined;
}

/** The same, checked. */
export interface NewStream extends Omit<Create, "origin" | "config"> {
  readonly config: Omit<Create["config"], "contentType"> & { readonly contentType?: string | undefined };
}

/** The permission to read a stream. */
export const READ_STREAM: Permission = { action: "stream.read", need: "read", bySession: "subscribed" };
export const APPEND_TO_STREAM: Permission = { action: "stream.append", need: "write" };

const TOPIC_BEGINS_EMPTY =
  "a body cannot go with Stream-Shards: a sharded topic begins empty, so that a repeated PUT appends nothing twice";

export type StreamEvent = {
  /** `doubtful`: the outcome of an append is unknown, and its client got an error. */
  readonly kind: "appended" | "doubtful" | "created" | "deleted";
  readonly project: string;
  readonly path: string;
  /** The features that follow the stream, each with its name for the stream. */
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

  private placeHolds: (project: string, path: string) => Promise<void> = async () => {};

  constructor(
    readonly engine: Engine,
    private readonly keepers: Keepers,
    world: World,
    private readonly limits: StreamLimits = STREAM_LIMITS,
  ) {
    this.forks = new Forks(engine, keepers, world, this, limits);
    this.sharded = new Sharded(engine, keepers, world, this, limits);
  }

  /**
   * Calls `listener` once the event is durable or its outcome is unknown. It is a hint for features that follow the
   * log. It must not throw.
   */
  onEvent(listener: (event: StreamEvent) => void): void {
    this.listeners.push(listener);
  }

  /** Throws a Refusal for an append that no stream accepts. */
  append(project: string, path: string, request: AppendRequest): Promise<AppendOutcome> {
    return this.appendAt(project, path, this.taken(path, request));
  }

  /** What `appendAt` takes. Throws a Refusal for an append that no stream accepts. */
  taken(path: string, request: AppendRequest): Append {
    return takeAppend(path, request, this.limits);
  }

  /** As `append`, for input that is checked already. */
  appendAt(project: string, path: string, input: Append): Promise<AppendOutcome> {
    const keys = input.producer ? [...APPEND_KEYS, producerTable.at(input.producer.id)] : APPEND_KEYS;
    const stream = streamEntity(project, path);
    const { holdBytes } = this.limits;
    return this.keepers
      .submit(stream, keys, (view, now) => appendRule(view, now, input, holdBytes))
      .then(
        (outcome) => this.afterAppend(project, path, input, outcome),
        (fault) => {
          if (!isUntouched(fault)) this.tell("doubtful", project, path);
          throw fault;
        },
      );
  }

  private afterAppend(
    project: string,
    path: string,
    input: Append,
    outcome: AppendOutcome | ShardedAppend,
  ): Awaitable<AppendOutcome> {
    if (outcome.kind === "sharded") return this.sharded.append(project, path, input, outcome);
    this.meter.append(outcome.kind, input.payloads);
    if (outcome.kind === "appended") this.tell("appended", project, path, outcome.follows);
    return outcome;
  }

  /** Throws a Refusal for a stream that cannot exist, and for a fork of a stream that the caller may not read. */
  async create(project: string, path: string, asked: CreateRequest, access = FULL_ACCESS): Promise<CreateResult> {
    const result = await this.make(project, path, asked, access);
    const isTrimmed = asked.config.retention !== undefined || asked.fork !== undefined;
    if (result.kind === "created" && isTrimmed) await this.placeHolds(project, path);
    return result;
  }

  /** Groups supply `place`. It holds a new stream for them, before the creator is answered and can append. */
  holdNew(place: (project: string, path: string) => Promise<void>): void {
    this.placeHolds = place;
  }

  private async make(project: string, path: string, asked: CreateRequest, access: Access): Promise<CreateResult> {
    const { config, fork } = asked;
    checkConfig(config);
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

  /** Creates or compares. An expired stream is ended first. */
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

  /** Throws a Refusal for a path that only the server deletes. */
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

  /** Ends the stream if it has expired, cuts by age, and checks that the forks it is kept for exist. */
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

  /** Counts and announces a creation or deletion. Forks and Sharded call it after their own steps. */
  wasCreated(project: string, path: string): void {
    this.meter.created++;
    this.tell("created", project, path);
  }

  wasDeleted(project: string, path: string, outcome: DeleteOutcome | { readonly kind: "kept" }): void {
    if (outcome.kind === "deleted") this.meter.deleted++;
    if (outcome.kind === "deleted" || outcome.kind === "kept-for-forks")
      this.tell("deleted", project, path, outcome.follows);
  }

  describe(project: string, path: string): Awaitable<Described> {
    return this.confirmExpiry(project, path, () => describe(this.engine, project, path));
  }

  /** As `describe`, for a reader that wants only later messages. Slides the TTL, unless it is a topic, which has no readers. */
  look(project: string, path: string): Awaitable<Described> {
    return andThen(this.describe(project, path), (described) => {
      if (described.kind !== "live" || described.meta.topic !== undefined) return described;
      if (!slides(described.meta, described.head, this.engine.now())) return described;
      return this.touch(project, path).then(() => described);
    });
  }

  /**
   * Looks again while the stream seems expired but its keeper knows of a use that prolongs it and is not durable yet.
   */
  private confirmExpiry<T extends { readonly kind: string }>(
    project: string,
    path: string,
    look: () => Awaitable<T>,
  ): Awaitable<T> {
    return andThen(look(), (found) => {
      if (!("over" in found) || !found.over) return found;
      const submitted = this.keepers.submit(streamEntity(project, path), [META], (view, now) => ({
        outcome: lifeOf(view.get(META.of, ""), view.head, now),
      }));
      return submitted.then((life) => (life === "live" ? this.confirmExpiry(project, path, look) : found));
    });
  }

  /** Reads after a position; undefined means from the earliest message kept. Slides the TTL. */
  async read(project: string, path: string, after: Position | undefined, maxBytes: number): Promise<ReadOutcome> {
    const page = await this.confirmExpiry(project, path, () => readPage(this.engine, project, path, after, maxBytes));
    if (page.kind !== "page") return page;
    if (slides(page.meta, page.head, this.engine.now())) await this.touch(project, path);
    return page.meta.inbox ? filled(this.engine, project, page, maxBytes) : page;
  }

  /** The position from which a reader gets every message published at or after `timeMs`. */
  positionAt(project: string, path: string, timeMs: number): Awaitable<Located> {
    return this.confirmExpiry(project, path, () => positionAt(this.engine, project, path, timeMs));
  }

  /** The time `ms` ago, by the clock that stamps messages. */
  ago(ms: number): number {
    return this.engine.now() - ms;
  }

  /** The position from which a reader gets the last `count` messages. */
  positionBack(project: string, path: string, count: number): Awaitable<Located> {
    return this.confirmExpiry(project, path, () => positionBack(this.engine, project, path, count));
  }

  /** As `read`, for features that copy the log elsewhere. It does not count as a use of the stream. */
  peek(project: string, path: string, after: Position, maxBytes: number): Awaitable<ReadOutcome> {
    return this.confirmExpiry(project, path, () => readPage(this.engine, project, path, after, maxBytes));
  }

  /** From this commit on, every append announces that the stream is followed under the returned name. */
  follow(project: string, path: string, follow: Follow): Promise<FollowOutcome> {
    const stream = streamEntity(project, path);
    return this.keepers.submit(stream, [META, HOLDS], (view, now) => followRule(view, now, follow));
  }

  /** Holds the messages after a position for a follower, unless they are held already. */
  keep(project: string, path: string, follow: Held): Promise<void> {
    const stream = streamEntity(project, path);
    return this.keepers.submit(stream, [META, HOLDS], (view, now) => keepRule(view, now, follow));
  }

  /** Sessions supply `check`. It decides which callers may read an inbox, and throws a Refusal for any other caller. */
  guardInboxes(check: (project: string, path: string, access: Access) => Promise<void>): void {
    this.checkInbox = check;
  }

  /**
   * Throws a Refusal unless the caller may read this path, beyond its token's permissions. Every door calls it before
   * it reads.
   */
  async demandReader(project: string, path: string, access: Access): Promise<void> {
    if (isSessionPath(path)) await this.checkInbox(project, path, access);
  }

  /** Records a use that slides the TTL. */
  touch(project: string, path: string): Promise<void> {
    return this.keepers.submit(streamEntity(project, path), [META], touchRule);
  }

  /** Calls `wake` after commits to the stream. It carries no data; the caller reads again. */
  watch(project: string, path: string, wake: () => void): Unwatch {
    return this.engine.watch(streamEntity(project, path), wake);
  }

  list(project: string, prefix: string, after: string, limit: number) {
    return this.engine.list(project, STREAM, prefix, after, limit);
  }

  /**
   * Keeps the messages after `position` from being trimmed for `holder`; undefined releases the hold. With `name`, only
   * on the stream that the holder follows under that name.
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

/** Whether the engine refused the commit before it tried anything. */
function isUntouched(fault: unknown): boolean {
  return fault instanceof EngineError && fault.code === "overloaded";
}
