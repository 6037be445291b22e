/**
 * Fan-out as the session service uses it: the sources of this process, the events they hear, and how a publish waits.
 *
 * A publish is copied, not queued. Each stream that sessions follow has a registry, an entity of kind `fanout`: its
 * subscribers, a cursor, and the laggards with a cursor each. Every subscriber that is not a laggard has all messages
 * up to the cursor. An append wakes the stream's source in its process. The source takes the log after the cursor in
 * rounds and copies each round to every subscriber. It moves the cursor when each subscriber has answered or is stored
 * as a laggard. Laggards catch up from the log one by one. `publish` is an append that waits for its round. So no copy
 * that is owed is ever stored: it follows from the log and the cursors, and a crash costs one round.
 *
 * - Copy rule: a copy names the position of its stream onto which it applies. The inbox stores its position in the
 *   commit that takes the messages, so delivery is exactly once. At an earlier position the copy is a duplicate. At a
 *   later one messages are missing, so the session is a laggard. For another incarnation or epoch the copy is stale,
 *   and the subscriber is removed.
 * - Order of steps: subscribing and leaving commit the session first, then the registry. A crash in between leaves a
 *   `pending` subscription, or a subscriber whose copies are stale. The next step detects either.
 * - Borrowed payloads: a large payload is appended once, to the registry's log, and inboxes hold notes
 *   (`streams/borrowed-payloads.ts`). It is trimmed when no session that may have borrowed it is left.
 * - Back-pressure: queue and breaker only decide whether a publish waits. They are in memory, because losing them loses
 *   nothing. The queue pauses while the engine is behind (`isBehind`), so that copies never fill the journal that
 *   publishes need. It also rests after each message while clients append, because clients wait for appends and not for
 *   copies.
 *
 * Invariants: a source is kept while it has work. At the start, discovery finds every stream that a crash left with
 * copies owed.
 */
import type { Position } from "@sluice/protocol";
import { hex } from "../core/bytes.ts";
import type { Entity } from "../engine/contract.ts";
import { Discovery } from "../engine/discovery.ts";
import { recheckAtMs } from "../engine/other-nodes.ts";
import { isFollowedAs } from "../streams/following.ts";
import type { StreamEvent } from "../streams/service.ts";
import { FANOUT_FOLLOWER } from "../streams/state.ts";
import type { FanoutMeter, Member } from "./delivery.ts";
import { type AddSubscriber, remindRule } from "./registry-rules.ts";
import { dropRule } from "./session-rules.ts";
import { Source, type SourceParts } from "./source.ts";
import {
  FANOUT,
  isBefore,
  REGISTRY,
  type Registry,
  registryEntity,
  registryTable,
  SESSION_ROW,
  sessionEntity,
  subscriberTable,
  subscriptionTable,
} from "./state.ts";
import type { Tally } from "./waiters.ts";

export type FanoutMode = "inline" | "queued" | "circuit-open" | "skipped";

export interface Published extends Omit<Tally, "failed"> {
  readonly mode: FanoutMode;
}

const NAME_BYTES = 8;

export class Fanout {
  private readonly sources = new Map<string, Source>();
  /** Subscribers that the sources remember. */
  private members = 0;
  private readonly parts: SourceParts;
  private isStopped = false;
  private readonly discovery: Discovery;

  constructor(parts: Omit<SourceParts, "dissolve" | "rested">) {
    this.parts = {
      ...parts,
      dissolve: (source, name) => this.dissolve(source, name),
      rested: (source) => this.count(source),
    };
    const { engine, world, limits, report } = parts;
    this.discovery = new Discovery(engine, world, {
      kind: FANOUT,
      noun: "streams with subscribers",
      adopt: (project, stream) => this.adopt(project, stream),
      page: limits.pageRows,
      backoff: { firstMs: limits.retryMs, maxMs: limits.maxRetryMs },
      report,
    });
    parts.streams.onEvent((event) => this.hear(event));
  }

  /** Streams that are being fanned out, or were recently. */
  get size(): number {
    return this.sources.size;
  }

