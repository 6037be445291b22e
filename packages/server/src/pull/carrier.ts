/**
 * Carries the messages between the node that serves a subscription and the nodes whose clients use it, through `tell`.
 *
 * Invariants: a message of another node is untrusted in form only: one that cannot be read is dropped. No message is larger than
 * `tell` takes, because lists are cut. Nothing is promised: a request is sent again until it is answered, and leases that were
 * told are told again until the other node has confirmed them.
 */
import { utf8 } from "../core/bytes.ts";
import type { Engine, Unwatch } from "../engine/contract.ts";
import { readTold } from "../engine/told.ts";
import type { AckOutcome, StreamEnd, StreamNotice, StreamOptions } from "./contract.ts";

/** Ack ids in one message; each has at most 60 bytes. */
export const MAX_LISTED = 500;

/** What a node asks of the one that serves the subscription. */
export type Ask =
  | { readonly type: "ack"; readonly ids: readonly string[] }
  | { readonly type: "nack"; readonly ids: readonly string[]; readonly delayMs?: number | undefined }
  | { readonly type: "extend"; readonly ids: readonly string[]; readonly leaseMs: number }
  /** Opens the stream, or says that it is still wanted and how far its batches have come. A lower version is old. */
  | {
      readonly type: "open";
      readonly stream: string;
      readonly version: number;
      readonly asked: StreamOptions;
      readonly isPaused: boolean;
      readonly seen: number;
    }
  /** `delivered`: the batches that its client got. The leases of later ones are taken back. */
  | { readonly type: "close"; readonly stream: string; readonly delivered?: number | undefined }
  /** Asks how many messages are leased. */
  | { readonly type: "count" };

/** `elsewhere`: the node does not serve the subscription. */
export type Reply =
  | { readonly type: "outcomes"; readonly outcomes: readonly AckOutcome[] }
  | { readonly type: "ok" }
  | { readonly type: "count"; readonly outstanding: number }
  | { readonly type: "elsewhere" };

/** A lease, as far as the other node cannot find it out from the log. */
export interface ToldLease {
  readonly ackId: string;
  readonly attempt: number;
  readonly deadlineAt: number;
}

export type Envelope =
  | { readonly pull: 1; readonly ask: string; readonly from: string; readonly puller: string; readonly what: Ask }
  | { readonly pull: 1; readonly re: string; readonly reply: Reply }
  | { readonly pull: 1; readonly to: string; readonly batch: number; readonly leases: readonly ToldLease[] }
  /** Nothing is ready after this batch. */
  | { readonly pull: 1; readonly to: string; readonly idleAfter: number }
  | { readonly pull: 1; readonly to: string; readonly notice: StreamNotice }
  | { readonly pull: 1; readonly to: string; readonly ended: StreamEnd };

export type AskEnvelope = Extract<Envelope, { ask: string }>;
export type ReplyEnvelope = Extract<Envelope, { re: string }>;
export type StreamEnvelope = Extract<Envelope, { to: string }>;

export interface Ends {
  asked(envelope: AskEnvelope): void;
  replied(envelope: ReplyEnvelope): void;
  told(envelope: StreamEnvelope): void;
}

export class PullCarrier {
  private unlisten: Unwatch = () => {};

  constructor(private readonly engine: Pick<Engine, "node" | "tell" | "onTold">) {}

  get node(): string {
    return this.engine.node;
  }

  start(ends: Ends): void {
    this.unlisten = this.engine.onTold((bytes) => {
      const envelope = readTold<Envelope>(bytes, '"pull":1');
      if (envelope === undefined) return;
      if ("ask" in envelope) ends.asked(envelope);
      else if ("re" in envelope) ends.replied(envelope);
      else ends.told(envelope);
    });
  }

  stop(): void {
    this.unlisten();
  }

  send(node: string, envelope: Envelope): void {
    this.engine.tell(node, utf8(JSON.stringify(envelope)));
  }
}

/** Pieces that fit into one message. */
export function* cut<T>(list: readonly T[]): Iterable<readonly T[]> {
  for (let at = 0; at < list.length; at += MAX_LISTED) yield list.slice(at, at + MAX_LISTED);
}
