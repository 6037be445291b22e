/**
 * One handler of a stream: where it stands, and what it gets next. It reads what it has missed, holds back pushes meanwhile, and
 * drops what it has seen. Each call of `subscribe` makes one.
 *
 * Invariants: the handler gets every message after its start once and in order, or is told of a gap. `position` is the offset of
 * the last message that the handler has finished. Held pushes are bounded: beyond the bound they are dropped and read again.
 */
import { BEGINNING, NOW } from "@sluice/protocol";
import type { SluiceError } from "../error.ts";
import { bytesOf, type StreamMessage } from "../message.ts";
import type { Gap } from "../read-options.ts";
import { type CatchUpPage, isFinal, isGone } from "./catch-up.ts";
import { Delays } from "./delays.ts";
import type { DataEvent, StreamEvent } from "./events.ts";
import { callUser } from "./listeners.ts";
import type { SessionPort } from "./stored-subscription.ts";

const MAX_HELD = 1_000;
const MAX_HELD_CHARS = 1024 * 1024;

/** `closed`: no message will follow. `gone`: the stream was deleted. `refused`: the server does not let the session follow it. */
export interface SubscriptionEnd {
  readonly reason: "closed" | "gone" | "refused";
  readonly error?: SluiceError | undefined;
}

/** How a catch-up went. */
export interface CatchUp {
  readonly outcome: "complete" | "gap";
  /** Where the handler stands. */
  readonly offset: string;
  /** The ranges that are lost; empty if the catch-up is complete. */
  readonly gaps: readonly Gap[];
}

export interface CursorUser<T> {
  /** The message counts as processed when this returns, or when the promise that it returns settles. */
  message(message: StreamMessage<T>): unknown;
  gap(gap: Gap): unknown;
  caughtUp(how: CatchUp): unknown;
  ended(end: SubscriptionEnd): unknown;
}

export interface CursorParts extends Pick<SessionPort, "world" | "policy" | "report"> {
  readonly stream: string;
  /** The epoch of the stored subscription. */
  epoch(): number | undefined;
  /** Reads a page after this position; rejects with a SluiceError. */
  read(position: string): Promise<CatchUpPage>;
  /** What the session derives from its cursors has changed. */
  changed(): void;
  ended(end: SubscriptionEnd): void;
}

interface Held {
  readonly event: StreamEvent;
  readonly chars: number;
}

export class Cursor {
  position: string | undefined;
  private held: Held[] = [];
  private heldChars = 0;
  /** Catch-ups asked for, and the last one of them that a read has satisfied which began after it. */
  private wanted = 0;
  private done = 0;
  /** The last read has found the end of a closed stream. */
  private isAtEnd = false;
  /** Whether the end of the next catch-up is told. */
  private tells = true;
  private gaps: Gap[] = [];
  /** A request for the subscription is not answered, so the cursor does not know what the pushes follow. */
  private isBlocked = true;
  private isPumping = false;
  private isOver = false;
  private readonly delays: Delays;

  constructor(
    private readonly parts: CursorParts,
    private readonly user: CursorUser<unknown>,
    /** Where the caller wants to start, instead of where the session stopped. */
    private readonly from: string | undefined,
  ) {
    this.delays = new Delays(parts.world, parts.policy);
    this.position = from;
  }

  get isCaughtUp(): boolean {
    return !this.isBlocked && this.done === this.wanted;
  }

  /** Whether the server has answered, so that the stream exists or did. */
  get hasStarted(): boolean {
    return this.position !== this.from;
  }

  /** The position as the server may store it. */
  get processed(): string | undefined {
    return this.position === BEGINNING || this.position === NOW ? undefined : this.position;
  }

  /** Holds back pushes until the subscription is answered. */
  block(): void {
    this.isBlocked = true;
  }

  /** The subscription is stored, with its pointer at this offset. `isNew`: what came before must be read. */
  answered(offset: string, isNew: boolean): void {
    const isFirst = this.position === undefined;
    this.position ??= offset;
    this.isBlocked = false;
    if (isNew || isFirst || this.wanted === 0) this.behind();
    else {
      this.settle();
      void this.pump();
    }
  }

  /** Messages may be missing up to now: a read that begins after this call finds them. */
  behind(tells = true): void {
    this.wanted++;
    this.tells ||= tells;
    this.delays.restart();
    this.parts.changed();
    void this.pump();
  }

  /** The connection is lost, and the next one begins with a catch-up. */
  lost(): void {
    this.drop();
  }