  get meter(): FanoutMeter {
    return this.parts.meter;
  }

  get laggards(): number {
    let sum = 0;
    for (const source of this.sources.values()) sum += source.lags;
    return sum;
  }

  newName(): string {
    return hex(this.parts.world.randomBytes(NAME_BYTES));
  }

  private hear({ kind, project, path, follows }: StreamEvent): void {
    if (kind === "created" || this.isStopped) return;
    if (follows?.[FANOUT_FOLLOWER] === undefined && kind !== "doubtful") return;
    this.source(project, path).wake();
  }

  source(project: string, stream: string): Source {
    const { key } = registryEntity(project, stream);
    let source = this.sources.get(key);
    if (source === undefined) {
      if (this.sources.size >= this.parts.limits.sources) this.evict();
      source = new Source(this.parts, project, stream);
      this.sources.set(key, source);
    }
    return source;
  }

  /** Evicts idle sources, oldest first, until a tenth of what is remembered has gone. Sources with work stay. */
  private evict(): void {
    const { sources, members } = this.parts.limits;
    for (const [key, source] of this.sources) {
      if (this.sources.size <= 0.9 * sources && this.members <= 0.9 * members) return;
      if (!source.isIdle) continue;
      this.sources.delete(key);
      this.members -= source.counted;
    }
  }

  /** Counts the subscribers that a source remembers after its work. One that was evicted meanwhile no longer counts. */
  private count(source: Source): void {
    if (this.sources.get(registryEntity(source.project, source.stream).key) !== source) return;
    this.members += source.roster.members.size - source.counted;
    source.counted = source.roster.members.size;
    if (this.members > this.parts.limits.members) this.evict();
  }

  /** Finds the streams that a crash left with copies owed. */
  start(): void {
    this.discovery.start();
  }

  /** Fans out the messages that are owed, and lets laggards catch up. */
  private async adopt(project: string, stream: string): Promise<void> {
    if (!(await this.isOwed(project, stream))) return;
    await this.using(project, stream, async (source) => {
      if ((await source.roster.look()) === undefined) return;
      source.wake();
      for (const session of source.roster.lagging.keys()) source.catchUp(session);
    });
  }

  /**
   * Whether a round or a laggard has work. It reads two rows and no subscriber: the next message of a stream reads those.
   */
  private async isOwed(project: string, stream: string): Promise<boolean> {
    const { engine, streams } = this.parts;
    const { rows } = await engine.load(registryEntity(project, stream), [REGISTRY]);
    if (rows[0] === undefined) return false;
    const { name, cursor, laggards } = registryTable.decode(rows[0]);
    if (laggards > 0) return true;
    const described = await streams.describe(project, stream);
    if (described.kind !== "live" || !isFollowedAs(described.meta, FANOUT_FOLLOWER, name)) return true;
    return isBefore(cursor, described.head.last);
  }

  /** Where several nodes serve: makes sure that no stream was left behind by another node. */
  async sweep({ project, id }: Entity): Promise<void> {
    await this.adopt(project, id);
    const atMs = this.nextCheckAtMs();
    await this.parts.keepers.submit(registryEntity(project, id), [REGISTRY], (view) => remindRule(view, atMs));
  }

  private nextCheckAtMs(): number | null {
    return recheckAtMs(this.parts.engine, this.parts.limits.checkMs);
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    for (const source of this.sources.values()) source.stop();
    await this.discovery.stop();
  }

  /** Waits for the copies of an append, as far as a publish does. A failed copy does not fail the publish. */
  publish(project: string, stream: string, through: Position): Promise<Published> {
    return this.using(project, stream, async (source) => {
      try {
        return await this.copy(source, through);
      } catch (fault) {
        this.parts.report(`fanning out ${project}/${stream} failed; the copies follow in the background`, fault);
        source.wake();
        return { mode: "circuit-open", count: source.roster.members.size, successes: 0, failures: 0 };
      }
    });
  }

