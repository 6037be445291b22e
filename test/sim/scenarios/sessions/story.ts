/**
 * The actions and answers of session clients, in order. The checks read it together with the logs of the sources.
 *
 * Invariants: every call has an interval; an unanswered call ends when it can have no further effect.
 */
import type { Position } from "@sluice/protocol";
import type { Found } from "./messages.ts";

export interface Interval {
  readonly invoked: number;
  returned: number;
}

export interface Publish extends Interval {
  readonly source: string;
  readonly ids: readonly string[];
  isAcknowledged: boolean;
  /** Every subscriber had it when it was answered. */
  isCopied: boolean;
}

export interface Epoch {
  readonly source: string;
  readonly from: Position | "beginning" | undefined;
  readonly began: Interval;
  /** Whether it was known to stand when `began` was over. */
  readonly isSure: boolean;
  /** Undefined while it stands. */
  ended: Interval | undefined;
}

/** The state of one session of an id, from its creation to its end. */
export interface Life {
  readonly session: string;
  readonly generation: number;
  readonly epochs: Epoch[];
  /** In the order of the inbox. After a trim of the inbox, only the later copies. */
  seen: Found[];
  wasCut: boolean;
  /** The ranges that the session was told it misses: after one position of a source, up to another. */
  readonly missed: { readonly source: string; readonly after: Position; readonly through: Position }[];
  /** Complete reads: the time of the request, and how many copies had been seen by then. */
  readonly reads: (Interval & { readonly count: number })[];
  isOver: boolean;
}

export class Story {
  readonly publishes: Publish[] = [];
  readonly lives: Life[] = [];
  /** Deletions of sources. */
  readonly deletions: (Interval & { readonly source: string })[] = [];
  readonly violations: string[] = [];
  readonly lines: string[] = [];
  private ticks = 0;

  tick(): number {
    return ++this.ticks;
  }

  begin(): Interval {
    return { invoked: this.tick(), returned: Number.POSITIVE_INFINITY };
  }

  end(interval: Interval): void {
    interval.returned = this.tick();
  }

  /** For the developer that debugs a failed seed. */
  note(line: string): void {
    this.lines.push(`${this.ticks} ${line}`);
  }

  object(what: string): void {
    this.violations.push(`[sessions] ${what}`);
  }
}
