/**
 * The pull connections of this node. A client manages topics and subscriptions over its WebSocket, opens streams, gets messages and
 * answers them. The routes open one per socket.
 *
 * Invariants: every frame with a `ref` gets one answer, `ok` or `error`. A malformed frame is answered, not fatal. Frames begin in their
 * order, and at most `openFrames` are open. While the socket is full, nothing is leased to its streams. When the connection ends, its
 * streams end; their messages stay leased.
 */
import type { Access } from "../core/action.ts";
import type { Audience } from "../core/audience.ts";
import type { Connection, Paced } from "../core/connection.ts";
import { type Conversation, Conversations } from "../core/conversations.ts";
import { badBody, checkedJson, parseFrame } from "../core/json-body.ts";
import { Refusal } from "../core/refusal.ts";
import type { Socket } from "../core/socket.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { problemOf } from "../engine/problem.ts";
import { answerTo } from "./answers.ts";
import type { FlowLimits, PullService, PullStream } from "./contract.ts";
import type { PullLimits } from "./defaults.ts";
import { deliveredOf, FRAMES, type Frame, frameOf, type Ref, type ServerFrame } from "./frames.ts";

export interface ConnectionParts {
  readonly engine: Pick<Engine, "now">;
  readonly world: World;
  readonly audience: Audience;
  readonly service: PullService;
  readonly limits: PullLimits;
  readonly report: (what: string, fault: unknown) => void;
}

export interface Caller {
  readonly project: string;
  readonly access: Access;
}

export class PullConnections {
  private readonly conversations: Conversations;

  constructor(private readonly parts: ConnectionParts) {
    this.conversations = new Conversations(parts);
  }

  get size(): number {
    return this.conversations.size;
  }

  /** `leave` runs once when the client has gone. */
  accept(caller: Caller, socket: Socket, leave: () => void): void {
    this.conversations.accept(caller.access, socket, leave, (connection) => {
      return new PullConnection(this.parts, caller, connection, socket);
    });
  }
}

/** Frames that wait for the store or for a message, and that no later frame builds on. */
const OVERLAPPING: ReadonlySet<Frame["type"]> = new Set(["publish", "pull", "ack", "nack", "extend"]);

interface OpenStream {
  readonly stream: PullStream;
  limits: FlowLimits;
  isPausedByClient: boolean;
}

class PullConnection implements Paced, Conversation {
  private readonly streams = new Map<string, OpenStream>();
  /** Names of streams that are being opened. */
  private readonly pending = new Set<string>();
  private isFull = false;
  private isOver = false;
  private openFrames = 0;
  /** There is room for another frame. */
  private room: () => void = () => {};

  constructor(
    private readonly parts: ConnectionParts,
    private readonly caller: Caller,
    private readonly connection: Connection,
    private readonly socket: Socket,
  ) {
    connection.add(this);
  }

  /** Its messages come from the dispatcher, within the limits of its streams. */
  async turn(): Promise<void> {}

  /** The connection has ended. */
  stop(): void {
    if (this.isOver) return;
    this.isOver = true;
    for (const { stream } of this.streams.values()) stream.close();
    this.streams.clear();
  }

  /**
   * Begins the work of a frame, after that of the frame before it. Resolves when the next one may come. A frame that waits for the
   * store or for a message holds up no other; a frame that creates or changes something does, so that a client may send what
   * builds on it at once.
   */
  async take(text: string): Promise<void> {
    const { isAlone, work } = this.begin(text);
    if (isAlone) return work;
    this.openFrames++;
    void work.then(() => {
      this.openFrames--;
      this.room();
    });
    if (this.openFrames < this.parts.limits.openFrames) return;
    await new Promise<void>((resolve) => {
      this.room = resolve;
    });
  }

  private begin(text: string): { readonly isAlone: boolean; readonly work: Promise<void> } {
    let ref: Ref;
    try {
      const value = (parseFrame(text) ?? {}) as JsonObject;
      ref = refOf(value);
      const frame = frameFrom(value);
      return { isAlone: !OVERLAPPING.has(frame.type), work: this.answer(ref, () => this.perform(frame)) };
    } catch (fault) {
      return { isAlone: true, work: this.answer(ref, () => Promise.reject(fault)) };
    }
  }

