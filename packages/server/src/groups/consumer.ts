/**
 * The session's handler of one shared subscription: it reads the streams that its borrower holds, delivers their messages within
 * the member's credit, and reports what the client has processed. The consume door makes one per `subscribe`.
 *
 * Invariants: the messages of a grant are delivered in order and without a hole, except for gaps that the client is told. Not
 * more than `credit` messages are in flight, over all streams. Nothing is delivered while the borrower may have lost its streams.
 * A page is read only when there is credit for it.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { World } from "../core/world.ts";
import type { Entity, LoggedMessage } from "../engine/contract.ts";
import type { ReadOutcome } from "../streams/reading.ts";
import type { Streams } from "../streams/service.ts";
import type { Agent, SessionEffect, Subscription } from "./agent.ts";
import { type InFlight, MAX_LISTED, type Progress } from "./messages.ts";

/** What the client is told. */
export interface ConsumerEvents {
  subscribed(): void;
  granted(stream: string, epoch: number): void;
  revoking(stream: string, epoch: number): void;
  revoked(stream: string, epoch: number): void;
  /** One or more messages of a stream, in order. */
  messages(stream: string, epoch: number, contentType: string, run: readonly LoggedMessage[]): void;
  acked(stream: string, position: Position): void;
  /** Messages between these positions are gone: retention or a failover took them. */
  gap(stream: string, after: Position, through: Position): void;
  unsubscribed(): void;
}

export interface ConsumerParts {
  readonly world: Pick<World, "soon" | "after">;
  readonly streams: Pick<Streams, "read" | "watch">;
  readonly agent: Agent;
  readonly pageBytes: number;
  /** The wait before a failed read is repeated. */
  readonly retryMs: number;
}

export interface Subscribe {
  readonly group: Entity;
  readonly member: string;
  readonly credit: number;
}

/** A stream that the borrower holds. */
interface Cursor {
  readonly path: string;
  readonly epoch: number;
  /** Read up to here; the client has processed up to `processed`. */
  after: Position;
  processed: Position;
  buffer: LoggedMessage[];
  contentType: string;
  /** Delivered and not processed, in order. */
  inFlight: Position[];
  isDraining: boolean;
  isReading: boolean;
  /** Nothing lies after `after`, until the stream's watch wakes it. */
  isDry: boolean;
  end: Position | undefined;
  isGone: boolean;
  unwatch: () => void;
}

/** A run is a frame to many clients, so it is bounded: by its messages, and by its bytes beyond the first message. */
const RUN_MESSAGES = 100;
const RUN_BYTES = 65_536;

/** Takes the messages of the next run out of the buffer. */
function runOf(buffer: LoggedMessage[], most: number): LoggedMessage[] {
  const limit = Math.min(most, RUN_MESSAGES, buffer.length);
  let count = 0;
  for (let bytes = 0; count < limit && bytes < RUN_BYTES; count++) bytes += buffer[count]!.payload.length;
  return buffer.splice(0, count);
}

/** `unknown`: no such grant stands. `ahead`: the message was not delivered. */
export type AckOutcome = "taken" | "unknown" | "ahead";

export class Consumer {
  private readonly cursors = new Map<string, Cursor>();
  /** The same, each in turn from `next` on, so that a credit of a few messages goes around. */
  private readonly circle: Cursor[] = [];
  private next = 0;
  private readonly subscription: Subscription;
  private readonly changed = new Set<string>();
  private inFlight = 0;
  private isSubscribed = false;
  private isOver = false;

  constructor(
    private readonly parts: ConsumerParts,
    private readonly asked: Subscribe,
    private readonly events: ConsumerEvents,
  ) {
    const { group, member } = asked;
    const pending = () => this.pending();
    this.subscription = parts.agent.subscribe({ group, member, pending }, (effect) => this.perform(effect));
  }

  /** Processed up to and including this message of this grant. */
  ack(path: string, epoch: number, position: Position): AckOutcome {
    const cursor = this.cursors.get(path);
    if (cursor?.epoch !== epoch) return "unknown";
    const last = cursor.inFlight.at(-1) ?? cursor.processed;
    if (comparePositions(position, last) > 0) return "ahead";
    let count = 0;
    while (count < cursor.inFlight.length && comparePositions(cursor.inFlight[count]!, position) <= 0) count++;
    if (count === 0) return "taken";
    cursor.processed = cursor.inFlight[count - 1]!;
    cursor.inFlight = cursor.inFlight.slice(count);
    this.inFlight -= count;
    this.report(path);
    this.deliver();
    return "taken";
  }

  unsubscribe(): void {
    this.subscription.unsubscribe();
  }

  /** The connection is lost. What was processed counts. */
  disconnect(): void {
    this.flush();
    this.subscription.disconnect();
  }

  private pending(): readonly InFlight[] {
    const all: InFlight[] = [];
    for (const { path: stream, epoch, inFlight } of this.cursors.values()) {
      if (inFlight.length > 0) all.push({ stream, epoch, count: inFlight.length });
    }
    return all.length <= MAX_LISTED ? all : all.sort((a, b) => b.count - a.count).slice(0, MAX_LISTED);
  }

