/**
 * Subscriptions as doors use them: create, look at, list, change, detach, seek, delete, redrive. Part of the service; delivery is
 * in `consuming.ts`.
 *
 * Invariants: a caller uses a subscription only if it may use its topic. A subscription that is created misses nothing that is
 * published afterwards. Holds on streams are released after the commit that ends the subscription.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { type Access, FULL_ACCESS } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import type { Entity } from "../engine/contract.ts";
import type {
  Created,
  Listed,
  ListPage,
  NewSubscription,
  SeekTarget,
  Subscription,
  SubscriptionChange,
} from "./contract.ts";
import { contentTypeOf, isLetterOf, originalAttributes } from "./dead-letters.ts";
import { checkName, checkOptions, optionsOf } from "./options.ts";
import { demand, listed, metaOf, type PullParts, subscriptionNotFound, tooManyHolds } from "./parts.ts";
import type { DispatcherRegistry } from "./registry.ts";
import {
  createRule,
  deleteRule,
  endRule,
  expireRule,
  type LogState,
  redrivenRule,
  seekRule,
  updateRule,
} from "./rules.ts";
import type { Snapshots } from "./snapshots.ts";
import { logPaths, logTable, META, metaTable, PULLER, type PullerMeta, pullerEntity } from "./state.ts";
import { heldFrom, holderOf, holdLog, releaseLogs } from "./subscription-holds.ts";
import { findTopic, isTopic, topicNotFound } from "./topic-ref.ts";

/** Dead letters that are published again between two commits of the place. */
const REDRIVE_BYTES = 1_024 * 1_024;

export class Subscriptions {
  constructor(
    private readonly parts: PullParts,
    private readonly registry: DispatcherRegistry,
    private readonly snapshots: Snapshots,
  ) {}

  async create(
    project: string,
    name: string,
    { topic: path, from, ...asked }: NewSubscription,
    access: Access,
  ): Promise<Created<Subscription>> {
    const { streams, world, keepers } = this.parts;
    await demand(access, project, "create-subscription", "write", path);
    checkName("subscription", name);
    const options = optionsOf(asked);
    await this.demandDeadLetter(project, options, access);
    const puller = pullerEntity(project, name);
    const { topic, logs } = await findTopic(streams, world, project, path, from);
    const known = await this.stored(puller);
    // Its holds stand where it stands. A hold at the tail would let retention take what it has not acknowledged.
    if (known !== undefined) return this.existing(project, name, known, access);
    // The holds come first, so that retention takes nothing between the creation and the first pull.
    for (const [log, at] of logs) {
      if ((await streams.hold(project, log, holderOf(puller), at)) !== "too-many") continue;
      await releaseLogs(this.parts, puller, [...logs.keys()]);
      throw tooManyHolds(path);
    }
    const { kind, meta } = await keepers.submit(
      puller,
      [META, ...[...logs.keys()].map((log) => logTable.at(log))],
      (view, now) => createRule(view, now, { topic, options, logs }),
    );
    if (kind === "created") return { value: subscriptionOf(name, meta), isNew: true };
    if (meta.topic.path !== path) await releaseLogs(this.parts, puller, [...logs.keys()]);
    return this.existing(project, name, meta, access);
  }

  /** The subscription of that name may be of a topic that the caller may not use. */
  private async existing(project: string, name: string, meta: PullerMeta, access: Access) {
    await demand(access, project, "create-subscription", "write", meta.topic.path);
    return { value: subscriptionOf(name, meta), isNew: false };
  }

  private async demandDeadLetter(project: string, { deadLetter }: SubscriptionChange, access: Access): Promise<void> {
    if (deadLetter !== undefined) await demand(access, project, "publish", "write", deadLetter.topic);
  }

  async get(project: string, name: string, access: Access): Promise<Subscription> {
    const meta = await this.known(project, name, access, "get-subscription", "read-or-write");
    return subscriptionOf(name, await this.current(project, meta));
  }

