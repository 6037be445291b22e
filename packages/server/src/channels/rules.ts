/**
 * The rules of a channel's life: publish and sweep. Pure; the service submits them to the channel's keeper.
 *
 * Invariants: a request is stored as a whole or not at all. A sequence is stored once, and a different message under it is
 * refused. No message follows END. Messages and the reminder by which the sweep finds the channel are effects of one
 * commit (service.ts says why).
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { utf8 } from "../core/bytes.ts";
import { type Head, type Message, NO_HEAD } from "../engine/contract.ts";
import { type Change, drop, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { marksTable, trimAfterAppend } from "../engine/trimming.ts";
import type { ChannelLimits } from "./defaults.ts";
import { Ids } from "./ids.ts";
import { isSame, messageText, type Repeat } from "./repeats.ts";
import { extended, find, lastSequence, type Placed } from "./sequences.ts";
import { alive, expiresAt, type Meta, metaTable, type Phase, type Run } from "./state.ts";
import type { Stop } from "./stopping.ts";

/** Marks the message that ends a channel, for readers that see only the log. */
export const END_ATTRIBUTES: Readonly<Record<string, string>> = { phase: "END" };

export interface NewMessage {
  readonly messageId?: string | undefined;
  readonly phase: Phase;
  readonly sequence: number;
  /** As JSON. */
  readonly payload: string;
}

export interface Publish {
  readonly channel: string;
  /** At least one. */
  readonly messages: readonly NewMessage[];
  /** The stored messages that were compared with messages of this request and found to be the same. */
  readonly compared?: ReadonlyMap<NewMessage, Position> | undefined;
}

export type PublishRefusal =
  | { readonly kind: "not-started" }
  | { readonly kind: "started" }
  | { readonly kind: "ended" }
  /** The publisher skipped this sequence earlier. */
  | { readonly kind: "passed"; readonly sequence: number; readonly last: number }
  /** Another message has this sequence. */
  | { readonly kind: "taken"; readonly sequence: number };

/**
 * The place of the last message, and the number of messages that were new. `gap` is the first gap in the request. `stop`: the
 * publisher is asked to stop.
 */
export type PublishOutcome =
  | (Placed & {
      readonly kind: "published";
      readonly appended: number;
      readonly gaps: number;
      readonly stop?: Stop | undefined;
    })
  | PublishRefusal;

/** Nothing is stored before these are compared with the log. `different` is the outcome if one of them differs. */
export interface Compare {
  readonly kind: "compare";
  readonly pairs: readonly Repeat[];
  different(message: NewMessage): PublishRefusal;
}

export function publishRule(
  view: View,
  now: number,
  input: Publish,
  limits: ChannelLimits,
): Decision<PublishOutcome | Compare> {
  const publishing = new Publishing(view, now, input, limits);
  for (const message of input.messages) {
    const refusal = publishing.take(message);
    if (refusal !== undefined) return { outcome: refusal };
  }
  return publishing.decision();
}

/** One request on its way through the rule: the next state of the channel, and the changes that lead there. */
class Publishing {
  private readonly messages: Message[] = [];
  private readonly texts: string[] = [];
  private readonly pairs: Repeat[] = [];
  private readonly before: Meta | undefined;
  private meta: Meta | undefined;
  private head: Head;
  private ids: Ids | undefined;
  private runs: readonly Run[] = [];
  private lastSeq: number;
  private endedAt: number | undefined;
  private placed: Placed | undefined;
  private firstGap: number | undefined;
  private gaps = 0;

  constructor(
    private readonly view: View,
    private readonly now: number,
    private readonly input: Publish,
    private readonly limits: ChannelLimits,
  ) {
    this.before = alive(view.get(metaTable, ""), limits.ttlMs, now);
    this.meta = this.before;
    this.head = view.head;
    this.lastSeq = view.head.last.seq;
    if (this.before === undefined) return;
    this.runs = this.before.runs;
    this.endedAt = this.before.endedAt;
  }

  take(message: NewMessage): PublishRefusal | undefined {
    if (this.meta === undefined) {
      if (message.phase !== "START") return { kind: "not-started" };
      this.begin();
    } else {
      const known = this.recognize(message);
      if (known === "taken") return this.different(message);
      if (known === "passed") {
        return { kind: "passed", sequence: message.sequence, last: lastSequence(this.runs, this.lastSeq) };
      }
      if (known === "repeated") return undefined;
      if (this.endedAt !== undefined) return { kind: "ended" };
      if (message.phase === "START") return { kind: "started" };
    }
    this.append(message);
    return undefined;
  }

  /** Begins a new history over the remains of an expired channel. */
  private begin(): void {
    const born = this.view.nextGeneration;
    const at: Position = { generation: born, seq: 0 };
    this.head = { ...NO_HEAD, generation: born, last: at, start: at };
    this.lastSeq = 0;
    this.meta = { born, startedAt: this.now, remindAt: 0, runs: [] };
  }

  /** Whether the message is stored already; then its place is the answer. */
  private recognize(message: NewMessage): "new" | "repeated" | "passed" | "taken" {
    const { messageId, sequence } = message;
    const known = messageId === undefined ? undefined : this.idsOf().sequenceOf(messageId);
    const found = find(this.runs, this.lastSeq, known ?? sequence);
    if (found.kind !== "repeated") return found.kind;
    if (known === undefined) {
      if (messageId !== undefined && this.idsOf().idOf(sequence) !== undefined) return "taken";
      if (!this.isRepeated(message, found.position)) return "taken";
    }
    this.place(found);
    return "repeated";
  }