  push(event: StreamEvent, chars: number): void {
    if (this.isOver) return;
    this.held.push({ event, chars });
    this.heldChars += chars;
    if (this.held.length > MAX_HELD || this.heldChars > MAX_HELD_CHARS) {
      const ends = this.held.filter(({ event: { type } }) => type === "closed" || type === "gone");
      this.drop();
      this.held = ends.slice(-MAX_HELD);
      this.behind();
    } else void this.pump();
  }

  /** Ends without a word to the user. */
  stop(): void {
    this.isOver = true;
    this.drop();
    this.delays.hurry();
  }

  end(end: SubscriptionEnd): void {
    if (this.isOver) return;
    this.stop();
    this.parts.ended(end);
    void this.tell("onEnd", () => this.user.ended(end));
  }

  private drop(): void {
    this.held = [];
    this.heldChars = 0;
  }

  private async pump(): Promise<void> {
    if (this.isPumping) return;
    this.isPumping = true;
    while (!this.isOver && !this.isBlocked) {
      if (this.done < this.wanted) await this.readPage();
      else {
        const next = this.held.shift();
        if (next === undefined) break;
        this.heldChars -= next.chars;
        const working = this.take(next.event);
        if (working !== undefined) await working;
      }
    }
    this.isPumping = false;
  }

  private take(event: StreamEvent): Promise<unknown> | undefined {
    if (event.type === "data") return this.process(event.offset, () => messageOf(event));
    if (event.type === "notify") {
      if (event.offset > this.position!) this.behind(false);
    } else if (event.type !== "idle" && event.epoch === this.parts.epoch()) this.end({ reason: event.type });
    return undefined;
  }

  /** The position moves when the user's handler has finished, and not before. */
  private process(offset: string, message: () => StreamMessage<unknown>): Promise<unknown> | undefined {
    if (this.position !== NOW && offset <= this.position!) return undefined;
    const moved = () => {
      this.position = offset;
    };
    const working = this.tell(`the handler of ${this.parts.stream}`, () => this.user.message(message()), offset);
    if (working !== undefined) return working.then(moved);
    moved();
    return undefined;
  }

  private async readPage(): Promise<void> {
    const asked = this.wanted;
    const from = this.position!;
    let page: CatchUpPage;
    try {
      page = await this.parts.read(from);
    } catch (error) {
      if (!this.isOver) await this.failed(error as SluiceError);
      return;
    }
    if (page.kind === "gap") return this.lostRange(page.gap);
    for (const message of page.messages) {
      if (this.isOver) return;
      const working = this.process(message.offset, () => message);
      if (working !== undefined) await working;
    }
    if (this.isOver) return;
    if (from === NOW || page.next > this.position!) this.position = page.next;
    if (page.isUpToDate) this.reached(asked, page.isClosed);
    else if (page.next === from) await this.delays.wait(this.delays.next());
    else this.delays.reset();
  }

  private reached(asked: number, isClosed: boolean): void {
    this.delays.reset();
    this.done = asked;
    this.isAtEnd = isClosed;
    this.settle();
  }

  /** Tells how the catch-up went, once it is over and no request is unanswered. */
  private settle(): void {
    if (!this.isCaughtUp) return;
    if (this.tells) {
      const { gaps } = this;
      this.gaps = [];
      this.tells = false;
      const how: CatchUp = { outcome: gaps.length > 0 ? "gap" : "complete", offset: this.position!, gaps };
      void this.tell("onCatchUp", () => this.user.caughtUp(how));
    }
    this.parts.changed();
    if (this.isAtEnd) this.end({ reason: "closed" });
  }

  private lostRange(gap: Gap): void {
    if (this.isOver) return;
    this.position = gap.to;
    this.tells = true;
    this.gaps.push(gap);
    void this.tell("onGap", () => this.user.gap(gap));
  }

  private async failed(error: SluiceError): Promise<void> {
    if (isGone(error)) this.end({ reason: "gone" });
    else if (isFinal(error)) {
      this.parts.report(error);
      this.end({ reason: "refused", error });
    } else {
      if (!error.retryable) this.parts.report(error);
      await this.delays.wait(this.delays.next(error.retryAfterMs));
    }
  }

  private tell(what: string, run: () => unknown, offset?: string): Promise<unknown> | undefined {
    return callUser(this.parts.report, what, run, offset);
  }
}

function messageOf({ offset, payload, encoding }: DataEvent): StreamMessage<unknown> {
  const value = encoding === "base64" ? bytesOf(payload as string) : payload;
  return { type: "message", offset, value, publishedAt: undefined };
}
