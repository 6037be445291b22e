/**
 * The streams of other nodes on the subscriptions that this node serves. The feature hands it what other nodes ask.
 *
 * Invariants: a stream whose node is silent for too long is closed; its messages stay leased until they expire. A batch of leases
 * is told again until the node has confirmed it. A repeated request is performed once, and gets the same reply. A stream that was
 * closed is not opened again.
 */
import type { Cancel, World } from "../core/world.ts";
import { entityOf } from "../engine/contract.ts";
import { type Ask, type AskEnvelope, cut, type PullCarrier, type Reply, type ToldLease } from "./carrier.ts";
import type { Delivery, PullStream } from "./contract.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { DispatcherRegistry } from "./registry.ts";

export interface HoldersParts {
  readonly world: World;
  readonly carrier: PullCarrier;
  readonly registry: Pick<DispatcherRegistry, "here">;
  readonly limits: { readonly resendMs: number; readonly silentMs: number };
  readonly report: (what: string, fault: unknown) => void;
}

interface RemoteHolder {
  readonly node: string;
  readonly stream: PullStream;
  readonly dispatcher: Dispatcher;
  readonly unconfirmed: Map<number, { readonly leases: readonly ToldLease[]; sentMs: number }>;
  version: number;
  batches: number;
  heardMs: number;
  /** Nothing is ready since the last batch. */
  isIdle: boolean;
}

type Open = Extract<Ask, { type: "open" }>;
type Close = Extract<Ask, { type: "close" }>;

/** Requests that are remembered, in case they come again. */
const MAX_REPLIES = 10_000;
/** Closed streams that are remembered, in case an earlier request to open one comes late. */
const MAX_CLOSED = 10_000;

export class RemoteHolders {
  private readonly holders = new Map<string, RemoteHolder>();
  private readonly replies = new Map<string, Promise<Reply>>();
  private readonly closed = new Set<string>();
  private timer: Cancel | undefined;

  constructor(private readonly parts: HoldersParts) {}

  async asked({ ask, from, puller, what }: AskEnvelope): Promise<void> {
    const { carrier, registry, report } = this.parts;
    const dispatcher = registry.here(entityOf(puller));
    let reply: Reply = { type: "elsewhere" };
    try {
      if (dispatcher !== undefined) reply = await this.once(ask, () => this.perform(dispatcher, from, what));
    } catch (fault) {
      this.replies.delete(ask);
      report(`a request of node ${from} for ${puller} failed; it asks again`, fault);
      return;
    }
    carrier.send(from, { pull: 1, re: ask, reply });
  }

  /** The reply to a request that is under way or was answered not long ago. */
  private once(ask: string, perform: () => Promise<Reply>): Promise<Reply> {
    const known = this.replies.get(ask);
    if (known !== undefined) return known;
    const reply = perform();
    this.replies.set(ask, reply);
    if (this.replies.size > MAX_REPLIES) {
      const [oldest] = this.replies.keys();
      this.replies.delete(oldest!);
    }
    return reply;
  }

  private async perform(dispatcher: Dispatcher, from: string, what: Ask): Promise<Reply> {
    switch (what.type) {
      case "ack":
        return { type: "outcomes", outcomes: await dispatcher.ack(what.ids) };
      case "nack":
        return { type: "outcomes", outcomes: await dispatcher.nack(what.ids, what.delayMs) };
      case "extend":
        return { type: "outcomes", outcomes: dispatcher.extend(what.ids, what.leaseMs) };
      case "open":
        this.open(dispatcher, from, what);
        return { type: "ok" };
      case "close":
        this.close(what);
        return { type: "ok" };
      case "count":
        return { type: "count", outstanding: dispatcher.outstanding };
    }
  }

