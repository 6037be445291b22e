/**
 * Subscriptions that another node serves, as clients of this node use them: answers go there, and so do wishes for messages. The
 * other node tells leases only; this one reads the messages from the log. `consuming.ts` asks it.
 *
 * Invariants: a request is sent again until it is answered or given up. Batches of leases are taken in their order, each once. A
 * stream whose other node is silent ends, so that its client connects anew and another node may serve it.
 */
import { Refusal } from "../core/refusal.ts";
import type { Cancel, World } from "../core/world.ts";
import type { Entity } from "../engine/contract.ts";
import type { Streams } from "../streams/service.ts";
import { parseAckId } from "./ack-id.ts";
import {
  type Ask,
  cut,
  type PullCarrier,
  type Reply,
  type ReplyEnvelope,
  type StreamEnvelope,
  type ToldLease,
} from "./carrier.ts";
import type { AckOutcome, Delivery, PullStream, StreamEnd, StreamEvents, StreamOptions } from "./contract.ts";
import { deliveryOf } from "./message.ts";
import { logPaths, type TopicRef } from "./state.ts";

export interface RemoteParts {
  readonly world: World;
  readonly carrier: PullCarrier;
  readonly streams: Streams;
  readonly limits: { readonly resendMs: number; readonly silentMs: number };
}

interface Waiting {
  readonly resolve: (reply: Reply | undefined) => void;
  readonly cancel: Cancel;
}

export class RemoteSubscriptions {
  private readonly asks = new Map<string, Waiting>();
  private readonly open = new Map<string, RemoteStream>();
  private count = 0;
  private isStopped = false;

  constructor(private readonly parts: RemoteParts) {}

  replied({ re, reply }: ReplyEnvelope): void {
    const waiting = this.asks.get(re);
    if (waiting === undefined) return;
    this.asks.delete(re);
    waiting.cancel();
    waiting.resolve(reply);
  }

  told(envelope: StreamEnvelope): void {
    this.open.get(envelope.to)?.told(envelope);
  }

  /** Asks the node that serves the subscription. Throws a Refusal if it does not answer, or does not serve it any more. */
  async ask(node: string, puller: Entity, what: Ask): Promise<Reply> {
    const reply = await this.replyOf(node, puller, what);
    if (reply === undefined || reply.type === "elsewhere") throw moved(puller);
    return reply;
  }

  /** The number of messages that a node has leased; null if it does not answer. */
  async pending(node: string, puller: Entity): Promise<number | null> {
    const reply = await this.replyOf(node, puller, { type: "count" });
    if (reply === undefined) return null;
    return reply.type === "count" ? reply.outstanding : 0;
  }

  /** Undefined if the node does not answer. */
  private async replyOf(node: string, puller: Entity, what: Ask): Promise<Reply | undefined> {
    if (this.isStopped) return undefined;
    const { carrier, world, limits } = this.parts;
    const ask = `${carrier.node} ${++this.count}`;
    const untilMs = world.monotonicMs() + limits.silentMs;
    return new Promise((resolve) => {
      const send = () => {
        if (world.monotonicMs() >= untilMs) {
          this.asks.delete(ask);
          return resolve(undefined);
        }
        this.asks.set(ask, { resolve, cancel: world.after(limits.resendMs, send) });
        carrier.send(node, { pull: 1, ask, from: carrier.node, puller: puller.key, what });
      };
      send();
    });
  }

  async answer(
    node: string,
    puller: Entity,
    ids: readonly string[],
    what: (ids: readonly string[]) => Ask,
  ): Promise<AckOutcome[]> {
    const replies = await Promise.all([...cut(ids)].map((part) => this.ask(node, puller, what(part))));
    return replies.flatMap((reply) => (reply.type === "outcomes" ? reply.outcomes : []));
  }

  async stream(
    node: string,
    puller: Entity,
    topic: TopicRef,
    asked: StreamOptions,
    events: StreamEvents,
  ): Promise<PullStream> {
    const id = `${this.parts.carrier.node} ${++this.count}`;
    const of = { id, node, puller, topic };
    const stream = new RemoteStream(this.parts, this, of, asked, events, () => this.open.delete(id));
    this.open.set(id, stream);
    try {
      await stream.begin();
    } catch (fault) {
      stream.close();
      throw fault;
    }
    return stream;
  }

  /** What is not answered yet is given up, so that no caller waits for a node that has stopped. */
  stop(): void {
    this.isStopped = true;
    for (const { cancel, resolve } of this.asks.values()) {
      cancel();
      resolve(undefined);
    }
    this.asks.clear();
    for (const stream of [...this.open.values()]) stream.end("draining");
  }
}

