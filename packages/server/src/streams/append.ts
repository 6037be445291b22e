/**
 * The rule for appending to a stream and closing it, producers included. Pure; `Streams` submits it to the stream's
 * keeper.
 *
 * Invariants: a producer's repeated append is stored once. When several refusals apply, the first of these wins: fenced
 * producer, closed, content type, producer sequence, Stream-Seq.
 */
import type { Position } from "@sluice/protocol";
import type { Message } from "../engine/contract.ts";
import { type Change, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { cutForRetention } from "./retention.ts";
import {
  type Follows,
  followsOf,
  isSameType,
  lifeOf,
  type Meta,
  metaTable,
  type Producer,
  type ProducerTriple,
  producerTable,
  seqTable,
  slides,
} from "./state.ts";

export interface Append {
  /** Empty only when the request closes the stream without data. */
  readonly payloads: readonly Uint8Array[];
  /** Required when there are payloads. */
  readonly contentType?: string | undefined;
  readonly close: boolean;
  readonly seq?: string | undefined;
  readonly producer?: ProducerTriple | undefined;
  readonly messageId?: string | undefined;
  readonly messageKey?: string | undefined;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
  /** The append is for a shard of the topic with this id, not for a shard of another topic at the same path. */
  readonly topicId?: string | undefined;
}

/** `producer` carries the epoch and the highest accepted sequence, for the response headers. */
interface Accepted {
  readonly next: Position;
  readonly closed: boolean;
  readonly producer?: Producer | undefined;
  /** The features that follow the stream. */
  readonly follows?: Follows | undefined;
}

/** The shard that took or refused an append to a sharded topic. */
interface Routed {
  readonly shard?: number | undefined;
}

/** The stream is a sharded topic, which has no log; one of its shards takes the append. */
export interface ShardedAppend {
  readonly kind: "sharded";
  readonly shards: number;
  readonly topicId: string;
  readonly isWhole: boolean;
}

export type AppendOutcome = Routed & Appending;

type Appending =
  | (Accepted & { readonly kind: "appended"; readonly isCloseOnly: boolean })
  | (Accepted & { readonly kind: "duplicate" })
  | { readonly kind: "absent" }
  | { readonly kind: "gone" }
  | { readonly kind: "closed"; readonly next: Position }
  | { readonly kind: "wrong-type"; readonly contentType: string }
  | { readonly kind: "seq-regression"; readonly last: string }
  | { readonly kind: "producer-fenced"; readonly epoch: number }
  | { readonly kind: "producer-epoch-start" }
  | { readonly kind: "producer-gap"; readonly expected: number; readonly received: number };

export function appendRule(
  view: View,
  now: number,
  input: Append,
  holdBytes: number,
): Decision<AppendOutcome | ShardedAppend> {
  const meta = view.get(metaTable, "");
  const life = lifeOf(meta, view.head, now);
  if (meta === undefined || life === "absent") return { outcome: { kind: "absent" } };
  if (life === "gone") return { outcome: { kind: "gone" } };
  if (meta.topic) {
    const { id: topicId, step } = meta.topic;
    return { outcome: { kind: "sharded", shards: meta.config.shards!, topicId, isWhole: step === undefined } };
  }
  if (input.topicId !== undefined && input.topicId !== meta.shardOf) return { outcome: { kind: "absent" } };

  const refusal = refuse(view, meta, input);
  if (refusal) return { outcome: refusal };

  const { producer, close, payloads } = input;
  const changes = payloads.length === 0 ? [] : appendChanges(view, meta, input, now, holdBytes);
  if (producer) changes.push(put(producerTable, producer.id, { epoch: producer.epoch, seq: producer.seq }));
  if (input.seq !== undefined) changes.push(put(seqTable, "", input.seq));
  if (close && !meta.closed) {
    changes.push(put(metaTable, "", { ...meta, closed: true, closedBy: producer, touchedAt: now }));
  } else if (slides(meta, view.head, now) && payloads.length === 0) {
    changes.push(put(metaTable, "", { ...meta, touchedAt: now }));
  }

  const { generation, last } = view.head;
  const next = payloads.length === 0 ? last : { generation, seq: last.seq + payloads.length };
  const isCloseOnly = payloads.length === 0;
  const closed = close || meta.closed;
  return { outcome: { kind: "appended", next, closed, producer, follows: followsOf(meta), isCloseOnly }, changes };
}

function appendChanges(view: View, { config }: Meta, input: Append, now: number, holdBytes: number): Change[] {
  // Publish times never fall, even if the clock was set back, because positions are found by binary search over them.
  const messages = toMessages(input, Math.max(now, view.head.at));
  const append: Change = { op: "append", messages };
  if (config.retention === undefined) return [append];
  return [append, ...cutForRetention(view, config.retention, messages, now, holdBytes)];
}

/** The first reason not to append. A recognized repetition counts as one. */
function refuse(view: View, meta: Meta, input: Append): AppendOutcome | undefined {
  const { producer, payloads } = input;
  const known = producer && view.get(producerTable, producer.id);
  if (producer && known && producer.epoch < known.epoch) return { kind: "producer-fenced", epoch: known.epoch };

  if (meta.closed) return refuseClosed(view, meta, input, known);
  if (payloads.length > 0 && !isSameType(input.contentType ?? "", meta.config.contentType)) {
    return { kind: "wrong-type", contentType: meta.config.contentType };
  }
  if (producer) {
    const refusal = refuseProducer(view, meta, producer, known);
    if (refusal) return refusal;
  }
  if (input.seq !== undefined) {
    const last = view.get(seqTable, "");
    if (last !== undefined && input.seq <= last) return { kind: "seq-regression", last };
  }
  return undefined;
}

/** A closed stream accepts repetitions of accepted appends, and a second close without data. It refuses the rest. */
function refuseClosed(view: View, meta: Meta, input: Append, known: Producer | undefined): AppendOutcome {
  const { producer, payloads } = input;
  const { last } = view.head;
  if (producer === undefined) {
    if (payloads.length === 0) return { kind: "appended", next: last, closed: true, isCloseOnly: true };
    return { kind: "closed", next: last };
  }
  const repeated = known !== undefined && producer.epoch === known.epoch && producer.seq <= known.seq;
  // Only the request that closed the stream may repeat its close. A plain append that was accepted before may be
  // repeated.
  if (repeated && (!input.close || isSame(meta.closedBy, producer))) {
    return { kind: "duplicate", next: last, closed: true, producer: known, follows: followsOf(meta) };
  }
  return { kind: "closed", next: last };
}

function refuseProducer(
  view: View,
  meta: Meta,
  producer: ProducerTriple,
  known: Producer | undefined,
): AppendOutcome | undefined {
  if (known === undefined || producer.epoch > known.epoch) {
    if (producer.seq === 0) return undefined;
    if (known !== undefined) return { kind: "producer-epoch-start" };
    return { kind: "producer-gap", expected: 0, received: producer.seq };
  }
  if (producer.seq <= known.seq) {
    return { kind: "duplicate", next: view.head.last, closed: false, producer: known, follows: followsOf(meta) };
  }
  if (producer.seq === known.seq + 1) return undefined;
  return { kind: "producer-gap", expected: known.seq + 1, received: producer.seq };
}

function isSame(a: ProducerTriple | undefined, b: ProducerTriple): boolean {
  return a !== undefined && a.id === b.id && a.epoch === b.epoch && a.seq === b.seq;
}

function toMessages(input: Append, at: number): Message[] {
  const { payloads, messageId, messageKey, attributes } = input;
  if (messageId === undefined && messageKey === undefined && attributes === undefined) {
    return payloads.map((payload) => ({ payload, at }));
  }
  return payloads.map((payload) => ({ payload, at, id: messageId, key: messageKey, attributes }));
}