  private async answer(ref: Ref, perform: () => Promise<object>): Promise<void> {
    try {
      const result = await perform();
      if (ref !== undefined) this.send({ ...result, type: "ok", ref });
    } catch (fault) {
      const report = (unexpected: unknown) =>
        this.parts.report("a frame of a pull connection failed; the client got an error", unexpected);
      this.send({ type: "error", ref, ...problemOf(fault, report) });
    }
  }

  private async perform(frame: Frame): Promise<object> {
    const { project, access } = this.caller;
    switch (frame.type) {
      case "open":
        return this.openStream(frame);
      case "pause":
      case "resume":
        return this.setPaused(this.streamOf(frame.stream), frame.type === "pause");
      case "limits":
        return this.setLimits(frame);
      case "close": {
        const { stream } = this.streamOf(frame.stream);
        stream.close();
        this.streams.delete(frame.stream);
        return {};
      }
      default:
        return answerTo(this.parts.service, project, access, frame);
    }
  }

  private async openStream({ stream: id, subscription, type, ref, ...asked }: Frame<"open">): Promise<object> {
    const { service, limits } = this.parts;
    const { project, access } = this.caller;
    if (this.streams.has(id) || this.pending.has(id)) throw badBody(`stream ${JSON.stringify(id)} is in use`);
    if (this.streams.size + this.pending.size >= limits.streams) {
      throw new Refusal("too-many-subscriptions", `a connection may have ${limits.streams} streams; close one first`);
    }
    this.pending.add(id);
    let hasEnded = false;
    try {
      const { outstandingMessages, outstandingBytes } = limits;
      const limited = { maxMessages: outstandingMessages, maxBytes: outstandingBytes, ...asked };
      const stream = await service.open(
        project,
        subscription,
        limited,
        {
          deliver: (messages) => {
            this.send({ type: "messages", stream: id, messages: messages.map(deliveredOf) });
            this.holdWhileFull();
          },
          notice: (what) => this.send({ type: "notice", stream: id, what }),
          ended: (why) => {
            hasEnded = true;
            this.streams.delete(id);
            this.send({ type: "ended", stream: id, why });
          },
        },
        access,
      );
      if (this.isOver) stream.close();
      // It may have ended while it was being opened.
      else if (!hasEnded) this.streams.set(id, { stream, limits: flowOf(limited), isPausedByClient: false });
      if (this.isFull) stream.pause();
    } finally {
      this.pending.delete(id);
    }
    return {};
  }

  private setPaused(open: OpenStream, isPaused: boolean): object {
    open.isPausedByClient = isPaused;
    if (isPaused) open.stream.pause();
    else if (!this.isFull) open.stream.resume();
    return {};
  }

  private setLimits({ stream: id, type, ref, ackDeadlineMs, ...flow }: Frame<"limits">): object {
    const open = this.streamOf(id);
    if (ackDeadlineMs !== undefined) open.stream.setAckDeadline(ackDeadlineMs);
    // What the frame leaves out stays as it is.
    open.limits = { ...open.limits, ...flow };
    open.stream.setLimits(open.limits);
    return {};
  }

  /** Leases nothing to a client that does not read. */
  private holdWhileFull(): void {
    if (this.isFull || !this.connection.isLoaded) return;
    this.isFull = true;
    for (const { stream } of this.streams.values()) stream.pause();
    this.socket.onDrain(() => {
      this.isFull = false;
      for (const { stream, isPausedByClient } of this.streams.values()) if (!isPausedByClient) stream.resume();
    });
  }

  private streamOf(id: string): OpenStream {
    const found = this.streams.get(id);
    if (found === undefined) throw badBody(`stream ${JSON.stringify(id)} is not open on this connection`);
    return found;
  }

  private send(frame: ServerFrame): void {
    if (!this.isOver) this.connection.send(frameOf(frame));
  }
}

function flowOf({ maxMessages, maxBytes, allowsExcess }: FlowLimits): FlowLimits {
  return { maxMessages, maxBytes, allowsExcess };
}

type JsonObject = Readonly<Record<string, unknown>>;

function refOf({ ref }: JsonObject): Ref {
  return typeof ref === "string" || typeof ref === "number" ? ref : undefined;
}

function frameFrom({ type, ...rest }: JsonObject): Frame {
  if (typeof type !== "string" || !Object.hasOwn(FRAMES, type)) {
    throw badBody(`type must be one of ${Object.keys(FRAMES).join(", ")}`);
  }
  const known = type as keyof typeof FRAMES;
  return { type: known, ...checkedJson(FRAMES[known], rest) } as Frame;
}
