/**
 * The consume connections of this node. A client subscribes to groups over its WebSocket, gets messages and acknowledges them. The
 * routes open one per socket.
 *
 * Invariants: frames of a client are taken in their order, one at a time. A malformed frame is answered, not fatal. When the
 * connection ends, for whatever reason, all of its subscriptions disconnect, so that other members take over at once.
 */
import { formatOffset, type Position, parseOffset } from "@sluice/protocol";
import type { Access } from "../core/action.ts";
import type { Audience } from "../core/audience.ts";
import { concat } from "../core/bytes.ts";
import type { Connection, Paced } from "../core/connection.ts";
import { type Conversation, Conversations } from "../core/conversations.ts";
import { badBody, checkedJson, parseFrame } from "../core/json-body.ts";
import { Refusal } from "../core/refusal.ts";
import type { Socket } from "../core/socket.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { problemOf } from "../engine/problem.ts";
import type { Consumer, ConsumerEvents } from "./consumer.ts";
import type { GroupLimits } from "./defaults.ts";
import {
  type ClientFrame,
  type ErrorFrame,
  FRAMES,
  frameOf,
  messageFrame,
  messagesFrame,
  type ServerFrame,
} from "./frames.ts";
import { QueueConsumer, type QueueEvents } from "./queue-consumer.ts";
import type { Groups } from "./service.ts";
import { parseTopic } from "./topic.ts";

export interface ConsumeParts {
  readonly engine: Pick<Engine, "now">;
  readonly world: World;
  readonly audience: Audience;
  readonly groups: Groups;
  readonly limits: GroupLimits;
  readonly report: (what: string, fault: unknown) => void;
}

/** A client that is let in. */
export interface Caller {
  readonly project: string;
  readonly member: string;
  readonly access: Access;
}

export class ConsumeConnections {
  private readonly conversations: Conversations;

  constructor(private readonly parts: ConsumeParts) {
    this.conversations = new Conversations(parts);
  }

  get size(): number {
    return this.conversations.size;
  }

  /** `leave` runs once when the client has gone. */
  accept(caller: Caller, socket: Socket, leave: () => void): void {
    this.conversations.accept(caller.access, socket, leave, (connection) => {
      return new ConsumeConnection(this.parts, caller, connection);
    });
  }
}

class ConsumeConnection implements Paced, Conversation {
  private readonly consumers = new Map<string, Consumer | QueueConsumer>();
  /** Ids whose subscription is being made. */
  private readonly pending = new Set<string>();
  private readonly unwritten: Uint8Array[] = [];
  private isOver = false;

  constructor(
    private readonly parts: ConsumeParts,
    private readonly caller: Caller,
    private readonly connection: Connection,
  ) {
    connection.add(this);
  }

  /** Its messages come from the consumers, within their credit. */
  async turn(): Promise<void> {}

  /** The connection has ended. */
  stop(): void {
    if (this.isOver) return;
    this.isOver = true;
    for (const consumer of [...this.consumers.values()]) consumer.disconnect();
    this.consumers.clear();
  }

  async take(text: string): Promise<void> {
    let about: AboutFrame = {};
    try {
      const frame = parsed(text);
      about = aboutOf(frame);
      if (frame.type === "subscribe") await this.subscribe(frame);
      else if (frame.type === "ack") this.ack(frame);
      else if (frame.type === "nack") this.settle(frame.id, frame.lease, "nack", frame.delayMs);
      else if (frame.type === "extend") this.extend(frame);
      else this.consumerOf(frame.id).unsubscribe();
    } catch (fault) {
      const report = (unexpected: unknown) =>
        this.parts.report("a frame of a consumer failed; the client got an error", unexpected);
      this.send({ type: "error", ...about, ...problemOf(fault, report) });
    }
  }

  private async subscribe({ id, topic, from, credit, batch }: ClientFrame & { type: "subscribe" }): Promise<void> {
    const { groups, limits } = this.parts;
    const { project, member, access } = this.caller;
    const name = parseTopic(topic);
    if (this.consumers.has(id) || this.pending.has(id)) throw badBody(`id ${JSON.stringify(id)} is in use`);
    if (this.consumers.size + this.pending.size >= limits.subscriptions) {
      throw new Refusal(
        "too-many-subscriptions",
        `a connection may have ${limits.subscriptions} subscriptions; unsubscribe one first`,
      );
    }
    this.pending.add(id);
    try {
      const asked = { name, member, start: from, credit };
      const consumer =
        name.mode === "queue"
          ? await groups.work(project, asked, access, this.queueEventsOf(id))
          : await groups.consume(project, asked, access, this.eventsOf(id, batch));
      if (this.isOver) consumer.disconnect();
      else this.consumers.set(id, consumer);
    } finally {
      this.pending.delete(id);
    }
  }

