/**
 * One consume connection: subscribes the member, brings its messages, and settles them. The member opens one after another.
 *
 * Invariants: `end` is called once, with the reason. From then on every message of the connection is lost, and what settles
 * it rejects. A connection that is silent for longer than a live server ever is, is ended.
 */
import { SluiceError } from "../error.ts";
import { type SocketLike, TextSocket } from "../text-socket.ts";
import { Delivery, type Settler } from "./delivery.ts";
import { type ErrorFrame, frameIn, type ServerFrame, type StreamFrame } from "./frames.ts";
import { fenced, type Ledger, QueueLedger, ShareLedger } from "./ledger.ts";

/** A socket opens within this time, or is given up. */
const OPEN_MS = 10_000;
/** After this silence the line asks for a sign of life, and after three times as long it ends. */
const ASK_MS = 15_000;
const SILENCE_MS = 3 * ASK_MS;
/** The id of the subscription, and one that names none. */
const ID = "s";
const NONE = "-";
/** What the server refuses for good when it refuses a subscription. */
const FINAL = /^(bad-|forbidden|reserved-name|too-many-)/;

export interface Subscription {
  readonly topic: string;
  readonly from: string | number | undefined;
  readonly credit: number | undefined;
  readonly isQueue: boolean;
}

export interface LineListener<T> {
  subscribed(): void;
  messages(deliveries: readonly Delivery<T>[]): void;
  stream(frame: StreamFrame): void;
  gap(stream: string, after: string, through: string): void;
  /** Fewer messages are with the program, or fewer acknowledgements wait. */
  settled(): void;
  end(error: SluiceError): void;
}

export class Line<T> implements Settler {
  private readonly socket: TextSocket;
  private readonly ledger: Ledger;
  private readonly shared: ShareLedger | undefined;
  /** With the program, and not settled. */
  private readonly handedOut = new Set<Delivery<unknown>>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private heardMs = Date.now();
  private isOpen = false;
  isSubscribed = false;
  isOver = false;

  constructor(
    connect: () => SocketLike,
    private readonly subscription: Subscription,
    private readonly listener: LineListener<T>,
  ) {
    const send = (frame: object) => this.send(frame);
    this.shared = subscription.isQueue ? undefined : new ShareLedger(send);
    this.ledger = this.shared ?? new QueueLedger(send);
    this.socket = new TextSocket(connect, {
      opened: () => this.subscribe(),
      text: (text) => this.hear(text),
      end: (error) => this.end(error),
    });
    this.timer = setTimeout(this.watch, OPEN_MS);
  }

  /** Nothing is with the program, and no acknowledgement waits. */
  get isDrained(): boolean {
    return this.handedOut.size === 0 && !this.hasUnconfirmed;
  }

  get hasUnconfirmed(): boolean {
    return this.ledger.size > 0;
  }

  handOut(delivery: Delivery<T>): void {
    this.handedOut.add(delivery);
  }

  async ack(delivery: Delivery<unknown>): Promise<void> {
    if (this.isOver) throw fenced(delivery.stream);
    const { stream, offset } = delivery;
    for (const one of this.handedOut) {
      const isCovered = this.shared !== undefined && one.stream === stream && one.offset <= offset;
      if (one === delivery || isCovered) this.handedOut.delete(one);
    }
    try {
      await this.ledger.ack(delivery);
    } finally {
      this.listener.settled();
    }
  }

  nack(delivery: Delivery<unknown>, delayMs: number | undefined): void {
    const { stream, offset, lease } = delivery;
    this.handedOut.delete(delivery);
    this.send({ type: "nack", stream, offset, lease, delayMs });
    this.listener.settled();
  }

  extend({ stream, offset, lease }: Delivery<unknown>, leaseMs: number): void {
    this.send({ type: "extend", stream, offset, lease, leaseMs });
  }

  /** What was delivered and not handed out goes back, without counting as an attempt. */
  leave(): void {
    this.send({ type: "unsubscribe" });
    this.end(new SluiceError("closed", "the member has left the group"));
  }

  /** Ends the connection. */
  end(error: SluiceError): void {
    if (this.isOver) return;
    this.isOver = true;
    clearTimeout(this.timer);
    this.socket.close();
    this.handedOut.clear();
    this.ledger.lose(error);
    this.listener.end(error);
  }

  private send(frame: object): void {
    if (this.isOver || !this.isOpen) return;
    try {
      this.socket.send(JSON.stringify({ id: ID, ...frame }));
    } catch (error) {
      // The caller is in the middle of its own work.
      queueMicrotask(() => this.end(error as SluiceError));
    }
  }

  private subscribe(): void {
    const { topic, from, credit } = this.subscription;
    this.isOpen = true;
    this.heardMs = Date.now();
    this.send({ type: "subscribe", topic, from, credit, batch: true });
  }

  /** The pings of a server do not reach a page. It answers every frame, though, so one about no subscription asks for a word. */
  private readonly watch = (): void => {
    const silentMs = Date.now() - this.heardMs;
    if (!this.isOpen || silentMs >= SILENCE_MS) {
      this.end(new SluiceError("timeout", "the server is silent", { retryable: true }));
      return;
    }
    if (silentMs >= ASK_MS) this.send({ type: "unsubscribe", id: NONE });
    this.timer = setTimeout(this.watch, ASK_MS);
  };

  private hear(text: string): void {
    this.heardMs = Date.now();
    let frame: ServerFrame | undefined;
    try {
      frame = frameIn(text);
    } catch (cause) {
      this.end(new SluiceError("bad-answer", `the client does not understand the frames: ${cause}`, { cause }));
      return;
    }
    if (frame !== undefined) this.take(frame);
  }

  private take(frame: ServerFrame): void {
    switch (frame.type) {
      case "message":
        this.listener.messages([new Delivery<T>(frame, frame, this)]);
        return;
      case "messages":
        this.listener.messages(frame.messages.map((one) => new Delivery<T>(frame, one, this)));
        return;
      case "acked":
        this.ledger.acked(frame.stream, frame.offset);
        return;
      case "granted":
      case "revoking":
      case "revoked":
        this.takeStream(frame);
        return;
      case "gap":
        this.listener.gap(frame.stream, frame.after, frame.through);
        return;
      case "subscribed":
        this.isSubscribed = true;
        this.listener.subscribed();
        return;
      case "error":
        this.takeError(frame);
        return;
      case "bye": {
        const { code, reconnect, retryMs } = frame;
        const details = { retryable: reconnect, retryAfterMs: retryMs };
        this.end(new SluiceError(code, `the server has ended the connection: ${code}`, details));
        return;
      }
      case "unsubscribed":
        this.end(new SluiceError("closed", "the server has ended the subscription", { retryable: true }));
    }
  }

  private takeStream(frame: StreamFrame): void {
    const { stream, epoch, type } = frame;
    this.shared?.[type](stream, epoch);
    if (type !== "revoking") {
      for (const one of this.handedOut) if (one.stream === stream) this.handedOut.delete(one);
    }
    this.listener.stream(frame);
    this.listener.settled();
  }

  private takeError(frame: ErrorFrame): void {
    const { id, code, detail, stream } = frame;
    if (id === NONE) return;
    if (stream !== undefined) {
      for (const one of this.handedOut) {
        if (one.stream === stream && one.offset === frame.offset && one.lease === frame.lease)
          this.handedOut.delete(one);
      }
      this.ledger.refused(frame);
      this.listener.settled();
    } else if (!this.isSubscribed) this.end(new SluiceError(code, detail, { retryable: !FINAL.test(code) }));
  }
}