  private open(dispatcher: Dispatcher, node: string, what: Open): void {
    if (this.closed.has(what.stream)) return;
    const { world, carrier } = this.parts;
    const known = this.holders.get(what.stream);
    if (known !== undefined && known.dispatcher !== dispatcher) this.forget(what.stream);
    const holder = this.holders.get(what.stream) ?? this.begin(dispatcher, node, what);
    holder.heardMs = world.monotonicMs();
    for (const batch of holder.unconfirmed.keys()) if (batch <= what.seen) holder.unconfirmed.delete(batch);
    this.resend(what.stream, holder);
    if (holder.isIdle) carrier.send(node, { pull: 1, to: what.stream, idleAfter: holder.batches });
    if (what.version <= holder.version) return;
    holder.version = what.version;
    holder.stream.setLimits(what.asked);
    if (what.asked.ackDeadlineMs !== undefined) holder.stream.setAckDeadline(what.asked.ackDeadlineMs);
    if (what.isPaused) holder.stream.pause();
    else holder.stream.resume();
  }

  private begin(dispatcher: Dispatcher, node: string, { stream: id, asked, seen }: Open): RemoteHolder {
    const { carrier, world, limits } = this.parts;
    const stream = dispatcher.stream(asked, {
      deliver: (messages) => this.tell(id, messages),
      idle: () => this.tellIdle(id),
      notice: (notice) => carrier.send(node, { pull: 1, to: id, notice }),
      ended: (ended) => {
        this.holders.delete(id);
        carrier.send(node, { pull: 1, to: id, ended });
      },
    });
    const unconfirmed = new Map();
    const holder = { node, stream, dispatcher, unconfirmed, version: 0, batches: seen, heardMs: 0, isIdle: false };
    this.holders.set(id, holder);
    this.timer ??= world.after(limits.resendMs, this.tick);
    return holder;
  }

  private close({ stream: id, delivered }: Close): void {
    this.closed.add(id);
    if (this.closed.size > MAX_CLOSED) {
      const [oldest] = this.closed;
      this.closed.delete(oldest!);
    }
    const holder = this.holders.get(id);
    if (holder === undefined) return;
    this.forget(id);
    // A node of an earlier version does not say what it has delivered.
    if (delivered === undefined) return;
    for (const [batch, { leases }] of holder.unconfirmed) {
      if (batch > delivered) holder.dispatcher.withdraw(leases.map(({ ackId }) => ackId));
    }
  }

  private tell(id: string, messages: readonly Delivery[]): void {
    const { carrier, world } = this.parts;
    const holder = this.holders.get(id);
    if (holder === undefined) return;
    holder.isIdle = false;
    for (const part of cut(messages)) {
      const leases = part.map(({ ackId, attempt, deadlineAt }) => ({ ackId, attempt, deadlineAt }));
      const batch = ++holder.batches;
      holder.unconfirmed.set(batch, { leases, sentMs: world.monotonicMs() });
      carrier.send(holder.node, { pull: 1, to: id, batch, leases });
    }
  }

  private tellIdle(id: string): void {
    const holder = this.holders.get(id);
    if (holder === undefined || holder.isIdle) return;
    holder.isIdle = true;
    this.parts.carrier.send(holder.node, { pull: 1, to: id, idleAfter: holder.batches });
  }

  private resend(id: string, { node, unconfirmed }: RemoteHolder): void {
    const { carrier, world, limits } = this.parts;
    const now = world.monotonicMs();
    for (const [batch, one] of unconfirmed) {
      if (now - one.sentMs < limits.resendMs) continue;
      one.sentMs = now;
      carrier.send(node, { pull: 1, to: id, batch, leases: one.leases });
    }
  }

  private readonly tick = (): void => {
    const { world, limits } = this.parts;
    const silentSince = world.monotonicMs() - limits.silentMs;
    for (const [id, { heardMs }] of [...this.holders]) if (heardMs < silentSince) this.forget(id);
    this.timer = this.holders.size === 0 ? undefined : world.after(limits.resendMs, this.tick);
  };

  private forget(id: string): void {
    this.holders.get(id)?.stream.close();
    this.holders.delete(id);
  }

  stop(): void {
    this.timer?.();
    this.holders.clear();
  }
}