  private eventsOf(id: string, isBatched = false): ConsumerEvents {
    return {
      subscribed: () => this.send({ type: "subscribed", id }),
      granted: (stream, epoch) => this.send({ type: "granted", id, stream, epoch }),
      revoking: (stream, epoch) => this.send({ type: "revoking", id, stream, epoch }),
      revoked: (stream, epoch) => this.send({ type: "revoked", id, stream, epoch }),
      messages: (stream, epoch, contentType, run) => {
        const of = { id, stream, epoch };
        if (isBatched && run.length > 1) this.write(messagesFrame(of, contentType, run));
        else for (const message of run) this.write(messageFrame(of, contentType, message));
      },
      acked: (stream, position) => this.send({ type: "acked", id, stream, offset: formatOffset(position) }),
      gap: (stream, after, through) => this.tellGap(id, stream, after, through),
      unsubscribed: () => {
        this.consumers.delete(id);
        this.send({ type: "unsubscribed", id });
      },
    };
  }

  private queueEventsOf(id: string): QueueEvents {
    return {
      subscribed: () => this.send({ type: "subscribed", id }),
      message: ({ stream, lease, attempt }, contentType, message) =>
        this.write(messageFrame({ id, stream, lease, attempt }, contentType, message)),
      acked: ({ stream, position }) => this.send({ type: "acked", id, stream, offset: formatOffset(position) }),
      expired: ({ stream, position, lease }) => {
        const offset = formatOffset(position);
        const detail = `the lease of ${offset} of ${stream} was over; it will be delivered again`;
        this.send({ type: "error", id, stream, offset, lease, code: "fenced", detail });
      },
      gap: (stream, after, through) => this.tellGap(id, stream, after, through),
      unsubscribed: () => {
        this.consumers.delete(id);
        this.send({ type: "unsubscribed", id });
      },
    };
  }

  private tellGap(id: string, stream: string, after: Position, through: Position): void {
    this.send({ type: "gap", id, stream, after: formatOffset(after), through: formatOffset(through) });
  }

  private ack({ id, stream, offset, epoch, lease }: ClientFrame & { type: "ack" }): void {
    const consumer = this.consumerOf(id);
    if (consumer instanceof QueueConsumer) {
      this.settle(id, lease, "ack");
      return;
    }
    const position = parseOffset(offset);
    if (position === undefined) throw new Refusal("bad-offset", "offset must be the offset of a delivered message");
    const outcome = consumer.ack(stream, epoch ?? 0, position);
    if (outcome === "ahead") throw new Refusal("offset-ahead", `no such message of ${stream} was delivered yet`);
    // A stream that was taken away meanwhile: another member processes the message, and this one has been told.
    if (outcome === "unknown")
      throw new Refusal("fenced", `${stream} is not granted in epoch ${epoch}; another member may have it`);
  }

  private settle(id: string, lease: number | undefined, verdict: "ack" | "nack", delayMs?: number): void {
    const isSettled = lease !== undefined && this.queueOf(id).settle(lease, verdict, delayMs);
    if (!isSettled)
      throw new Refusal("fenced", `lease ${lease} is over, or was settled before; another member may have the message`);
  }

  private extend({ id, lease, leaseMs }: ClientFrame & { type: "extend" }): void {
    if (!this.queueOf(id).extend(lease, leaseMs))
      throw new Refusal("fenced", `lease ${lease} is over; another member may have the message`);
  }

  private queueOf(id: string): QueueConsumer {
    const consumer = this.consumerOf(id);
    if (consumer instanceof QueueConsumer) return consumer;
    throw badBody("only messages of a $queue have leases");
  }

  private consumerOf(id: string): Consumer | QueueConsumer {
    const consumer = this.consumers.get(id);
    if (consumer === undefined) throw badBody(`id ${JSON.stringify(id)} names no subscription of this connection`);
    return consumer;
  }

  private send(frame: ServerFrame): void {
    this.write(frameOf(frame));
  }

  /** The frames of one turn leave in one write, because a write costs more than a small frame. */
  private write(frame: Uint8Array): void {
    if (this.unwritten.length === 0) this.parts.world.soon(() => this.flush());
    this.unwritten.push(frame);
  }

  private flush(): void {
    const frames = this.unwritten.splice(0);
    this.connection.send(frames.length === 1 ? frames[0]! : concat(frames));
  }
}

/** What an error names, so that the client knows which of its frames is answered. */
type AboutFrame = Pick<ErrorFrame, "id" | "stream" | "offset" | "epoch" | "lease">;

function aboutOf(frame: ClientFrame): AboutFrame {
  if (!("offset" in frame)) return { id: frame.id };
  const { id, stream, offset, lease } = frame;
  return { id, stream, offset, lease, ...("epoch" in frame && { epoch: frame.epoch }) };
}

function parsed(text: string): ClientFrame {
  const { type, ...rest } = (parseFrame(text) ?? {}) as { readonly type?: unknown };
  if (typeof type !== "string" || !Object.hasOwn(FRAMES, type)) {
    throw badBody(`type must be one of ${Object.keys(FRAMES).join(", ")}`);
  }
  const known = type as keyof typeof FRAMES;
  return { type: known, ...checkedJson(FRAMES[known], rest) } as ClientFrame;
}
