/**
 * What the clients of sessions did and were told, in the order in which it happened. Checkers look at this and at the logs of the
 * sources. Every call has an interval; one that was never answered ends when it can have no effect any more.
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

/** All that one session of an id had, from its creation to its end. */
export interface Life {
  readonly session: string;
  readonly generation: number;
  readonly epochs: Epoch[];
  /** In the order of the inbox. After a cut of the inbox only what came after it. */
  seen: Found[];
  wasCut: boolean;
  /** What it was told that it misses: what comes after one position of a source, up to another. */
  readonly missed: { readonly source: string; readonly after: Position; readonly through: Position }[];
  /** Complete reads: when they were asked for, and how much had been seen by then. */
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

  /** For whoever has to find out why. */
  note(line: string): void {
    this.lines.push(`${this.ticks} ${line}`);
  }

  object(what: string): void {
    this.violations.push(`[sessions] ${what}`);
  }
}
