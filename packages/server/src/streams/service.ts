/**
 * Streams as every door and feature sees them: create, append, read, wait, delete, list, hold. It turns calls into rules on
 * the stream's keeper, and strings the single-entity steps of forking and deleting together. It decides nothing itself.
 */
import { BEGINNING, NOW, type Position, parseOffset } from "@sluice/protocol";
import { hex } from "../core/bytes.ts";
import type { World } from "../core/world.ts";
import type { Engine, Unwatch } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { type Append, type AppendOutcome, appendRule } from "./append.ts";
import { findForkPoint } from "./forking.ts";
import {
  addForkRule,
  type Create,
  type CreateOutcome,
  createRule,
  type DeleteOutcome,
  deleteRule,
  dropForkRule,
  holdRule,
  sweepRule,
  touchRule,
  watchForksRule,
} from "./life.ts";
import { type Described, describe, type ReadOutcome, readPage } from "./reading.ts";
import {
  type ForkOrigin,
  forkTable,
  HOLDS,
  MARKS,
  META,
  mediaType,
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

export interface CreateRequest extends Omit<Create, "origin" | "config"> {
  readonly config: Omit<Create["config"], "contentType"> & { readonly contentType?: string | undefined };
  readonly fork?: Fork | undefined;
}

export type CreateResult =
  | Exclude<CreateOutcome, { kind: "over" }>
  | {
      readonly kind:
        | "source-absent"
        | "source-gone"
        | "fork-ahead"
        | "fork-trimmed"
        | "fork-sub-offset"
        | "fork-too-deep";
    }
  | { readonly kind: "source-type"; readonly contentType: string }
  | { readonly kind: "bad-fork-offset" };

export type StreamEvent = {
  readonly kind: "appended" | "created" | "deleted";
  readonly project: string;
  readonly path: string;
};

export const DEFAULT_CONTENT_TYPE = "application/octet-stream";

const APPEND_KEYS = [META, SEQ, MARKS, HOLDS];

export class Streams {
  private readonly listeners: ((event: StreamEvent) => void)[] = [];

  constructor(
    readonly engine: Engine,
    private readonly keepers: Keepers,
    private readonly world: World,
  ) {}

  /** Told after the event is durable. A hint for features that follow the log; it must not throw. */
  onEvent(listener: (event: StreamEvent) => void): void {
    this.listeners.push(listener);
  }

  async append(project: string, path: string, input: Append): Promise<AppendOutcome> {
    const keys = input.producer ? [...APPEND_KEYS, producerTable.at(input.producer.id)] : APPEND_KEYS;
    const stream = streamEntity(project, path);
    const outcome = await this.keepers.submit(stream, keys, (view, now) => appendRule(view, now, input));
    if (outcome.kind === "appended") this.tell("appended", project, path);
    return outcome;
  }

  async create(project: string, path: string, request: CreateRequest): Promise<CreateResult> {
    if (request.fork) return this.createFork(project, path, request, request.fork);
    const config = { ...request.config, contentType: request.config.contentType ?? DEFAULT_CONTENT_TYPE };
    return this.createAt(project, path, { ...request, config });
  }

  private async createAt(
    project: string,
    path: string,
    input: Create,
  ): Promise<Exclude<CreateOutcome, { kind: "over" }>> {
    const stream = streamEntity(project, path);
    for (;;) {
      const outcome = await this.keepers.submit(stream, [META], (view, now) => createRule(view, now, input));
      if (outcome.kind === "created") this.tell("created", project, path);
      if (outcome.kind !== "over") return outcome;
      await this.sweep(project, path);
    }
  }

  /** The source takes note of the fork first, then the fork comes into being. */
  private async createFork(project: string, path: string, request: CreateRequest, fork: Fork): Promise<CreateResult> {
    const source = await describe(this.engine, project, fork.source);
    const existing = await describe(this.engine, project, path);
    if (existing.kind !== "absent" || source.kind !== "live") {
      if (existing.kind === "absent" && source.kind !== "live") return { kind: `source-${source.kind}` };
      // A repeated PUT is answered by comparing, even when the source has gone in the meantime.
      return this.createAt(project, path, this.asRepeated(request, fork, existing));
    }
    const { meta, head } = source;
    const contentType = request.config.contentType ?? meta.config.contentType;
    if (mediaType(contentType) !== mediaType(meta.config.contentType)) {
      return { kind: "source-type", contentType: meta.config.contentType };
    }
    const offset = fork.offset === undefined || fork.offset === NOW ? head.last : offsetOf(fork.offset);
    if (offset === undefined) return { kind: "bad-fork-offset" };
    const point = await findForkPoint(this.engine, project, { path: fork.source, meta, head }, offset, fork.subOffset);
    if (point.kind !== "point") return { kind: `fork-${point.kind}` };

    const id = hex(this.world.randomBytes(12));
    const origin = originOf(fork, id, point.lineage);
    const through = point.lineage.at(-1)!.through;
    const added = await this.addFork(project, fork.source, { path, id, through, contentType });
    if (added !== "added")
      return added === "wrong-type" ? { kind: "source-type", contentType } : { kind: forkRefusal(added) };
    const inherits = request.config.ttlSeconds === undefined && request.config.expiresAt === undefined;
    const { ttlSeconds, expiresAt } = inherits ? meta.config : request.config;
    const config = { ...request.config, contentType, ttlSeconds, expiresAt };
    const created = await this.createAt(project, path, {
      ...request,
      config,
      payloads: [...point.prefix, ...request.payloads],
      origin,
    });
    if (created.kind !== "created") await this.dropFork(project, origin, path);
    return created;
  }

  private asRepeated(request: CreateRequest, fork: Fork, existing: Described): Create {
    const origin = originOf(fork, "", []);
    const inherited = existing.kind === "live" ? existing.meta.config : { contentType: DEFAULT_CONTENT_TYPE };
    const inherits = request.config.ttlSeconds === undefined && request.config.expiresAt === undefined;
    const { ttlSeconds, expiresAt } = inherits ? inherited : request.config;
    const contentType = request.config.contentType ?? inherited.contentType;
    return { ...request, config: { ...request.config, contentType, ttlSeconds, expiresAt }, origin };
  }

  private async addFork(
    project: string,
    source: string,
    fork: { path: string; id: string; through: Position; contentType: string },
  ) {
    const entity = streamEntity(project, source);
    const keys = [META, forkTable.at(fork.path)];
    return (await this.keepers.submit(entity, keys, (view, now) => addForkRule(view, now, fork))).kind;
  }

  async delete(project: string, path: string): Promise<DeleteOutcome> {
    const stream = streamEntity(project, path);
    const origin = await this.announceEnd(project, path);
    const outcome = await this.keepers.submit(stream, [META], deleteRule);
    if (outcome.kind === "deleted" || outcome.kind === "kept-for-forks") this.tell("deleted", project, path);
    if (outcome.kind === "deleted" && origin) await this.dropFork(project, origin, path);
    return outcome;
  }

  /** Ends the stream if its time is over, cuts by age, and makes sure that the forks it is kept for exist. */
  async sweep(project: string, path: string): Promise<void> {
    const stream = streamEntity(project, path);
    await this.verifyForks(project, path);
    const origin = await this.announceEnd(project, path);
    const keys = [META, MARKS, HOLDS];
    const outcome = await this.keepers.submit(stream, keys, sweepRule);
    if (outcome.kind === "deleted" || outcome.kind === "kept-for-forks") this.tell("deleted", project, path);
    if (outcome.kind === "deleted" && origin) await this.dropFork(project, origin, path);
  }

  /** Before a fork goes, its source is asked to look after it: should we die in between, the source finds out by itself. */
  private async announceEnd(project: string, path: string): Promise<ForkOrigin | undefined> {
    const { rows } = await this.engine.load(streamEntity(project, path), [META]);
    const origin = rows[0] && META.of.decode(rows[0]).origin;
    if (origin) await this.keepers.submit(streamEntity(project, origin.source), [META], watchForksRule);
    return origin;
  }

  private async dropFork(project: string, origin: ForkOrigin, path: string): Promise<void> {
    const source = streamEntity(project, origin.source);
    const keys = [META, forkTable.at(path)];
    const own = await this.announceEnd(project, origin.source);
    const outcome = await this.keepers.submit(source, keys, (view, now) => dropForkRule(view, now, path, origin.id));
    // The last fork of a deleted source took it along; then its own source loses a fork too.
    if (outcome.kind === "deleted" && own) await this.dropFork(project, own, origin.source);
  }

  private async verifyForks(project: string, path: string): Promise<void> {
    const stream = streamEntity(project, path);
    let after = "";
    for (;;) {
      const rows = await this.engine.rows(stream, forkTable.name, after, 100);
      for (const { key, value } of rows) {
        const { id } = forkTable.decode(value);
        const { rows: fork } = await this.engine.load(streamEntity(project, key), [META]);
        const isThere = fork[0] !== undefined && META.of.decode(fork[0]).origin?.id === id;
        if (!isThere) await this.dropFork(project, { source: path, id, askedSubOffset: 0, lineage: [] }, key);
        after = key;
      }
      if (rows.length < 100) return;
    }
  }

  describe(project: string, path: string): Promise<Described> {
    return describe(this.engine, project, path);
  }

  /** Reads after a position; undefined means from the earliest message kept. Slides the TTL. */
  async read(project: string, path: string, after: Position | undefined, maxBytes: number): Promise<ReadOutcome> {
    const page = await readPage(this.engine, project, path, after, maxBytes);
    if (page.kind === "page" && slides(page.meta, page.head, this.engine.now())) await this.touch(project, path);
    return page;
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

  /** Keeps the messages after `position` from being trimmed for the sake of `holder`; undefined lets go. */
  hold(project: string, path: string, holder: string, position: Position | undefined) {
    const stream = streamEntity(project, path);
    return this.keepers.submit(stream, [META, HOLDS], (view, now) => holdRule(view, now, holder, position));
  }

  private tell(kind: StreamEvent["kind"], project: string, path: string): void {
    for (const listener of this.listeners) listener({ kind, project, path });
  }
}

function originOf(fork: Fork, id: string, lineage: ForkOrigin["lineage"]): ForkOrigin {
  return { source: fork.source, askedOffset: fork.offset, askedSubOffset: fork.subOffset, id, lineage };
}

function offsetOf(text: string): Position | undefined {
  return text === BEGINNING ? { generation: 0, seq: 0 } : parseOffset(text);
}

function forkRefusal(kind: "absent" | "gone" | "ahead" | "trimmed") {
  return kind === "absent" || kind === "gone" ? (`source-${kind}` as const) : (`fork-${kind}` as const);
}