function moved(puller: Entity): Refusal {
  return new Refusal("unavailable", `the subscription ${puller.id} moves to another node; retry`);
}

interface StreamOf {
  readonly id: string;
  readonly node: string;
  readonly puller: Entity;
  readonly topic: TopicRef;
}

class RemoteStream implements PullStream {
  private seen = 0;
  private version = 0;
  private isPaused = false;
  private isOver = false;
  private timer: Cancel | undefined;
  /** Batches that the client got. */
  private delivered = 0;
  private opened = () => {};
  /** Nothing is delivered before the caller has its stream, because it could not close it. */
  private delivering = new Promise<void>((resolve) => {
    this.opened = resolve;
  });

  constructor(
    private readonly parts: RemoteParts,
    private readonly remote: RemoteSubscriptions,
    private readonly of: StreamOf,
    private asked: StreamOptions,
    private readonly events: StreamEvents,
    private readonly left: () => void,
  ) {}

  async begin(): Promise<void> {
    this.version++;
    await this.say();
    this.parts.world.soon(this.opened);
    this.refreshLater();
  }

  private say(): Promise<Reply> {
    const { id: stream, node, puller } = this.of;
    const { version, asked, isPaused, seen } = this;
    return this.remote.ask(node, puller, { type: "open", stream, version, asked, isPaused, seen });
  }

  private refreshLater(): void {
    const { world, limits } = this.parts;
    if (this.isOver) return;
    this.timer = world.after(limits.resendMs, () => {
      this.say().then(
        () => this.refreshLater(),
        () => this.end("moved"),
      );
    });
  }

  private changed(): void {
    this.version++;
    if (!this.isOver) this.say().catch(() => this.end("moved"));
  }

  told(envelope: StreamEnvelope): void {
    if ("ended" in envelope) this.end(envelope.ended);
    else if ("notice" in envelope) this.events.notice?.(envelope.notice);
    else if ("idleAfter" in envelope) this.idle(envelope.idleAfter);
    else if (envelope.batch === this.seen + 1) {
      this.seen++;
      const { leases } = envelope;
      this.delivering = this.delivering.then(() => this.deliver(leases));
    }
  }

  /** The other node had nothing after this batch. */
  private idle(batch: number): void {
    if (batch !== this.seen) return;
    this.delivering = this.delivering.then(() => {
      if (!this.isOver && batch === this.seen) this.events.idle?.();
    });
  }

  /** A message that cannot be read is not delivered; its lease expires, and the other node looks again. */
  private async deliver(leases: readonly ToldLease[]): Promise<void> {
    const found: Delivery[] = [];
    for (const lease of leases) {
      const delivery = await this.read(lease).catch(() => undefined);
      if (delivery !== undefined) found.push(delivery);
    }
    if (this.isOver) return;
    this.delivered++;
    if (found.length > 0) this.events.deliver(found);
  }

  private async read({ ackId, attempt, deadlineAt }: ToldLease): Promise<Delivery | undefined> {
    const id = parseAckId(ackId);
    if (id === undefined) return undefined;
    const { puller, topic } = this.of;
    const path = logPaths(topic)[id.log];
    const before = { generation: id.generation, seq: id.seq - 1 };
    const page = path === undefined ? undefined : await this.parts.streams.peek(puller.project, path, before, 1);
    const message = page?.kind === "page" ? page.messages[0] : undefined;
    if (message === undefined || message.position.seq !== id.seq) return undefined;
    const lease = { seq: id.seq, number: id.lease, holder: "", attempt, untilMs: deadlineAt };
    return deliveryOf(message, { lease, edition: id.edition, log: id.log, isSharded: topic.shards !== undefined });
  }

  pause(): void {
    this.isPaused = true;
    this.changed();
  }

  resume(): void {
    this.isPaused = false;
    this.changed();
  }

  setAckDeadline(ackDeadlineMs: number): void {
    this.asked = { ...this.asked, ackDeadlineMs };
    this.changed();
  }

  setLimits(limits: StreamOptions): void {
    this.asked = { ...this.asked, ...limits };
    this.changed();
  }

  close(): void {
    if (this.isOver) return;
    this.over();
    const { id: stream, node, puller } = this.of;
    // If it does not arrive, the silence of this node closes the stream.
    this.remote.ask(node, puller, { type: "close", stream, delivered: this.delivered }).catch(() => {});
  }

  end(why: StreamEnd): void {
    if (this.isOver) return;
    this.over();
    this.events.ended(why);
  }

  private over(): void {
    this.isOver = true;
    this.timer?.();
    this.left();
  }
}