  private perform(effect: SessionEffect): void {
    switch (effect.kind) {
      case "connected":
        if (!this.isSubscribed) this.events.subscribed();
        this.isSubscribed = true;
        return;
      case "granted":
        this.open(effect.stream, effect.epoch, effect.position);
        this.events.granted(effect.stream, effect.epoch);
        break;
      case "revoking":
        this.drain(effect.stream);
        this.events.revoking(effect.stream, effect.epoch);
        return;
      case "revoked":
        this.close(effect.stream);
        this.events.revoked(effect.stream, effect.epoch);
        break;
      case "acked":
        this.events.acked(effect.stream, effect.position);
        return;
      case "destroyed":
        if (!effect.isRestart) this.end();
        return;
      case "resumed":
        break;
      default:
        return;
    }
    // The agent is in the middle of a step of the borrower, which what is delivered may change.
    this.parts.world.soon(() => this.deliver());
  }

  private open(path: string, epoch: number, after: Position): void {
    const { project } = this.asked.group;
    const cursor: Cursor = {
      path,
      epoch,
      after,
      processed: after,
      buffer: [],
      contentType: "",
      inFlight: [],
      isDraining: false,
      isReading: false,
      isDry: false,
      end: undefined,
      isGone: false,
      unwatch: this.parts.streams.watch(project, path, () => {
        cursor.isDry = false;
        this.deliver();
      }),
    };
    this.cursors.set(path, cursor);
    this.circle.push(cursor);
  }

  private drain(path: string): void {
    const cursor = this.cursors.get(path)!;
    cursor.isDraining = true;
    cursor.buffer = [];
    this.report(path);
  }

  private close(path: string): void {
    const cursor = this.cursors.get(path);
    if (cursor === undefined) return;
    cursor.unwatch();
    this.inFlight -= cursor.inFlight.length;
    this.cursors.delete(path);
    const place = this.circle.indexOf(cursor);
    this.circle.splice(place, 1);
    if (place < this.next) this.next--;
  }

  private end(): void {
    if (this.isOver) return;
    this.isOver = true;
    for (const path of [...this.cursors.keys()]) this.close(path);
    this.events.unsubscribed();
  }

  /** A run of each stream in turn, while there is credit. */
  private deliver(): void {
    for (let empty = 0; empty < this.circle.length; ) {
      const left = this.asked.credit - this.inFlight;
      if (left <= 0 || this.isOver || !this.subscription.isHeld()) return;
      this.next %= this.circle.length;
      const cursor = this.circle[this.next++]!;
      const run = runOf(cursor.buffer, Math.ceil(left / this.circle.length));
      if (run.length === 0) {
        empty++;
        if (!cursor.isDraining) void this.fill(cursor);
        continue;
      }
      empty = 0;
      for (const { position } of run) cursor.inFlight.push(position);
      this.inFlight += run.length;
      this.events.messages(cursor.path, cursor.epoch, cursor.contentType, run);
    }
  }

  private async fill(cursor: Cursor): Promise<void> {
    if (cursor.isReading || cursor.isDry || cursor.isGone) return;
    const { world, streams, pageBytes, retryMs } = this.parts;
    cursor.isReading = true;
    // A commit during the read wakes the cursor, which is then not dry.
    cursor.isDry = true;
    try {
      const page = await streams.read(this.asked.group.project, cursor.path, cursor.after, pageBytes);
      cursor.isReading = false;
      if (this.cursors.get(cursor.path) === cursor && !cursor.isDraining) this.take(cursor, page);
    } catch {
      // The store does not answer, which the operator learns from it already.
      world.after(retryMs, () => {
        cursor.isReading = false;
        cursor.isDry = false;
        this.deliver();
      });
      return;
    }
    this.deliver();
  }

  private take(cursor: Cursor, page: ReadOutcome): void {
    switch (page.kind) {
      case "page":
        cursor.buffer = [...page.messages];
        cursor.contentType = page.meta.config.contentType;
        cursor.after = page.next;
        if (!page.atTail) cursor.isDry = false;
        else if (page.meta.closed) {
          cursor.end = page.next;
          this.report(cursor.path);
        }
        return;
      case "trimmed":
      case "lost": {
        const through = page.kind === "trimmed" ? page.earliest : page.survived;
        this.events.gap(cursor.path, cursor.after, through);
        cursor.after = through;
        cursor.isDry = false;
        return;
      }
      case "ahead":
        return;
      default:
        cursor.isGone = true;
        this.report(cursor.path);
    }
  }

  /** Reports of one turn share a message. */
  private report(path: string): void {
    if (this.changed.size === 0) this.parts.world.soon(() => this.flush());
    this.changed.add(path);
  }

  private flush(): void {
    const progress: Progress[] = [];
    for (const path of this.changed) {
      const cursor = this.cursors.get(path);
      if (cursor === undefined) continue;
      const { epoch, processed, after, buffer, end, isDraining, isGone, inFlight } = cursor;
      const isFinal = isDraining && inFlight.length === 0;
      // What lies between is gone.
      const isThrough = !isDraining && inFlight.length === 0 && buffer.length === 0;
      const position = isThrough ? after : processed;
      progress.push({ stream: path, epoch, position, isFinal, end, isGone });
    }
    this.changed.clear();
    if (progress.length > 0) this.subscription.progress(progress);
  }
}