  /** Dispatchers store that a topic was deleted. Of a subscription that none has served since, it is found out here. */
  private async current(project: string, meta: PullerMeta): Promise<PullerMeta> {
    if (meta.isTopicDeleted) return meta;
    const { topic } = meta;
    const described = await this.parts.streams.describe(project, topic.path);
    return described.kind === "live" && isTopic(described.meta, topic) ? meta : { ...meta, isTopicDeleted: true };
  }

  /** Throws a Refusal unless the subscription exists and the caller may use its topic. */
  private async known(
    project: string,
    name: string,
    access: Access,
    action: string,
    need: "read-or-write" | "write",
  ): Promise<PullerMeta> {
    await demand(access, project, action, need);
    const meta = await metaOf(this.parts, project, name);
    await demand(access, project, action, need, meta.topic.path);
    return meta;
  }

  async list(project: string, page: ListPage, access: Access): Promise<Listed<Subscription>> {
    await demand(access, project, "list-subscriptions", "read-or-write");
    return listed(this.parts, project, PULLER, page, (name) => this.seen(project, name, access));
  }

  async listOf(project: string, topic: string, page: ListPage, access: Access): Promise<Listed<string>> {
    await demand(access, project, "list-subscriptions", "read-or-write", topic);
    return listed(this.parts, project, PULLER, page, async (name) => {
      const found = await this.seen(project, name, access);
      const isOfTopic = found?.topic === topic && !found.isDetached && !found.isTopicDeleted;
      return isOfTopic ? name : undefined;
    });
  }

  private async stored(puller: Entity): Promise<PullerMeta | undefined> {
    const { rows } = await this.parts.engine.load(puller, [META]);
    return rows[0] && metaTable.decode(rows[0]);
  }

  private async seen(project: string, name: string, access: Access): Promise<Subscription | undefined> {
    const meta = await this.stored(pullerEntity(project, name));
    if (meta === undefined || !access.sees(meta.topic.path)) return undefined;
    return subscriptionOf(name, await this.current(project, meta));
  }

  async update(project: string, name: string, change: SubscriptionChange, access: Access): Promise<Subscription> {
    await this.known(project, name, access, "update-subscription", "write");
    checkOptions(change);
    await this.demandDeadLetter(project, change, access);
    const puller = pullerEntity(project, name);
    const meta = await this.parts.keepers.submit(puller, [META], (view) => updateRule(view, change));
    return subscriptionOf(name, this.changed(puller, meta));
  }

  /** The dispatcher of this node learns of the change at once, one of another node when it looks. */
  private changed(puller: Entity, meta: PullerMeta | undefined): PullerMeta {
    this.registry.here(puller)?.changed(meta);
    if (meta === undefined) throw subscriptionNotFound(puller.id);
    return meta;
  }

  async detach(project: string, name: string, access: Access): Promise<void> {
    const { topic } = await this.known(project, name, access, "detach-subscription", "write");
    const puller = pullerEntity(project, name);
    const meta = await this.parts.keepers.submit(puller, [META], (view) => endRule(view, "isDetached"));
    this.changed(puller, meta);
    await releaseLogs(this.parts, puller, logPaths(topic));
  }

  async delete(project: string, name: string, access: Access): Promise<void> {
    const { topic } = await this.known(project, name, access, "delete-subscription", "write");
    const puller = pullerEntity(project, name);
    const deleted = await this.parts.keepers.submit(puller, [META], deleteRule);
    this.registry.here(puller)?.changed(undefined);
    await releaseLogs(this.parts, puller, logPaths(topic));
    if (deleted === undefined) throw subscriptionNotFound(name);
  }

  /** Deletes the subscription if it was not used for as long as it may be. */
  async sweep({ project, id }: Entity): Promise<void> {
    const puller = pullerEntity(project, id);
    const isUsed = this.registry.here(puller)?.isWanted ?? false;
    const isExpired = await this.parts.keepers.submit(puller, [META], (view, now) => expireRule(view, now, isUsed));
    if (isExpired) await this.delete(project, id, FULL_ACCESS);
  }

