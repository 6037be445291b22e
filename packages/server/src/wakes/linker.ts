/**
 * Brings links and streams together: finds the streams that a pattern matches, stores which came and went, and reads
 * links and tails. It strings single-entity steps together; the rules decide. Called by the service and the waker,
 * within a step of the subscription.
 */
import { BEGINNING, type Position, parseOffset, ZERO } from "@sluice/protocol";
import { nextTurn, type World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { isMemoryTruth } from "../engine/other-nodes.ts";
import type { Streams } from "../streams/service.ts";
import type { WakeLimits } from "./defaults.ts";
import { type NoteOutcome, noteRule } from "./link-rules.ts";
import type { SubscriptionIndex } from "./matching.ts";
import { isPending, type Link, type LinkInfo, linkTable, META, STATE, type Tail, wakeEntity } from "./state.ts";
import type { Subscription } from "./subscription.ts";

export class Linker {
  constructor(
    private readonly engine: Engine,
    private readonly keepers: Keepers,
    private readonly streams: Streams,
    private readonly world: World,
    private readonly index: SubscriptionIndex,
    private readonly report: (what: string, fault: unknown) => void,
    private readonly limits: WakeLimits,
  ) {}

  /** Undefined if the stream does not exist. */
  async tailOf(project: string, path: string): Promise<Position | undefined> {
    const described = await this.streams.describe(project, path);
    return described.kind === "live" ? described.head.last : undefined;
  }

  async tailsOf(project: string, paths: readonly string[]): Promise<Tail[]> {
    const tails: Tail[] = [];
    for (const path of paths) tails.push({ path, tail: (await this.tailOf(project, path)) ?? ZERO });
    return tails;
  }

  /** The streams that the pattern matches now, at most one more than can be linked. */
  async matching(subscription: Subscription): Promise<Tail[]> {
    const found: Tail[] = [];
    for await (const path of this.candidates(subscription)) {
      const tail = await this.tailOf(subscription.project, path);
      if (tail) found.push({ path, tail });
      if (found.length > this.limits.links) break;
    }
    return found;
  }

  private async *candidates(subscription: Subscription): AsyncGenerator<string> {
    if (subscription.glob === undefined) return;
    let after = "";
    for (;;) {
      const page = await this.streams.list(
        subscription.project,
        subscription.glob.literalPrefix,
        after,
        this.limits.page,
      );
      for (const path of page.ids) if (subscription.wants(path)) yield path;
      if (page.next === undefined) return;
      after = page.next;
      await nextTurn(this.world);
    }
  }

  async *links(subscription: Subscription): AsyncGenerator<{ path: string; link: Link }> {
    const e = wakeEntity(subscription.project, subscription.id);
    let after = "";
    for (;;) {
      const rows = await this.engine.rows(e, linkTable.name, after, this.limits.page);
      for (const { key, value } of rows) yield { path: key, link: linkTable.decode(value) };
      if (rows.length < this.limits.page) return;
      after = rows.at(-1)!.key;
      await nextTurn(this.world);
    }
  }

  /**
   * Stores all events heard. Deleted streams come first, because a stream of the same path may have been created since.
   */
  async takeNotes(subscription: Subscription): Promise<NoteOutcome> {
    let outcome: NoteOutcome;
    do {
      const unlink = take(subscription.toUnlink, this.limits.page);
      const link = subscription.toUnlink.size > 0 ? [] : take(subscription.toLink, this.limits.page);
      const keys = [META, STATE, ...unlink.map(linkTable.at), ...link.map(linkTable.at)];
      const note = { incarnation: subscription.incarnation, unlink, link };
      const e = wakeEntity(subscription.project, subscription.id);
      outcome = await this.keepers.submit(e, keys, (view, now) => noteRule(view, now, note, this.limits.links));
      if (outcome.kind === "absent") return outcome;
      for (const path of unlink) this.index.unlink(subscription, path);
      if (outcome.refused > 0) this.reportFull(subscription);
    } while (subscription.toUnlink.size > 0 || subscription.toLink.size > 0);
    return outcome;
  }

  /**
   * After a restart or a fault: links matching streams, unlinks deleted ones, and suspects the links that have work.
   */
  async relink(subscription: Subscription): Promise<void> {
    await this.survey(subscription);
    const e = wakeEntity(subscription.project, subscription.id);
    for await (const path of this.candidates(subscription)) {
      const { rows } = await this.engine.load(e, [linkTable.at(path)]);
      if (rows[0] === undefined || !linkTable.decode(rows[0]).glob) subscription.hear(path, false, true);
      if (subscription.toLink.size < this.limits.page) continue;
      const noted = await this.takeNotes(subscription);
      if (noted.kind === "absent" || noted.refused > 0) return;
    }
    await this.takeNotes(subscription);
  }

  /**
   * Reports once that the subscription is full. A later stream is linked on its next append if there is room by then.
   */
  private reportFull(subscription: Subscription): void {
    if (subscription.isKnownFull) return;
    subscription.isKnownFull = true;
    const { project, id } = subscription;
    const fault = new Error(
      `a subscription has at most ${this.limits.links} links; a stream beyond is linked on its next append once there is room`,
    );
    this.report(
      `more streams match the wake subscription ${project}/${id} than can be linked; the others wait for room`,
      fault,
    );
  }

  /** Reads every link, so that the suspects are exact afterwards and the index has the explicit links. */
  async survey(subscription: Subscription): Promise<void> {
    subscription.takeSuspects();
    for await (const { path, link } of this.links(subscription)) {
      if (link.explicit) this.index.link(subscription, path);
      const tail = await this.tailOf(subscription.project, path);
      if (tail === undefined && wasThere(link)) subscription.hear(path, true, false);
      if (tail !== undefined && isPending(link, tail)) subscription.suspect(path);
    }
  }

  /**
   * The suspected links that have work, at most as many as one wake takes. The remaining ones stay suspected or are
   * cleared.
   */
  async pending(subscription: Subscription): Promise<LinkInfo[]> {
    const { project, id } = subscription;
    if (!isMemoryTruth(this.engine)) subscription.suspectAll();
    try {
      let suspects = subscription.takeSuspects();
      if (suspects === undefined) {
        await this.survey(subscription);
        suspects = subscription.takeSuspects();
      }
      const found: LinkInfo[] = [];
      let looked = 0;
      for (const path of suspects ?? []) {
        if (++looked % this.limits.page === 0) await nextTurn(this.world);
        const { rows } = await this.engine.load(wakeEntity(project, id), [linkTable.at(path)]);
        const tail = rows[0] && (await this.tailOf(project, path));
        if (tail === undefined) continue;
        const link = linkTable.decode(rows[0]!);
        if (!isPending(link, tail)) continue;
        subscription.suspect(path);
        if (found.length < this.limits.streamsPerWake) found.push({ path, link, tail });
      }
      return found;
    } catch (fault) {
      subscription.suspectAll();
      throw fault;
    }
  }

  /** The streams of a payload: those with a tail from `pin`, then further ones as long as there is room. */
  async infos(
    subscription: Subscription,
    pin: (path: string, link: Link) => Position | undefined,
  ): Promise<LinkInfo[]> {
    const listed: LinkInfo[] = [];
    const max = this.limits.streamsPerWake;
    const unpinned: { path: string; link: Link }[] = [];
    for await (const { path, link } of this.links(subscription)) {
      const tail = pin(path, link);
      if (tail !== undefined) listed.push({ path, link, tail });
      else if (unpinned.length < max) unpinned.push({ path, link });
    }
    for (const { path, link } of unpinned.slice(0, Math.max(0, max - listed.length))) {
      listed.push({ path, link, tail: (await this.tailOf(subscription.project, path)) ?? ZERO });
    }
    return listed;
  }
}

function take(paths: Set<string>, count: number): string[] {
  const taken = [...paths].slice(0, count);
  for (const path of taken) paths.delete(path);
  return taken;
}

/** Whether the stream existed when or after it was linked, so that its absence means deletion. */
function wasThere({ acked, explicit }: Link): boolean {
  return !explicit || (acked !== BEGINNING && parseOffset(acked)!.generation > 0);
}
