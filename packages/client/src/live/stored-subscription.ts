/**
 * The subscription to one stream as the server stores it: asked for, asked for again, resumed when the server has parked it,
 * removed when the page no longer wants it. Each followed stream has one.
 *
 * Invariants: one request is under way at a time, and the next one waits for its answer, so that a late request never undoes a
 * later one. Requests are sent only while the session is connected.
 */
import type { RetryPolicy } from "../backoff.ts";
import { badAnswer, type SluiceError } from "../error.ts";
import { isFinal } from "./catch-up.ts";
import { Delays } from "./delays.ts";
import { type Ask, jsonIn, postOf } from "./identity.ts";
import type { Report } from "./listeners.ts";
import type { Cancel, LiveWorld } from "./world.ts";

/** A subscription outlives the page's wish by this time, because a page may subscribe again at once. */
const LINGER_MS = 1_000;
/** A parked subscription is resumed after this time and as much again by chance, so that tabs do not park each other in turns. */
const IDLE_MS = 1_000;

/** What every request of a session needs. */
export interface SessionPort {
  readonly world: LiveWorld;
  readonly policy: RetryPolicy;
  readonly report: Report;
  readonly ask: Ask;
  sessionId(): string | undefined;
  /** Whether a connection is open, after its `hello`. */
  isConnected(): boolean;
  /** The session is over. */
  sessionLost(sessionId: string): void;
}

/** The page's side of the subscription. */
export interface Wish {
  isWanted(): boolean;
  /** Fields of the request beside session and stream. */
  more(): object;
  /** A request is about to be sent. Pushes may come before its answer. */
  asking(): void;
  /** `isNew`: pushes follow from another place than before. */
  stored(offset: string, isNew: boolean): void;
  refused(error: SluiceError): void;
  /** Nothing is wanted or stored any more. */
  over(): void;
}

interface Pointer {
  readonly epoch: number;
  readonly offset: string;
}

export class StoredSubscription {
  /** Undefined when no subscription is known to be stored. */
  epoch: number | undefined;
  /** Requests asked for, and the last one of them that is answered. */
  private asks = 0;
  private answered = 0;
  /** The subscription to remove, by its epoch. */
  private leaving: number | undefined;
  /** The server pushes the stream no more until the session subscribes again. */
  private isParked = false;
  /** An `idle` that came before the answer to its subscription. */
  private earlyIdle: number | undefined;
  private isWorking = false;
  private cancelLinger: Cancel | undefined;
  private cancelIdle: Cancel | undefined;
  private readonly delays: Delays;

  constructor(
    private readonly stream: string,
    private readonly port: SessionPort,
    private readonly wish: Wish,
  ) {
    this.delays = new Delays(port.world, port.policy);
  }

  /** Whether every request is answered. */
  get isSettled(): boolean {
    return this.answered === this.asks;
  }

  /** The page wants the subscription, or wants it otherwise than before; or wants it no more. */
  ask(): void {
    if (!this.wish.isWanted()) {
      this.linger();
      return;
    }
    this.asks++;
    this.keep();
  }

  /** The page wants the subscription that is stored or asked for. */
  keep(): void {
    this.cancelLinger?.();
    this.cancelLinger = undefined;
    void this.work();
  }

  /** The page may subscribe again at once; if it does not, the subscription is removed. */
  linger(): void {
    this.cancelLinger ??= this.port.world.after(LINGER_MS, () => {
      this.cancelLinger = undefined;
      if (this.wish.isWanted()) return;
      this.leaving = this.epoch;
      this.epoch = undefined;
      void this.work();
    });
  }

  /** Removes a subscription that an earlier page has left. */
  leaveStray(epoch: number): void {
    if (this.wish.isWanted() || this.epoch !== undefined) return;
    this.leaving = epoch;
    void this.work();
  }

  hello(): void {
    this.isParked = false;
    this.earlyIdle = undefined;
    this.cancelIdle?.();
    this.delays.restart();
    void this.work();
  }