  async seek(project: string, name: string, to: SeekTarget, access: Access): Promise<void> {
    const { topic, options, isTopicDeleted, isDetached } = await this.known(project, name, access, "seek", "write");
    if (isDetached)
      throw new Refusal("subscription-detached", `the subscription ${name} is detached; create a new one`);
    if (isTopicDeleted) throw topicNotFound(topic.path);
    const logs = new Map<string, LogState>();
    if ("snapshot" in to) {
      for (const [path, state] of await this.snapshots.stateOf(project, to.snapshot, topic)) logs.set(path, state);
    } else {
      for (const path of logPaths(topic)) {
        const located = await this.parts.streams.positionAt(project, path, to.timeMs);
        if (located.kind !== "position") throw topicNotFound(topic.path);
        logs.set(path, { at: located.position, blocks: new Map() });
      }
    }
    const puller = pullerEntity(project, name);
    const hold = async (paths: Iterable<string>) => {
      for (const path of paths) {
        await holdLog(this.parts, puller, path, await heldFrom(this.parts, puller, path, logs.get(path)!.at, options));
      }
    };
    await hold(await this.movingBack(puller, logs));
    this.changed(puller, await this.parts.keepers.submit(puller, [META], (view) => seekRule(view, logs)));
    // A seek forward lets go of messages only now. A dispatcher may have raised a hold that was lowered before the commit.
    await hold(logs.keys());
  }

  /** The logs whose floor this seek lowers, so that they must be held before it commits. */
  private async movingBack(puller: Entity, logs: ReadonlyMap<string, LogState>): Promise<string[]> {
    const paths = [...logs.keys()];
    const { rows } = await this.parts.engine.load(
      puller,
      paths.map((path) => logTable.at(path)),
    );
    return paths.filter((path, i) => {
      const row = rows[i] && logTable.decode(rows[i]);
      return row !== undefined && comparePositions(logs.get(path)!.at, row.at) < 0;
    });
  }

  /** Publishes the dead letters of this subscription again. At least once: a crash in between repeats some. */
  async redrive(project: string, name: string, access: Access): Promise<number> {
    const { streams, keepers } = this.parts;
    const { topic, options, redrivenTo } = await this.known(project, name, access, "redrive", "write");
    const { deadLetter } = options;
    if (deadLetter === undefined) throw new Refusal("bad-request", `the subscription ${name} has no dead-letter topic`);
    const contentType = await contentTypeOf(streams, project, topic.path);
    if (contentType === undefined) throw topicNotFound(topic.path);
    let count = 0;
    for (let after: Position | undefined = redrivenTo; ; ) {
      const page = await streams.read(project, deadLetter.topic, after, REDRIVE_BYTES);
      if (page.kind === "trimmed" || page.kind === "lost") {
        after = page.kind === "trimmed" ? page.earliest : page.survived;
        continue;
      }
      if (page.kind === "sharded") throw shardedLetters(deadLetter.topic);
      if (page.kind !== "page") return count;
      for (const message of page.messages.filter((one) => isLetterOf(one, name))) {
        const { payload, key: messageKey } = message;
        const attributes = originalAttributes(message);
        const append = { payloads: [payload], contentType, close: false, messageKey, attributes };
        const { kind } = await streams.append(project, topic.path, append);
        if (kind !== "appended") throw topicNotFound(topic.path);
        count++;
      }
      after = page.next;
      const place = after;
      await keepers.submit(pullerEntity(project, name), [META], (view) => redrivenRule(view, place));
      if (page.atTail) return count;
    }
  }
}

/** A redrive remembers one place, and a sharded topic has one per shard. */
function shardedLetters(topic: string): Refusal {
  const detail = `the dead-letter topic ${JSON.stringify(topic)} is sharded, and a redrive reads only topics without shards`;
  return new Refusal("bad-request", `${detail}; pull its letters with a subscription and publish them again`);
}

function subscriptionOf(name: string, meta: PullerMeta): Subscription {
  const { topic, createdAt, options, isTopicDeleted, isDetached } = meta;
  return { ...options, name, topic: topic.path, createdAt, isTopicDeleted, isDetached };
}
