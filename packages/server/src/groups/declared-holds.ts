/**
 * The holds of a group that has no leader yet, so that retention takes nothing that was published after its declaration. The
 * service places them when a group is declared, and streams call it for each new stream that has a retention.
 *
 * Invariants: of a stream and a group, the one that is committed later finds the other, because each looks after its own commit.
 * Both answer their callers after that. Placing a hold is idempotent; a leader moves it later (`holds.ts`).
 */
import type { Position } from "@sluice/protocol";
import { isReserved } from "../core/reserved.ts";
import { isAmongShards } from "../core/shard-path.ts";
import { matchesFilter, type TopicFilter } from "../core/topic.ts";
import type { Engine } from "../engine/contract.ts";
import type { Streams } from "../streams/service.ts";
import { plainStreams, startIn } from "./group-start.ts";
import { holderOf } from "./holds.ts";
import { GROUP, type GroupMeta, groupEntity, META, metaTable } from "./state.ts";
import { filterOf, type GroupName, groupOfId } from "./topic.ts";

export interface DeclaredHoldsParts {
  readonly engine: Pick<Engine, "list" | "load">;
  readonly streams: Pick<Streams, "list" | "describe" | "positionAt" | "hold">;
  readonly pagePaths: number;
  /** Streams that are looked at concurrently. */
  readonly batch: number;
}

export class DeclaredHolds {
  constructor(private readonly parts: DeclaredHoldsParts) {}

  /** Holds the streams that the group's filter matches now. */
  async place(project: string, name: GroupName, meta: GroupMeta): Promise<void> {
    await this.eachMatch(project, name, (path) => this.hold(project, path, name, meta));
  }

  /** Holds a stream that was just created, for all groups that match it. */
  async placeOn(project: string, path: string): Promise<void> {
    const { engine, pagePaths } = this.parts;
    for (let after: string | undefined = ""; after !== undefined; ) {
      const page = await engine.list(project, GROUP, "", after, pagePaths);
      for (const name of page.ids.map(groupOfId)) {
        if (!consumes(filterOf(name), path)) continue;
        const { rows } = await engine.load(groupEntity(project, name), [META]);
        if (rows[0] !== undefined) await this.hold(project, path, name, metaTable.decode(rows[0]));
      }
      after = page.next;
    }
  }

  /** Where the group would begin in the streams that its filter matches now; about `max` of them. */
  async starts(project: string, name: GroupName, { start }: GroupMeta, max: number): Promise<Map<string, Position>> {
    const { streams } = this.parts;
    const found = new Map<string, Position>();
    await this.eachMatch(project, name, async (path) => {
      if (found.size >= max) return;
      for (const stream of await plainStreams(streams, project, path))
        found.set(stream.path, await startIn(streams, stream, start));
    });
    return found;
  }

  /** Releases the holds of a group on all streams that its filter matches. */
  async release(project: string, name: GroupName): Promise<void> {
    const holder = holderOf(groupEntity(project, name));
    await this.eachMatch(project, name, async (path) => {
      for (const stream of await plainStreams(this.parts.streams, project, path)) {
        if (stream.isTrimmed) await this.parts.streams.hold(project, stream.path, holder, undefined);
      }
    });
  }

  private async hold(project: string, path: string, name: GroupName, meta: GroupMeta): Promise<void> {
    const { streams } = this.parts;
    const holder = holderOf(groupEntity(project, name));
    for (const stream of await plainStreams(streams, project, path)) {
      if (stream.isTrimmed)
        await streams.hold(project, stream.path, holder, await startIn(streams, stream, meta.start));
    }
  }

  private async eachMatch(project: string, name: GroupName, work: (path: string) => Promise<void>): Promise<void> {
    const { streams, pagePaths, batch } = this.parts;
    const filter = filterOf(name);
    for (let after: string | undefined = ""; after !== undefined; ) {
      const page = await streams.list(project, filter.literalPrefix, after, pagePaths);
      const paths = page.ids.filter((path) => consumes(filter, path));
      for (let at = 0; at < paths.length; at += batch) await Promise.all(paths.slice(at, at + batch).map(work));
      after = page.next;
    }
  }
}

/** Shards are reached through their topic. */
function consumes(filter: TopicFilter, path: string): boolean {
  return !isReserved(path) && !isAmongShards(path) && matchesFilter(filter, path);
}
