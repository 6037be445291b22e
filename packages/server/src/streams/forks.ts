/**
 * Forking as a protocol over two streams. Called by `Streams`.
 *
 * A fork shares the offsets of its source up to the fork point. It reads those messages through its lineage: a list of
 * ancestors, each with the last position that the fork reads there. The fork's own messages carry the fork's own
 * generation, so they sort after the inherited ones.
 *
 * Order of steps. Create: the source stores a row for the fork, then the fork is created. Delete: the source gets a
 * reminder, the fork is deleted, then the source drops the row. Each step commits one entity and is idempotent. If a
 * crash loses a step, the source's reminder makes the sweep compare its rows with the forks that exist (`verify`).
 *
 * A deleted source with forks stays stored as `gone`: clients get 410, and the forks still read it. The last fork to go
 * removes it, and that step repeats up the lineage.
 *
 * Invariants: while a fork exists, its source keeps every message that the fork reads, up to `holdBytes` over the
 * source's retention. A row is judged only after `forkCheckMs`, because the fork may still be on its way.
 */
import { BEGINNING, NOW, type Position, parseOffset } from "@sluice/protocol";
import { hex } from "../core/bytes.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Keepers, View } from "../engine/keeper.ts";
import type { StreamLimits } from "./defaults.ts";
import { findForkPoint } from "./fork-point.ts";
import {
  type AddFork,
  addForkRule,
  type Create,
  type CreateResult,
  compareRule,
  deleteRule,
  dropForkRule,
  watchForksRule,
} from "./life.ts";
import type { Described } from "./reading.ts";
import type { Fork, NewStream, Streams } from "./service.ts";
import { DEFAULT_CONTENT_TYPE, type ForkOrigin, forkTable, isSameType, META, streamEntity } from "./state.ts";

export class Forks {
  constructor(
    private readonly engine: Engine,
    private readonly keepers: Keepers,
    private readonly world: World,
    private readonly streams: Streams,
    private readonly limits: StreamLimits,
  ) {}

  /** The source stores the fork's row first; then the fork is created. */
  async create(project: string, path: string, request: NewStream, fork: Fork): Promise<CreateResult> {
    const source = await this.streams.describe(project, fork.source);
    const existing = await this.streams.describe(project, path);
    if (existing.kind !== "absent" || source.kind !== "live") {
      if (existing.kind === "absent" && source.kind !== "live") return { kind: `source-${source.kind}` };
      // A repeated PUT is answered by comparison, even if the source was deleted meanwhile.
      const repeated = this.asRepeated(request, fork, existing);
      const stream = streamEntity(project, path);
      const compared = await this.keepers.submit(stream, [META], (view, now) => compareRule(view, now, repeated));
      // The stream ended between the look and the comparison, so this request is not a repetition.
      return compared.kind === "vanished" ? this.create(project, path, request, fork) : compared;
    }
    const { meta, head } = source;
    if (meta.topic) return { kind: "source-sharded" };
    const contentType = request.config.contentType ?? meta.config.contentType;
    if (!isSameType(contentType, meta.config.contentType)) {
      return { kind: "source-type", contentType: meta.config.contentType };
    }
    const offset = fork.offset === undefined || fork.offset === NOW ? head.last : offsetOf(fork.offset);
    if (offset === undefined) return { kind: "bad-fork-offset" };
    const from = { path: fork.source, meta, head };
    const point = await findForkPoint(this.engine, project, from, offset, fork.subOffset, this.limits);
    if (point.kind !== "point") return { kind: `fork-${point.kind}` };

    const id = hex(this.world.randomBytes(12));
    const origin = originOf(fork, id, point.lineage);
    const through = point.lineage.at(-1)!.through;
    const added = await this.addFork(project, fork.source, {
      path,
      id,
      generation: head.generation,
      through,
      contentType,
    });
    // The point was found in another history of the source, so it proves nothing about this one.
    if (added === "changed") return this.create(project, path, request, fork);
    if (added !== "added")
      return added === "wrong-type" ? { kind: "source-type", contentType } : { kind: forkRefusal(added) };
    const inherits = request.config.ttlSeconds === undefined && request.config.expiresAt === undefined;
    const { ttlSeconds, expiresAt } = inherits ? meta.config : request.config;
    const config = { ...request.config, contentType, ttlSeconds, expiresAt };
    const created = await this.streams.createAt(project, path, {
      ...request,
      config,
      payloads: [...point.prefix, ...request.payloads],
      origin,
    });
    if (created.kind !== "created") await this.drop(project, origin);
    else if (!(await this.isNoted(project, origin))) {
      // The source dropped the row because this took too long. The messages that the fork would read may be gone.
      await this.keepers.submit(streamEntity(project, path), [META], (view, now) => deleteRule(view, now, this.limits));
      return { kind: "source-gone" };
    }
    return created;
  }

