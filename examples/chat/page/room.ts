/**
 * One room as this tab knows it: its messages in the order of the log, those on their way, and which of them the person has seen.
 * The page has one for each room.
 *
 * Invariants: a message is held once, whether it was sent once or twice. A message counts as seen when it comes while the
 * person looks at the room, or when the person looks again.
 */
import type { Said } from "../rooms.ts";

export interface Shown {
  readonly said: Said;
  readonly isSent: boolean;
}

export class Room {
  /** Messages that came while the person did not look, the own ones not counted. */
  unread = 0;
  private readonly log: Said[] = [];
  private readonly known = new Set<string>();
  private readonly sending = new Map<string, Said>();
  private last: string | undefined;
  private isLookedAt = false;
  /** The first message that the person has missed, and how many there were. */
  private mark: { readonly before: string; count: number } | undefined;

  constructor(
    readonly id: string,
    /** The id of the person in this tab. */
    readonly me: string,
    /** The offset of the last message that the person has seen; undefined on a first visit. */
    public seen: string | undefined,
  ) {}

  get messages(): readonly Shown[] {
    return [
      ...this.log.map((said) => ({ said, isSent: true })),
      ...[...this.sending.values()].map((said) => ({ said, isSent: false })),
    ];
  }

  get sendingCount(): number {
    return this.sending.size;
  }

  /** Where to say that messages came while the person was away. */
  get missed(): { readonly before: string; readonly count: number } | undefined {
    return this.isLookedAt ? this.mark : undefined;
  }

  /** A message of this person, which the server has not stored yet. */
  send(said: Said): void {
    if (!this.known.has(said.id)) this.sending.set(said.id, said);
    this.mark = undefined;
  }

  /** A message of the log. */
  arrived(said: Said, offset: string): void {
    this.last = offset;
    this.sending.delete(said.id);
    if (this.known.has(said.id)) return;
    this.known.add(said.id);
    this.log.push(said);
    const isNew = this.seen !== undefined && offset > this.seen;
    if (this.isLookedAt) this.seen = offset;
    else if (isNew && said.person.id !== this.me) {
      this.unread++;
      this.mark ??= { before: said.id, count: 0 };
      this.mark.count++;
    }
  }

  /** The log is read to its end. On a first visit everything in it is history. */
  caughtUp(offset: string): void {
    this.seen ??= offset;
  }

  look(isLookedAt: boolean): void {
    if (isLookedAt === this.isLookedAt) return;
    this.isLookedAt = isLookedAt;
    if (isLookedAt) {
      this.unread = 0;
      this.seen = this.last ?? this.seen;
    } else this.mark = undefined;
  }
}
