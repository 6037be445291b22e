/**
 * Snapshots: what a subscription had acknowledged at a moment, so that it or another one of its topic can go back there. Part of
 * the service.
 *
 * Invariants: a snapshot holds the messages that it needs from the first commit to its end. Every message that was not
 * acknowledged when it was made is delivered again after a seek to it.
 */
import type { Access } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import { type Entity, entityOf } from "../engine/contract.ts";
import { put } from "../engine/draft.ts";
import type { Listed, ListPage, Snapshot, SnapshotSettings } from "./contract.ts";
import { checkName } from "./options.ts";
import { demand, listed, metaOf, type PullParts, tooManyHolds } from "./parts.ts";
import { type LogState, logChanges } from "./rules.ts";
import {
  logPaths,
  pullerEntity,
  SNAPSHOT,
  SNAPSHOT_META,
  type SnapshotMeta,
  snapshotEntity,
  snapshotTable,
  type TopicRef,
} from "./state.ts";
import { storedLogs } from "./stored-logs.ts";

/** The rows of a snapshot have this edition. */
const EDITION = 0;

export class Snapshots {
  constructor(private readonly parts: PullParts) {}

  async create(
    project: string,
    name: string,
    subscription: string,
    { labels }: SnapshotSettings,
    access: Access,
  ): Promise<Snapshot> {
    const { keepers, streams, limits } = this.parts;
    await demand(access, project, "create-snapshot", "write");
    checkName("snapshot", name);
    const { topic, edition } = await metaOf(this.parts, project, subscription);
    await demand(access, project, "create-snapshot", "write", topic.path);
    const snapshot = snapshotEntity(project, name);
    if ((await this.known(snapshot)) !== undefined) throw exists(name);
    const logs = await this.read(pullerEntity(project, subscription), topic, edition);
    for (const [path, { at }] of logs) {
      if ((await streams.hold(project, path, holderOf(snapshot), at)) !== "too-many") continue;
      await this.release(snapshot, topic);
      throw tooManyHolds(topic.path);
    }
    const meta = await keepers.submit(snapshot, [SNAPSHOT_META], (view, now) => {
      if (view.get(snapshotTable, "") !== undefined) return { outcome: undefined };
      const made: SnapshotMeta = { topic, createdAt: now, expiresAt: now + limits.snapshotMs, labels };
      const changes = [put(snapshotTable, "", made), ...logChanges(EDITION, logs)];
      return { outcome: made, changes: [...changes, { op: "remind", atMs: made.expiresAt }] };
    });
    if (meta === undefined) throw exists(name);
    return snapshotOf(name, meta);
  }

  private read(e: Entity, topic: TopicRef, edition: number): Promise<Map<string, LogState>> {
    const { engine, limits } = this.parts;
    return storedLogs(engine, e, topic, edition, limits.pageRows);
  }

  private async known(snapshot: Entity): Promise<SnapshotMeta | undefined> {
    const { engine } = this.parts;
    const { rows } = await engine.load(snapshot, [SNAPSHOT_META]);
    const meta = rows[0] && snapshotTable.decode(rows[0]);
    return meta !== undefined && meta.expiresAt > engine.now() ? meta : undefined;
  }

  private async found(project: string, name: string, access: Access, need: "read-or-write" | "write") {
    await demand(access, project, "snapshot", need);
    const meta = await this.known(snapshotEntity(project, name));
    if (meta === undefined) throw notFound(name);
    await demand(access, project, "snapshot", need, meta.topic.path);
    return meta;
  }

  async get(project: string, name: string, access: Access): Promise<Snapshot> {
    return snapshotOf(name, await this.found(project, name, access, "read-or-write"));
  }

  async list(project: string, page: ListPage, access: Access): Promise<Listed<Snapshot>> {
    await demand(access, project, "snapshot", "read-or-write");
    return listed(this.parts, project, SNAPSHOT, page, async (name) => {
      const meta = await this.known(snapshotEntity(project, name));
      return meta !== undefined && access.sees(meta.topic.path) ? snapshotOf(name, meta) : undefined;
    });
  }

  async listOf(project: string, topic: string, page: ListPage, access: Access): Promise<Listed<string>> {
    await demand(access, project, "snapshot", "read-or-write", topic);
    return listed(this.parts, project, SNAPSHOT, page, async (name) => {
      const meta = await this.known(snapshotEntity(project, name));
      return meta?.topic.path === topic ? name : undefined;
    });
  }

  async update(project: string, name: string, change: SnapshotSettings, access: Access): Promise<Snapshot> {
    await this.found(project, name, access, "write");
    const meta = await this.parts.keepers.submit(snapshotEntity(project, name), [SNAPSHOT_META], (view) => {
      const known = view.get(snapshotTable, "");
      if (known === undefined) return { outcome: undefined };
      const changed = { ...known, ...change };
      return { outcome: changed, changes: [put(snapshotTable, "", changed)] };
    });
    if (meta === undefined) throw notFound(name);
    return snapshotOf(name, meta);
  }

  async delete(project: string, name: string, access: Access): Promise<void> {
    const { topic } = await this.found(project, name, access, "write");
    await this.destroy(snapshotEntity(project, name), topic);
  }

  private async destroy(snapshot: Entity, topic: TopicRef): Promise<void> {
    const { keepers } = this.parts;
    await keepers.submit(snapshot, [SNAPSHOT_META], (view) => ({
      outcome: undefined,
      changes: view.exists ? [{ op: "destroy" }] : [],
    }));
    await this.release(snapshot, topic);
  }

  private async release(snapshot: Entity, topic: TopicRef): Promise<void> {
    for (const path of logPaths(topic)) {
      await this.parts.streams.hold(snapshot.project, path, holderOf(snapshot), undefined);
    }
  }

  /** Removes a snapshot whose time is over. */
  async sweep({ key }: Entity): Promise<void> {
    const snapshot = entityOf(key);
    const { engine } = this.parts;
    const { rows } = await engine.load(snapshot, [SNAPSHOT_META]);
    const meta = rows[0] && snapshotTable.decode(rows[0]);
    if (meta !== undefined && meta.expiresAt <= engine.now()) await this.destroy(snapshot, meta.topic);
  }

  /** What was acknowledged. Throws a Refusal if the snapshot is missing, or of another topic. */
  async stateOf(project: string, name: string, topic: TopicRef): Promise<Map<string, LogState>> {
    const snapshot = snapshotEntity(project, name);
    const meta = await this.known(snapshot);
    if (meta === undefined) throw notFound(name);
    if (meta.topic.id !== topic.id) {
      throw new Refusal("bad-request", `the snapshot ${name} is of another topic than the subscription`);
    }
    return this.read(snapshot, topic, EDITION);
  }
}

function holderOf({ id }: Entity): string {
  return `snapshot:${id}`;
}

function snapshotOf(name: string, { topic, ...rest }: SnapshotMeta): Snapshot {
  return { ...rest, name, topic: topic.path };
}

function notFound(name: string): Refusal {
  return new Refusal("snapshot-not-found", `there is no snapshot ${JSON.stringify(name)}`);
}

function exists(name: string): Refusal {
  return new Refusal("snapshot-exists", `there is a snapshot ${JSON.stringify(name)} already; choose another name`);
}
