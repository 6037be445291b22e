/**
 * Forking as a protocol over two streams: the source notes the fork before it exists, and hears of its end after it is gone.
 * Every step is one entity's and may be repeated; what a crash leaves undone the source's sweep finds out. Called by `Streams`.
 *
 * What must stay true: while a fork exists, its source holds what the fork reads.
 */
import { BEGINNING, NOW, type Position, parseOffset } from "@sluice/protocol";
import { hex } from "../core/bytes.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Keepers, View } from "../engine/keeper.ts";
import { findForkPoint } from "./fork-point.ts";
import {
  type AddFork,
  addForkRule,
  type Create,
  compareRule,
  deleteRule,
  dropForkRule,
  watchForksRule,
} from "./life.ts";
import type { StreamLimits } from "./limits.ts";
import type { Described } from "./reading.ts";
import type { CreateResult, Fork, NewStream, Streams } from "./service.ts";
import { DEFAULT_CONTENT_TYPE, type ForkOrigin, forkTable, isSameType, META, streamEntity } from "./state.ts";

export class Forks {
  constructor(
    private readonly engine: Engine,
    private readonly keepers: Keepers,
    private readonly world: World,
    private readonly streams: Streams,
    private readonly limits: StreamLimits,
  ) {}

  /** The source takes note of the fork first, then the fork comes into being. */
  async create(project: string, path: string, request: NewStream, fork: Fork): Promise<CreateResult> {
    const source = await this.streams.describe(project, fork.source);
    const existing = await this.streams.describe(project, path);
    if (existing.kind !== "absent" || source.kind !== "live") {
      if (existing.kind === "absent" && source.kind !== "live") return { kind: `source-${source.kind}` };
      // A repeated PUT is answered by comparing, even when the source has gone in the meantime.
      const repeated = this.asRepeated(request, fork, existing);
      const stream = streamEntity(project, path);
      const compared = await this.keepers.submit(stream, [META], (view, now) => compareRule(view, now, repeated));
      // It went between our look and the comparison, so this is no repetition after all.
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
      // It took so long that the source has given the fork up, and with it what the fork would read.
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

  /** Before a fork goes, its source is asked to look after it: should we die in between, the source finds out by itself. */
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
    // The last fork of a deleted source took it along; then its own source loses a fork too.
    if (outcome.kind === "deleted" && outcome.origin) await this.drop(project, outcome.origin);
  }

  /** Returns when to look again at those that were announced too recently to be judged. */
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

function forkRefusal(kind: "absent" | "gone" | "ahead" | "trimmed") {
  return kind === "absent" || kind === "gone" ? (`source-${kind}` as const) : (`fork-${kind}` as const);
}
