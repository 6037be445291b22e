/**
 * A piece of a stream's log on its way into inboxes. A source makes it once for all sessions; the copy rule applies the
 * part that a session lacks.
 */
import { comparePositions, formatOffset, type Position } from "@sluice/protocol";
import type { LoggedMessage, Message } from "../engine/contract.ts";
import { type Borrowed, borrowing, ownAttributes } from "../streams/borrowed-payloads.ts";
import { type CopyOf, renderCopy } from "../streams/render.ts";
import { type CopyFormat, FANOUT } from "./state.ts";

/** Where a payload lies that is stored once for all copies. */
export type Lent = Pick<Borrowed, "position" | "bytes">;

export interface Gap {
  readonly after: Position;
  readonly through: Position;
}

interface CopyParts {
  readonly stream: string;
  readonly contentType: string;
  /** The copy applies onto this position. */
  readonly prev: Position;
  readonly logged: readonly LoggedMessage[];
  /** The number of the fan-out, as the registry counts them. Positions identify duplicates, not this number. */
  readonly fanoutSeq: number;
  /** Of each message, where its payload lies; undefined for a message that carries its payload. */
  readonly lent?: readonly (Lent | undefined)[] | undefined;
  /** The messages that retention trimmed between `prev` and the first message. */
  readonly gap?: Gap | undefined;
  /** Whether the log continued after it when it was read. */
  readonly hasMore?: boolean | undefined;
  /** The end position of a copy without messages. */
  readonly through?: Position | undefined;
}

export class Copy {
  readonly stream: string;
  readonly contentType: string;
  readonly prev: Position;
  readonly logged: readonly LoggedMessage[];
  readonly fanoutSeq: number;
  readonly gap: Gap | undefined;
  readonly hasMore: boolean;
  /** The position of an inbox that has applied it. */
  readonly through: Position;
  private readonly lent: readonly (Lent | undefined)[];
  private readonly made = new Map<CopyFormat, readonly Message[]>();

  constructor(private readonly parts: CopyParts) {
    const { prev, logged, gap } = parts;
    this.stream = parts.stream;
    this.contentType = parts.contentType;
    this.prev = prev;
    this.logged = logged;
    this.fanoutSeq = parts.fanoutSeq;
    this.gap = gap;
    this.hasMore = parts.hasMore ?? false;
    this.through = logged.at(-1)?.position ?? gap?.through ?? parts.through ?? prev;
    this.lent = parts.lent ?? [];
  }

  /** No message lies between two positions, so an inbox at the first position moves to the second. */
  static ofNothing(stream: string, prev: Position, through: Position, fanoutSeq: number): Copy {
    return new Copy({ stream, contentType: "", prev, logged: [], fanoutSeq, through });
  }

  /** The same copy, with payloads stored elsewhere. */
  lending(lent: readonly (Lent | undefined)[]): Copy {
    return new Copy({ ...this.parts, lent });
  }

  get size(): number {
    return this.logged.length;
  }

  /** About how many bytes one session receives. */
  get bytes(): number {
    let bytes = 0;
    for (const [i, { payload }] of this.logged.entries()) bytes += this.lent[i] ? 0 : payload.length;
    return bytes;
  }

  get borrows(): boolean {
    return this.lent.some((lent) => lent !== undefined);
  }

  /** The messages that a session at position `at` lacks. */
  after(at: Position, format: CopyFormat): readonly Message[] {
    const all = this.messages(format);
    if (comparePositions(at, this.prev) <= 0) return all;
    const first = this.logged.findIndex(({ position }) => comparePositions(position, at) > 0);
    return first < 0 ? [] : all.slice(first);
  }

  private messages(format: CopyFormat): readonly Message[] {
    let made = this.made.get(format);
    if (made === undefined) {
      made = this.logged.map((message, i) => this.copyOf(message, this.lent[i], format));
      this.made.set(format, made);
    }
    return made;
  }

  private copyOf(message: LoggedMessage, lent: Lent | undefined, format: CopyFormat): Message {
    const { at, id, key, payload, position } = message;
    const { stream, contentType } = this;
    const copyOf: CopyOf | undefined =
      format === "envelope" ? { stream, offset: formatOffset(position), contentType } : undefined;
    const copied: Message = { payload, at, id, key, attributes: ownAttributes(message) };
    if (lent !== undefined) return borrowing(copied, { kind: FANOUT, id: stream, ...lent, copyOf });
    return copyOf === undefined ? copied : { ...copied, payload: renderCopy(copyOf, payload) };
  }
}