  private asRepeated(request: NewStream, fork: Fork, existing: Described): Create {
    const origin = originOf(fork, "", []);
    const inherited = existing.kind === "live" ? existing.meta.config : { contentType: DEFAULT_CONTENT_TYPE };
    const inherits = request.config.ttlSeconds === undefined && request.config.expiresAt === undefined;
    const { ttlSeconds, expiresAt } = inherits ? inherited : request.config;
    const contentType = request.config.contentType ?? inherited.contentType;
    return { ...request, config: { ...request.config, contentType, ttlSeconds, expiresAt }, origin };
  }

  private async addFork(project: string, source: string, fork: AddFork) {
    const keys = [META, forkTable.at(fork.id)];
    const rule = (view: View, now: number) => addForkRule(view, now, fork, this.limits);
    return (await this.keepers.submit(streamEntity(project, source), keys, rule)).kind;
  }

  private isNoted(project: string, { source, id }: ForkOrigin): Promise<boolean> {
    const keys = [forkTable.at(id)];
    return this.keepers.submit(streamEntity(project, source), keys, (view) => ({
      outcome: view.get(forkTable, id) !== undefined,
    }));
  }

  /**
   * Reminds the source before its fork goes. If this node crashes in between, the source's sweep finds the missing
   * fork.
   */
  async announceEnd(project: string, path: string): Promise<void> {
    const { rows } = await this.engine.load(streamEntity(project, path), [META]);
    const origin = rows[0] && META.of.decode(rows[0]).origin;
    if (origin === undefined) return;
    const rule = (view: View, now: number) => watchForksRule(view, now, this.limits);
    await this.keepers.submit(streamEntity(project, origin.source), [META], rule);
  }

  async drop(project: string, origin: Pick<ForkOrigin, "source" | "id">): Promise<void> {
    const source = streamEntity(project, origin.source);
    const keys = [META, forkTable.at(origin.id)];
    await this.announceEnd(project, origin.source);
    const outcome = await this.keepers.submit(source, keys, (view, now) =>
      dropForkRule(view, now, origin.id, this.limits),
    );
    // The last fork of a deleted source removed the source. That source was a fork too, so its own source drops a row.
    if (outcome.kind === "deleted" && outcome.origin) await this.drop(project, outcome.origin);
  }

  /** Drops the rows of forks that do not exist. Returns when to check again the rows that are too recent to judge. */
  async verify(project: string, path: string): Promise<number | undefined> {
    let again: number | undefined;
    const stream = streamEntity(project, path);
    let after = "";
    for (;;) {
      const rows = await this.engine.rows(stream, forkTable.name, after, this.limits.forkRows);
      for (const { key, value } of rows) {
        after = key;
        const fork = forkTable.decode(value);
        const { rows: found } = await this.engine.load(streamEntity(project, fork.path), [META]);
        if (found[0] !== undefined && META.of.decode(found[0]).origin?.id === key) continue;
        const judgeAt = fork.since + this.limits.forkCheckMs;
        if (judgeAt > this.engine.now()) again = Math.min(again ?? judgeAt, judgeAt);
        else await this.drop(project, { source: path, id: key });
      }
      if (rows.length < this.limits.forkRows) return again;
    }
  }
}

function originOf(fork: Fork, id: string, lineage: ForkOrigin["lineage"]): ForkOrigin {
  return { source: fork.source, askedOffset: fork.offset, askedSubOffset: fork.subOffset, id, lineage };
}

function offsetOf(text: string): Position | undefined {
  return text === BEGINNING ? { generation: 0, seq: 0 } : parseOffset(text);
}

function forkRefusal(kind: "absent" | "gone" | "ahead") {
  return kind === "ahead" ? ("fork-ahead" as const) : (`source-${kind}` as const);
}
