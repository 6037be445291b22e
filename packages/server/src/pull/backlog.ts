/**
 * How far subscriptions are behind, as their operators see it. Part of the service.
 *
 * Invariants: the lag rests on stored acknowledgements. A look changes nothing: it starts no dispatcher and counts as no use of the
 * subscription.
 */
import type { Access } from "../core/action.ts";
import { isWorkOursAlone } from "../engine/other-nodes.ts";
import { AckLedger } from "../leases/ack-ledger.ts";
import type { Backlog, SubscriptionInfo } from "./contract.ts";
import { metaOf, type PullParts } from "./parts.ts";
import type { DispatcherRegistry } from "./registry.ts";
import type { RemoteSubscriptions } from "./remote-subscriptions.ts";
import { type PullerMeta, pullerEntity } from "./state.ts";
import { type StoredLog, storedLogs } from "./stored-logs.ts";
import type { Subscriptions } from "./subscriptions.ts";

/** What waits in one log. */
interface Waiting {
  readonly count: number;
  /** When the first of them was published. */
  readonly oldestAt?: number | undefined;
}

const NONE: Backlog = { lag: 0, pending: 0, oldestUnackedMs: null };

export class Backlogs {
  constructor(
    private readonly parts: PullParts,
    private readonly subscriptions: Pick<Subscriptions, "get">,
    private readonly registry: Pick<DispatcherRegistry, "here">,
    private readonly remote: Pick<RemoteSubscriptions, "pending">,
  ) {}

  async info(project: string, name: string, access: Access): Promise<SubscriptionInfo> {
    const subscription = await this.subscriptions.get(project, name, access);
    const isOver = subscription.isDetached || subscription.isTopicDeleted;
    return { ...subscription, ...(isOver ? NONE : await this.backlog(project, name)) };
  }

  private async backlog(project: string, name: string): Promise<Backlog> {
    const { engine, limits } = this.parts;
    const puller = pullerEntity(project, name);
    const meta = await metaOf(this.parts, project, name);
    const logs = await storedLogs(engine, puller, meta.topic, meta.edition, limits.pageRows);
    const [pending, ...waiting] = await Promise.all([
      this.pending(project, name, meta),
      ...[...logs].map(([path, log]) => this.waiting(project, path, log)),
    ]);
    const times = waiting.flatMap(({ oldestAt }) => oldestAt ?? []);
    return {
      lag: waiting.reduce((sum, { count }) => sum + count, 0),
      pending,
      oldestUnackedMs: times.length === 0 ? null : Math.max(0, engine.now() - Math.min(...times)),
    };
  }

  /** Leases are known to the dispatcher alone. One that has ended, or never began, has none. */
  private async pending(project: string, name: string, { node }: PullerMeta): Promise<number | null> {
    const { engine } = this.parts;
    const puller = pullerEntity(project, name);
    const here = this.registry.here(puller);
    if (here !== undefined) return here.outstanding;
    if (node === undefined || node === engine.node || isWorkOursAlone(engine)) return 0;
    const isAlive = (await engine.nodes()).some(({ id }) => id === node);
    return isAlive ? this.remote.pending(node, puller) : 0;
  }

  private async waiting(project: string, path: string, { at, blocks }: StoredLog): Promise<Waiting> {
    const acks = new AckLedger(at.seq, blocks);
    for (let from = { ...at, seq: acks.floor }; ; ) {
      const page = await this.parts.streams.peek(project, path, from, 1);
      if (page.kind === "trimmed") {
        acks.ackThrough(page.earliest.seq);
        from = { ...page.earliest, seq: acks.floor };
      } else if (page.kind === "lost") {
        acks.rewind(page.survived.seq);
        from = page.survived;
      } else if (page.kind === "page") {
        const count = Math.max(0, page.head.last.seq - from.seq - acks.ackedAbove);
        return { count, oldestAt: count === 0 ? undefined : page.messages[0]?.at };
      } else return { count: 0 };
    }
  }
}