  private async copy(source: Source, through: Position): Promise<Published> {
    const registry = await source.roster.look();
    if (registry === undefined) return { mode: "inline", count: 0, successes: 0, failures: 0 };
    const { world } = this.parts;
    const mode = source.mode();
    const isInline = mode === "inline";
    if (!isInline || !source.breaker.admits(world.monotonicMs())) {
      source.wake();
      return { mode: isInline ? "circuit-open" : mode, count: registry.count, successes: 0, failures: 0 };
    }
    const { failed, ...tally } = await source.copied(through);
    source.breaker.report(tally.successes, failed, world.monotonicMs());
    return { mode, ...tally };
  }

  /** Keeps the source from eviction while the work runs. */
  private async using<T>(project: string, stream: string, work: (source: Source) => Promise<T>): Promise<T> {
    const source = this.source(project, stream);
    source.uses++;
    try {
      return await work(source);
    } finally {
      source.uses--;
      this.count(source);
    }
  }

  /** Keeps the messages that a new subscription needs until it is stored. */
  joining<T>(project: string, stream: string, join: () => Promise<T>): Promise<T> {
    return this.using(project, stream, (source) => source.joining(join));
  }

  /** False if the stream of that name is gone. */
  add(project: string, stream: string, input: Omit<AddSubscriber, "remindAtMs">): Promise<boolean> {
    const { streams } = this.parts;
    const remindAtMs = this.nextCheckAtMs();
    return this.using(project, stream, async (source) => {
      for (;;) {
        const outcome = await source.roster.add({ ...input, remindAtMs });
        if (outcome.kind === "added") {
          if (outcome.lagsAt) source.catchUp(input.session);
          else if (mayOwe(outcome.registry, input.start)) source.wake();
          return true;
        }
        const described = await streams.describe(project, stream);
        if (described.kind !== "live" || !isFollowedAs(described.meta, FANOUT_FOLLOWER, input.name)) return false;
        await this.dissolve(source, outcome.name);
      }
    });
  }

  /** Whether the registry has this subscriber. */
  async has(project: string, stream: string, { session, incarnation, epoch }: Member): Promise<boolean> {
    const { rows } = await this.parts.engine.load(registryEntity(project, stream), [subscriberTable.at(session)]);
    const subscriber = rows[0] && subscriberTable.decode(rows[0]);
    return subscriber?.incarnation === incarnation && subscriber.epoch === epoch && !subscriber.left;
  }

  /** Removes a session that ended or left. Undefined `epoch` means any subscription of this incarnation. */
  async remove(
    project: string,
    stream: string,
    who: { session: string; incarnation: string; epoch: number | undefined; keepsBorrowing: boolean },
  ): Promise<void> {
    await this.using(project, stream, (source) => source.removeSubscribers([who]));
  }

  /** The stream of that name is gone. Its subscriptions end, first in the sessions and then in the registry. */
  private async dissolve(source: Source, name: string): Promise<void> {
    const { project, stream, roster } = source;
    const { keepers } = this.parts;
    const found: Member[] = [];
    for await (const { key, value } of roster.rows(subscriberTable.name)) {
      const { incarnation, epoch } = subscriberTable.decode(value);
      found.push({ session: key, incarnation, epoch });
    }
    const keys = [SESSION_ROW, subscriptionTable.at(stream)];
    const { batch } = this.parts.limits;
    for (let i = 0; i < found.length; i += batch) {
      const removals = found.slice(i, i + batch).map(async (member) => {
        const e = sessionEntity(project, member.session);
        const { borrows } = await keepers.submit(e, keys, (view) => dropRule(view, stream, name, member));
        return { ...member, keepsBorrowing: borrows };
      });
      await roster.remove(await Promise.all(removals), name);
    }
  }
}

/**
 * Whether messages before a new subscriber may not be copied yet. The first subscriber's registry may begin behind the
 * tail, and no later append need announce the messages before it. Otherwise a subscriber needs no round: a round reads
 * all subscribers, and a million sessions that subscribe must not keep the others in memory.
 */
function mayOwe({ count, cursor }: Registry, start: Position): boolean {
  return count === 1 || isBefore(cursor, start);
}
