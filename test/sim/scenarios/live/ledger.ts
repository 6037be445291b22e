/**
 * What the tabs of a run have processed, and what the streams really held. Tabs write it; the scenario judges it at the end.
 *
 * Invariants: a tab processes the messages of a stream in order and once. Between the beginning of a subscription and its end it
 * leaves out none, except those that the server has told it are lost.
 */
import { formatOffset, parseOffset } from "@sluice/protocol";
import type { Entry } from "../sessions/source-logs.ts";

/** One subscription of a page: from the offset at which it started, to its end. */
export interface Period {
  readonly tab: string;
  readonly stream: string;
  /** Undefined while the client has told nothing about it. */
  begins: string | undefined;
  /** The user has left the stream or the page, or the client has said that the subscription ended. */
  isOver: boolean;
  /** Why it ended by itself. */
  end?: string;
  /** In the order of processing. */
  readonly processed: { readonly offset: string; readonly id: string; isFinished: boolean }[];
  /** Ranges that the server said are lost: after the first offset, up to the second. */
  readonly gaps: { readonly after: string; readonly through: string }[];
}

/** A heartbeat that names an offset ahead of the last message whose handler has finished. No message may lie between. */
interface Claim {
  readonly period: Period;
  readonly finished: string;
  readonly offset: string;
}

interface Truth {
  readonly id: string;
  readonly offset: string;
  readonly generation: number;
}

export class Ledger {
  readonly violations: string[] = [];
  readonly lines: string[] = [];
  readonly periods: Period[] = [];
  readonly claims: Claim[] = [];

  /** `streamsStay`: no stream is deleted, so that every heartbeat that is answered has moved its pointers. */
  constructor(readonly streamsStay: boolean) {}

  begin(tab: string, stream: string): Period {
    const period: Period = { tab, stream, begins: undefined, isOver: false, processed: [], gaps: [] };
    this.periods.push(period);
    return period;
  }

  object(who: string, what: string): void {
    this.violations.push(`[live] ${who}: ${what}`);
  }

  note(line: string): void {
    this.lines.push(line);
  }

  /** `logs`: every message that was ever committed to a stream, in order. */
  judge(logs: (stream: string) => readonly Entry[]): void {
    const once = new Map<string, Set<string>>();
    for (const period of this.periods) {
      const key = `${period.tab} ${period.stream}`;
      const seen = once.get(key) ?? new Set();
      once.set(key, seen);
      this.judgePeriod(period, truthOf(logs(period.stream)), seen);
    }
    for (const { period, finished, offset } of this.claims) {
      const { generation } = parseOffset(offset)!;
      this.judgeRange(period, truthOf(logs(period.stream)), finished, `${offset}+`, generation);
    }
  }

  private judgePeriod(period: Period, truth: readonly Truth[], seen: Set<string>): void {
    const { tab, stream, begins, processed } = period;
    const who = `${tab} on ${stream}`;
    if (begins === undefined) {
      if (processed.length > 0) this.object(who, "messages came before the subscription began");
      return;
    }
    const byOffset = new Map(truth.map((entry) => [entry.offset, entry]));
    let last = begins;
    for (const { offset, id, isFinished } of processed) {
      if (seen.has(offset)) this.object(who, `${offset} was processed twice`);
      // A message whose handler was still at work when the subscription ended may come again with the next one.
      if (isFinished) seen.add(offset);
      if (offset <= last) this.object(who, `${offset} came after ${last}`);
      const real = byOffset.get(offset);
      if (real?.id !== id) this.object(who, `${id} at ${offset} is ${real?.id ?? "nothing"} in the stream`);
      this.judgeRange(period, truth, last, offset, real?.generation);
      last = offset;
    }
    // A subscription that nothing has ended, and one that ended with its stream, have everything to the end.
    if (period.isOver && period.end !== "closed") return;
    this.judgeRange(period, truth, last, "\uffff", truth.at(-1)?.generation);
  }

  /** A stream that was deleted takes its unread messages with it; the next one begins with its first. */
  private judgeRange(period: Period, truth: readonly Truth[], last: string, next: string, generation?: number): void {
    const isTold = ({ offset }: Truth) => period.gaps.some(({ after, through }) => offset > after && offset <= through);
    for (const one of truth) {
      if (one.offset <= last || one.offset >= next || one.generation !== generation || isTold(one)) continue;
      this.object(`${period.tab} on ${period.stream}`, `${one.id} at ${one.offset} was never processed, after ${last}`);
    }
  }
}

function truthOf(log: readonly Entry[]): readonly Truth[] {
  return log.map(({ id, position }) => ({ id, offset: formatOffset(position), generation: position.generation }));
}
