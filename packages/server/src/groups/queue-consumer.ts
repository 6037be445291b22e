/**
 * The session's handler of one subscription to a queue: it reads each message that its borrower is leased, delivers it, and
 * reports what became of it. The consume door makes one per `subscribe`.
 *
 * Invariants: a message is delivered once per lease, and not after the lease may have ended. The leader keeps to the credit, so
 * nothing is buffered beyond it.
 */
import type { Position } from "@sluice/protocol";
import type { World } from "../core/world.ts";
import type { LoggedMessage } from "../engine/contract.ts";
import type { StreamPage } from "../streams/reading.ts";
import type { Streams } from "../streams/service.ts";
import type { Agent, SessionEffect, Subscription } from "./agent.ts";
import type { Subscribe } from "./consumer.ts";
import type { Leased, Settlement } from "./messages.ts";

/** What the client is told. */
export interface QueueEvents {
  subscribed(): void;
  message(leased: Leased, contentType: string, message: LoggedMessage): void;
  /** The acknowledgement is durable. */
  acked(leased: Leased): void;
  /** The lease was over before it was settled. */
  expired(leased: Leased): void;
  /** Messages between these positions are gone before they were processed: retention took them. */
  gap(stream: string, after: Position, through: Position): void;
  unsubscribed(): void;
}

export interface QueueConsumerParts {
  readonly world: Pick<World, "monotonicMs">;
  readonly streams: Pick<Streams, "peek">;
  readonly agent: Agent;
  readonly pageBytes: number;
}

/** `gone`: the stream has it no more. Undefined if it was not read. */
type Found = { readonly contentType: string; readonly message: LoggedMessage } | "gone" | undefined;

interface Held {
  readonly leased: Leased;
  verdict: Settlement["verdict"] | undefined;
}

export class QueueConsumer {
  private readonly subscription: Subscription;
  /** By the number of the lease. */
  private readonly held = new Map<number, Held>();
  /** By stream, the last page that was read: neighbors are mostly leased together. */
  private readonly pages = new Map<string, StreamPage>();
  private isSubscribed = false;
  private isLeaving = false;

  constructor(
    private readonly parts: QueueConsumerParts,
    private readonly asked: Subscribe,
    private readonly events: QueueEvents,
  ) {
    this.subscription = parts.agent.subscribe(asked, (effect) => this.perform(effect));
  }

  /** False if no such lease stands. */
  settle(lease: number, verdict: Settlement["verdict"], delayMs?: number): boolean {
    const held = this.held.get(lease);
    if (held === undefined || held.verdict !== undefined) return false;
    held.verdict = verdict;
    const { stream, position } = held.leased;
    this.subscription.settle([{ stream, position, lease, verdict, delayMs }]);
    return true;
  }

  extend(lease: number, leaseMs: number): boolean {
    const held = this.held.get(lease);
    if (held === undefined) return false;
    const { stream, position } = held.leased;
    this.subscription.extend([{ stream, position, lease, leaseMs }]);
    return true;
  }

  unsubscribe(): void {
    this.isLeaving = true;
    this.subscription.unsubscribe();
  }

  disconnect(): void {
    this.subscription.disconnect();
  }

  private perform(effect: SessionEffect): void {
    if (effect.kind === "connected") {
      if (!this.isSubscribed) this.events.subscribed();
      this.isSubscribed = true;
    } else if (effect.kind === "leased") void this.deliver(effect, effect.untilMs);
    else if (effect.kind === "gap") this.events.gap(effect.stream, effect.after, effect.through);
    else if (effect.kind === "settled") this.settled(effect.lease, effect.isGone);
    else if (effect.kind === "destroyed") {
      // No leader will answer for what this borrower has sent. The message may be delivered again.
      for (const { leased, verdict } of this.held.values()) if (verdict === "ack") this.events.expired(leased);
      this.held.clear();
      this.pages.clear();
      if (!effect.isRestart) this.events.unsubscribed();
    }
  }

  private settled(lease: number, isGone: boolean): void {
    const held = this.held.get(lease);
    this.held.delete(lease);
    if (held === undefined) return;
    if (isGone) this.events.expired(held.leased);
    else if (held.verdict === "ack") this.events.acked(held.leased);
  }

  private async deliver({ stream, position, lease, attempt }: Leased, untilMs: number): Promise<void> {
    const held: Held = { leased: { stream, position, lease, attempt }, verdict: undefined };
    this.held.set(lease, held);
    const found = await this.find(stream, position).catch(() => undefined);
    if (this.held.get(lease) !== held) return;
    const isLate = this.parts.world.monotonicMs() >= untilMs || !this.subscription.isHeld();
    if (found === "gone") this.forget(held.leased);
    // Given back: another attempt will read it.
    else if (found === undefined || isLate || this.isLeaving) this.settle(lease, "nack");
    else this.events.message(held.leased, found.contentType, found.message);
  }

  /** Retention or a failover has taken the message. It is acknowledged, because no attempt would find it. */
  private forget({ stream, position, lease }: Leased): void {
    this.held.delete(lease);
    this.subscription.settle([{ stream, position, lease, verdict: "ack" }]);
    this.events.gap(stream, { ...position, seq: position.seq - 1 }, position);
  }

  private async find(path: string, position: Position): Promise<Found> {
    const known = this.pages.get(path);
    const page =
      known !== undefined && indexOf(known, position) !== undefined ? known : await this.read(path, position);
    if (page === "gone" || page === undefined) return page;
    const index = indexOf(page, position);
    if (index === undefined) return undefined;
    return { contentType: page.meta.config.contentType, message: page.messages[index]! };
  }

  private async read(path: string, { generation, seq }: Position): Promise<StreamPage | "gone" | undefined> {
    const { streams, pageBytes } = this.parts;
    const page = await streams.peek(this.asked.group.project, path, { generation, seq: seq - 1 }, pageBytes);
    if (page.kind === "trimmed" || page.kind === "lost") return "gone";
    if (page.kind !== "page") return undefined;
    this.pages.set(path, page);
    return page;
  }
}

/** Numbers have no holes, so a message's place follows from its number. */
function indexOf({ messages }: StreamPage, { generation, seq }: Position): number | undefined {
  const first = messages[0]?.position.seq;
  if (first === undefined) return undefined;
  const found = messages[seq - first]?.position;
  return found?.seq === seq && found.generation === generation ? seq - first : undefined;
}
