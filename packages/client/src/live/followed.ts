/**
 * One stream that the session follows: its subscription on the server, the cursors that read it, and presence on it. The session
 * has one per stream.
 *
 * Invariants: cursors hold back pushes from a request for the subscription on until it is answered, because pushes may come
 * first. A stream that is gone ends all of its cursors.
 */
import type { SluiceError } from "../error.ts";
import { isGone, readAfter } from "./catch-up.ts";
import { Cursor, type CursorUser } from "./cursor.ts";
import type { PresenceEvent, StreamEvent } from "./events.ts";
import type { Offsets } from "./offsets.ts";
import { Room } from "./presence.ts";
import { type SessionPort, StoredSubscription } from "./stored-subscription.ts";
import type { Turns } from "./turns.ts";

export interface FollowedParts {
  readonly port: SessionPort;
  /** Where the handlers of the tab have been, also those that are gone. */
  readonly offsets: Offsets;
  /** Bounds the reads of all streams together. */
  readonly turns: Turns;
  /** What the session derives from its streams has changed. */
  changed(): void;
  /** Nothing of the stream is wanted or stored any more. */
  over(followed: Followed): void;
}

export class Followed {
  readonly room: Room;
  readonly subscription: StoredSubscription;
  /** The offset that the server has confirmed. */
  confirmed: string | undefined;
  private readonly cursors = new Set<Cursor>();

  constructor(
    readonly stream: string,
    private readonly address: string,
    private readonly parts: FollowedParts,
  ) {
    const { world, report } = parts.port;
    this.room = new Room(world, report, () => this.subscription.ask());
    this.subscription = new StoredSubscription(stream, parts.port, {
      isWanted: () => this.cursors.size > 0 || this.room.isOpen,
      more: () => (this.room.isOpen ? { presence: true, state: this.room.state } : {}),
      asking: () => this.each((cursor) => cursor.block()),
      stored: (offset, isNew) => this.stored(offset, isNew),
      refused: (error) => this.refused(error),
      over: () => parts.over(this),
    });
  }

  get epoch(): number | undefined {
    return this.subscription.epoch;
  }

  get isCaughtUp(): boolean {
    return [...this.cursors].every((cursor) => cursor.isCaughtUp);
  }

  /** Where every cursor has been; undefined when one of them has no offset yet. */
  get processed(): string | undefined {
    let least: string | undefined;
    for (const { processed } of this.cursors) {
      if (processed === undefined) return undefined;
      if (least === undefined || processed < least) least = processed;
    }
    return least;
  }

  add(user: CursorUser<unknown>, from: string | undefined): Cursor {
    const { port, turns, changed } = this.parts;
    const cursor: Cursor = new Cursor(
      {
        ...port,
        changed,
        stream: this.stream,
        epoch: () => this.epoch,
        read: (offset) => turns.run(() => readAfter(port.ask, this.address, offset, port.sessionId())),
        ended: ({ reason }) => {
          this.remove(cursor);
          if (reason === "gone") this.gone();
        },
      },
      user,
      from,
    );
    const start = from ?? this.lastKnown;
    this.cursors.add(cursor);
    const { subscription } = this;
    if (!subscription.isSettled) subscription.keep();
    else if (this.epoch === undefined || start === undefined) subscription.ask();
    else {
      subscription.keep();
      cursor.answered(start, true);
    }
    changed();
    return cursor;
  }

  remove(cursor: Cursor): void {
    cursor.stop();
    if (!this.cursors.delete(cursor)) return;
    if (cursor.processed !== undefined) this.parts.offsets.keep(this.stream, cursor.processed);
    this.parts.changed();
    if (this.cursors.size === 0 && !this.room.isOpen) this.subscription.linger();
  }

  /** The connection is open, and the server follows what it has stored. */
  hello(): void {
    this.room.clear();
    if (this.epoch !== undefined) this.readAgain();
    this.subscription.hello();
  }

  /** Reads again from where the cursors stand. */
  readAgain(): void {
    this.each((cursor) => cursor.behind());
  }

  lost(): void {
    this.each((cursor) => cursor.lost());
  }

  take(event: StreamEvent | PresenceEvent, chars: number): void {
    if (event.type === "idle") this.subscription.idle(event.epoch);
    else if (event.type !== "presence") this.each((cursor) => cursor.push(event, chars));
    else if (this.room.isOpen) this.room.take(event);
  }

  /** The session is another one, and has no subscriptions. */
  forget(): void {
    this.confirmed = undefined;
    this.subscription.forget();
  }

  stop(): void {
    this.each((cursor) => cursor.stop());
    this.room.stop();
    this.subscription.stop();
  }

  private each(run: (cursor: Cursor) => void): void {
    for (const cursor of [...this.cursors]) run(cursor);
  }

  private get lastKnown(): string | undefined {
    let last = this.parts.offsets.get(this.stream);
    for (const { processed } of this.cursors) {
      if (processed !== undefined && (last === undefined || processed > last)) last = processed;
    }
    return last;
  }

  private stored(offset: string, isNew: boolean): void {
    if (isNew) this.confirmed = offset;
    const last = this.lastKnown;
    const start = last !== undefined && last > offset ? last : offset;
    this.each((cursor) => cursor.answered(start, isNew));
    this.parts.changed();
  }

  private gone(): void {
    this.subscription.epoch = undefined;
    this.room.clear();
    this.each((cursor) => cursor.end({ reason: "gone" }));
  }

  /** The server has no such stream, or does not let the session follow it. */
  private refused(error: SluiceError): void {
    const { report } = this.parts.port;
    if (this.room.isOpen) report(error);
    this.each((cursor) => {
      if (cursor.hasStarted && isGone(error)) return cursor.end({ reason: "gone" });
      report(error);
      cursor.end({ reason: "refused", error });
    });
  }
}
