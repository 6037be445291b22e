/**
 * The rules of a channel's life: publishing, and what the sweep does. Pure; the service submits them to the channel's keeper.
 *
 * Tracking comes with the publish. That a channel is in the index which the sweep looks through (a `remind` effect, in one of
 * the engine's 64 shards) and that its messages are in its log are effects of one commit: a publish whose tracking fails has not
 * happened, no channel can be left that the sweep does not know of, and none in the index that is not there.
 *
 * Invariants: a request is taken whole or not at all; a sequence is taken once; nothing follows an END.
 */
import type { Position } from "@sluice/protocol";
import { utf8 } from "../core/bytes.ts";
import { type Head, type Message, NO_HEAD } from "../engine/contract.ts";
import { type Change, drop, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { marksTable, trimAfterAppend } from "../engine/trimming.ts";
import { Ids } from "./ids.ts";
import type { ChannelLimits } from "./limits.ts";
import { extended, find, lastSequence, type Placed } from "./sequences.ts";
import { alive, expiresAt, type Meta, metaTable, type Phase, type Run } from "./state.ts";

/** Marks the message that a channel ends with, for readers that see the log alone. */
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
}

export type PublishRefusal =
  | { readonly kind: "not-started" }
  | { readonly kind: "started" }
  | { readonly kind: "ended" }
  /** The sequence was left out when its turn was. */
  | { readonly kind: "passed"; readonly sequence: number; readonly last: number }
  /** Another message has this sequence. */
  | { readonly kind: "taken"; readonly sequence: number; readonly messageId: string };

/** The place of the last message, and how many of the request were new. `gap` is the first that the request left. */
export type PublishOutcome =
  | (Placed & { readonly kind: "published"; readonly appended: number; readonly gaps: number })
  | PublishRefusal;

export function publishRule(view: View, now: number, input: Publish, limits: ChannelLimits): Decision<PublishOutcome> {
  const publishing = new Publishing(view, now, input.channel, limits);
  for (const message of input.messages) {
    const refusal = publishing.take(message);
    if (refusal !== undefined) return { outcome: refusal };
  }
  return publishing.decision();
}

/** One request on its way through the rule: the channel as it will be, and what that takes. */
class Publishing {
  private readonly messages: Message[] = [];
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
    private readonly channel: string,
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
      const known = this.recognise(message);
      if (known === "taken") {
        return { kind: "taken", sequence: message.sequence, messageId: this.idsOf().idOf(message.sequence)! };
      }
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

  /** A new history, whatever lies here of a channel that is over. */
  private begin(): void {
    const born = this.view.nextGeneration;
    const at: Position = { generation: born, seq: 0 };
    this.head = { ...NO_HEAD, generation: born, last: at, start: at };
    this.lastSeq = 0;
    this.meta = { born, startedAt: this.now, remindAt: 0, runs: [] };
  }

  /** Whether the message is here already; then its place is the answer. */
  private recognise({ messageId, sequence }: NewMessage): "new" | "repeated" | "passed" | "taken" {
    const known = messageId === undefined ? undefined : this.idsOf().sequenceOf(messageId);
    const found = find(this.runs, this.lastSeq, known ?? sequence);
    if (found.kind !== "repeated") return found.kind;
    if (known === undefined && messageId !== undefined && this.idsOf().idOf(sequence) !== undefined) return "taken";
    this.place(found);
    return "repeated";
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
    const shown = {
      // Without an id of its own a message is known by what no other has: its channel's birth and its sequence.
      messageId: messageId ?? `${this.meta!.born}-${sequence}`,
      channelId: this.channel,
      phase,
      sequence,
      gap: gap === undefined ? undefined : { expected: gap },
    };
    const text = `${JSON.stringify(shown).slice(0, -1)},"payload":${payload}}`;
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

  decision(): Decision<PublishOutcome> {
    const { messages, gaps } = this;
    const outcome: PublishOutcome = { kind: "published", ...this.placed!, appended: messages.length, gaps };
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
 * When the sweep looks at a channel that goes on: at whole intervals from its start on, so that the looks at many channels are spread
 * as their starts were, and at the first of them at which it can be abandoned.
 */
function nextLook({ startedAt }: Meta, lastAt: number, { idleMs, cleanupMs }: ChannelLimits): number {
  return startedAt + Math.ceil((lastAt + idleMs - startedAt) / cleanupMs) * cleanupMs;
}

export type SweepOutcome = "ended" | "abandoned" | "ghost" | "kept";

/** Removes a channel whose time is over, or that is not published to any more; index entry and all, in one step. */
export function sweepRule(view: View, now: number, limits: ChannelLimits): Decision<SweepOutcome> {
  const meta = view.get(metaTable, "");
  // Nothing of ours leaves an entry without a channel; what a repair or a restore left so goes here.
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