  /** False if the message differs from the one at this position. A position in the log is noted, to be compared. */
  private isRepeated(message: NewMessage, position: Position): boolean {
    const own = this.texts[position.seq - this.head.last.seq - 1];
    if (own !== undefined) return isSame(own, message);
    const same = this.input.compared?.get(message);
    if (same === undefined || comparePositions(same, position) !== 0) this.pairs.push({ message, position });
    return true;
  }

  private different({ sequence }: NewMessage): PublishRefusal {
    return this.before?.endedAt === undefined ? { kind: "taken", sequence } : { kind: "ended" };
  }

  private append(message: NewMessage): void {
    const { messageId, phase, sequence, payload } = message;
    const position = { generation: this.head.generation, seq: this.lastSeq + 1 };
    const expected = this.runs.length === 0 ? sequence : lastSequence(this.runs, this.lastSeq) + 1;
    const gap = expected === sequence ? undefined : expected;
    this.runs = extended(this.runs, position, sequence, this.limits.runs);
    this.lastSeq = position.seq;
    if (messageId !== undefined) this.idsOf().note(messageId, sequence, position.seq);
    if (phase === "END") this.endedAt = this.now;
    if (gap !== undefined) this.gaps++;
    const text = messageText(
      {
        // A message without an id gets a unique one, from its channel's birth and its sequence.
        messageId: messageId ?? `${this.meta!.born}-${sequence}`,
        channelId: this.input.channel,
        phase,
        sequence,
        gap: gap === undefined ? undefined : { expected: gap },
      },
      payload,
    );
    this.texts.push(text);
    this.messages.push({
      payload: utf8(text),
      at: this.now,
      attributes: phase === "END" ? END_ATTRIBUTES : undefined,
    });
    this.place({ position, sequence, gap });
  }

  private place({ position, sequence, gap }: Placed): void {
    this.firstGap ??= gap;
    this.placed = { position, sequence, gap: this.firstGap };
  }

  private idsOf(): Ids {
    this.ids ??= new Ids(this.view, this.meta!.born, this.limits.messages);
    return this.ids;
  }

  decision(): Decision<PublishOutcome | Compare> {
    const { messages, gaps, pairs } = this;
    if (pairs.length > 0) {
      return { outcome: { kind: "compare", pairs, different: (message) => this.different(message) } };
    }
    const placed: PublishOutcome = { kind: "published", ...this.placed!, appended: messages.length, gaps };
    const { stop } = this.meta!;
    const outcome = stop === undefined ? placed : { ...placed, stop: { reason: stop.reason } };
    if (messages.length === 0) return { outcome };
    const changes: Change[] = [];
    const isNew = this.before === undefined;
    if (isNew) {
      const { generation, last } = this.head;
      changes.push({ op: "begin", generation, at: last });
      if (this.view.exists) changes.push(drop(marksTable, ""));
    }
    this.track(changes);
    changes.push({ op: "append", messages });
    const marks = isNew ? [] : (this.view.get(marksTable, "") ?? []);
    changes.push(...trimAfterAppend(this.head, marks, { maxMessages: this.limits.messages }, messages, this.now));
    if (this.ids !== undefined) changes.push(...this.ids.changes());
    return { outcome, changes };
  }

  private track(changes: Change[]): void {
    const { before, runs, endedAt, now, limits } = this;
    const meta = this.meta!;
    const remindAt = endedAt === undefined ? nextLook(meta, now, limits) : endedAt + limits.ttlMs;
    const isTracked = remindAt === before?.remindAt;
    if (isTracked && runs === before?.runs && endedAt === before.endedAt) return;
    if (!isTracked) changes.push({ op: "remind", atMs: remindAt });
    changes.push(put(metaTable, "", { ...meta, runs, endedAt, remindAt }));
  }
}

/**
 * When the sweep checks a channel that is not over: the first whole interval since its start at which it can be
 * abandoned. Counting from the start spreads the checks of many channels as their starts were spread.
 */
function nextLook({ startedAt }: Meta, lastAt: number, { idleMs, cleanupMs }: ChannelLimits): number {
  return startedAt + Math.ceil((lastAt + idleMs - startedAt) / cleanupMs) * cleanupMs;
}

export type SweepOutcome = "ended" | "abandoned" | "ghost" | "kept";

/** Destroys a channel that has expired or is abandoned, with its index entry, in one commit. */
export function sweepRule(view: View, now: number, limits: ChannelLimits): Decision<SweepOutcome> {
  const meta = view.get(metaTable, "");
  // No commit leaves an entry without a channel. A repair or a restore may, and this removes it.
  if (meta === undefined) return { outcome: "ghost", changes: [{ op: "destroy" }] };
  const end = expiresAt(meta, limits.ttlMs);
  if (end !== undefined && now >= end) return { outcome: "ended", changes: [{ op: "destroy" }] };
  if (end === undefined && now >= view.head.at + limits.idleMs) {
    return { outcome: "abandoned", changes: [{ op: "destroy" }] };
  }
  const remindAt = end ?? nextLook(meta, view.head.at, limits);
  return {
    outcome: "kept",
    changes: [{ op: "remind", atMs: remindAt }, put(metaTable, "", { ...meta, remindAt })],
  };
}
