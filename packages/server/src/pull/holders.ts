/**
 * The streams of a subscription as its dispatcher sees them: what each takes, and what it has.
 *
 * Invariants: a closed stream is kept until what it has is answered or has expired, because its flow control may be shared.
 */
import type { Lease } from "../leases/lease-core.ts";
import type { StreamEvents, StreamOptions } from "./contract.ts";
import { Flow } from "./flow.ts";

export interface Holder {
  /** Unique within its dispatcher. */
  readonly id: string;
  readonly flow: Flow;
  readonly isSequential: boolean;
  /** How long its messages are leased; undefined for the subscription's deadline. */
  leaseMs: number | undefined;
  readonly events: StreamEvents;
  isPaused: boolean;
  /** It takes no more. */
  isClosed: boolean;
  /** Messages are read again for it; until they come it gets no others, so that their order holds. */
  isFetching: boolean;
  outstanding: number;
}

export class Holders {
  private readonly holders = new Map<string, Holder>();
  private readonly flows = new Map<string, Flow>();
  private count = 0;

  get size(): number {
    return this.holders.size;
  }

  get all(): readonly Holder[] {
    return [...this.holders.values()];
  }

  get hasOpen(): boolean {
    return this.all.some(({ isClosed }) => !isClosed);
  }

  open(asked: StreamOptions, events: StreamEvents): Holder {
    const id = String(this.count++);
    const flow = this.flowOf(asked, id);
    flow.users++;
    const holder: Holder = {
      id,
      flow,
      isSequential: asked.isSequential ?? false,
      leaseMs: asked.ackDeadlineMs,
      events,
      isPaused: false,
      isClosed: false,
      isFetching: false,
      outstanding: 0,
    };
    this.holders.set(id, holder);
    return holder;
  }

  private flowOf({ shareOf, ...limits }: StreamOptions, id: string): Flow {
    const name = shareOf === undefined ? `own ${id}` : `of ${shareOf}`;
    const flow = this.flows.get(name) ?? new Flow(limits);
    flow.set(limits);
    this.flows.set(name, flow);
    return flow;
  }

  close(holder: Holder): void {
    holder.isClosed = true;
    this.forgetIfDone(holder);
  }

  /** A lease of one of them has ended. */
  freed({ holder: id }: Lease, bytes: number): void {
    const holder = this.holders.get(id);
    if (holder === undefined) return;
    holder.outstanding--;
    holder.flow.remove(bytes);
    this.forgetIfDone(holder);
  }

  private forgetIfDone(holder: Holder): void {
    if (!holder.isClosed || holder.outstanding > 0 || !this.holders.delete(holder.id)) return;
    if (--holder.flow.users > 0) return;
    for (const [name, flow] of this.flows) if (flow === holder.flow) this.flows.delete(name);
  }

  clear(): void {
    this.holders.clear();
    this.flows.clear();
  }
}