  idle(epoch: number): void {
    if (epoch === this.epoch) this.park();
    else this.earlyIdle = epoch;
  }

  /** `stored` is what the server has, `known` what this session had when it asked. */
  compare(stored: number | undefined, known: number | undefined): void {
    if (known === undefined || this.epoch !== known || stored === known) return;
    this.epoch = undefined;
    this.ask();
  }

  /** The session is another one, and has no subscriptions. */
  forget(): void {
    this.epoch = undefined;
    this.leaving = undefined;
    if (this.wish.isWanted()) this.ask();
    else this.wish.over();
  }

  stop(): void {
    this.cancelLinger?.();
    this.cancelIdle?.();
    this.delays.hurry();
  }

  private park(): void {
    this.isParked = true;
    this.cancelIdle?.();
    this.cancelIdle = this.port.world.after(IDLE_MS * (1 + this.port.world.random()), () => this.ask());
  }

  private get hasWork(): boolean {
    return this.leaving !== undefined || (this.wish.isWanted() && !this.isSettled);
  }

  private async work(): Promise<void> {
    if (this.isWorking) return;
    this.isWorking = true;
    while (this.hasWork && this.port.isConnected()) {
      const sessionId = this.port.sessionId();
      if (sessionId === undefined) break;
      try {
        if (this.leaving !== undefined) await this.leave(sessionId, this.leaving);
        else await this.subscribe(sessionId);
        this.delays.reset();
      } catch (error) {
        await this.failed(sessionId, error as SluiceError);
      }
    }
    this.isWorking = false;
    if (this.wish.isWanted() || this.leaving !== undefined) return;
    if (this.epoch === undefined) this.wish.over();
    else this.linger();
  }

  /** Insists on an answer, because a removal that comes late would end the next subscription if that had the same epoch. */
  private async leave(sessionId: string, epoch: number): Promise<void> {
    const body = { sessionId, streamId: this.stream, epoch };
    await this.port.ask(postOf("subscriptions", body, "DELETE"));
    if (this.leaving === epoch) this.leaving = undefined;
  }

  private async subscribe(sessionId: string): Promise<void> {
    const number = this.asks;
    const wasParked = this.isParked;
    // An `idle` from now on is about the subscription as this request leaves it.
    this.isParked = false;
    this.wish.asking();
    try {
      const pointer = await this.request(sessionId);
      // Otherwise the answer is about a session that is over.
      if (this.port.sessionId() === sessionId) this.take(pointer, number, wasParked);
    } catch (error) {
      this.isParked ||= wasParked;
      throw error;
    }
  }

  private async request(sessionId: string): Promise<Pointer> {
    const body = { sessionId, streamId: this.stream, ...this.wish.more() };
    const { at, status, text } = await this.port.ask(postOf("subscriptions", body));
    const pointer = jsonIn(text) as Pointer | undefined;
    if (typeof pointer?.offset === "string" && typeof pointer.epoch === "number") return pointer;
    throw badAnswer(at, status, "the answer is not that of a subscription");
  }

  private take({ epoch, offset }: Pointer, number: number, wasParked: boolean): void {
    const isNew = epoch !== this.epoch || wasParked;
    this.epoch = epoch;
    this.answered = number;
    if (this.earlyIdle === epoch) this.park();
    this.earlyIdle = undefined;
    this.wish.stored(offset, isNew);
  }

  private async failed(sessionId: string, error: SluiceError): Promise<void> {
    if (error.code === "session-not-found") this.port.sessionLost(sessionId);
    else if (isFinal(error)) {
      if (this.leaving !== undefined) this.leaving = undefined;
      else {
        this.answered = this.asks;
        this.epoch = undefined;
        this.wish.refused(error);
      }
    } else if (this.port.isConnected()) {
      if (!error.retryable) this.port.report(error);
      await this.delays.wait(this.delays.next(error.retryAfterMs));
    }
  }
}
