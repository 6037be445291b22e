/**
 * Carries the messages between agents and leaders: to this node directly, to another one through `tell`. Agents and the leader
 * registry of a node share one.
 *
 * Invariants: a message of another node is untrusted in form only: one that cannot be read is dropped. No message is larger than
 * `tell` takes, because lists of progress are cut into several messages. Nothing is promised: the rules send again.
 */
import { utf8 } from "../core/bytes.ts";
import type { World } from "../core/world.ts";
import type { Engine, Unwatch } from "../engine/contract.ts";
import { readTold } from "../engine/told.ts";
import { type BorrowerAddress, type FromLeader, type LeaderAddress, MAX_LISTED, type ToLeader } from "./messages.ts";

/** `group` is the key of the group's entity. */
export type Envelope =
  | {
      readonly groups: 1;
      readonly group: string;
      readonly from: BorrowerAddress;
      /** The node of the borrower did not know the leader and asked the node that it thinks has it. */
      readonly isForwarded?: boolean | undefined;
      readonly message: ToLeader;
    }
  | {
      readonly groups: 1;
      readonly group: string;
      readonly to: string;
      readonly leader: LeaderAddress;
      readonly message: FromLeader;
    };

export type ToLeaderEnvelope = Extract<Envelope, { from: BorrowerAddress }>;
export type ToBorrowerEnvelope = Extract<Envelope, { to: string }>;

export interface Ends {
  toLeader(envelope: ToLeaderEnvelope): void;
  toBorrower(envelope: ToBorrowerEnvelope): void;
}

export class Carrier {
  private ends: Ends | undefined;
  private unlisten: Unwatch = () => {};

  constructor(
    private readonly engine: Pick<Engine, "node" | "tell" | "onTold">,
    private readonly world: Pick<World, "soon">,
  ) {}

  get node(): string {
    return this.engine.node;
  }

  start(ends: Ends): void {
    this.ends = ends;
    this.unlisten = this.engine.onTold((bytes) => {
      const envelope = readTold<Envelope>(bytes, '"groups":1');
      if (envelope !== undefined) this.hear(envelope);
    });
  }

  stop(): void {
    this.unlisten();
    this.ends = undefined;
  }

  send(node: string, envelope: Envelope): void {
    if (node === this.engine.node) {
      this.world.soon(() => this.hear(envelope));
      return;
    }
    for (const part of parts(envelope)) this.engine.tell(node, utf8(JSON.stringify(part)));
  }

  private hear(envelope: Envelope): void {
    if ("from" in envelope) this.ends?.toLeader(envelope);
    else this.ends?.toBorrower(envelope);
  }
}

/** A `disconnect` ends the borrower, so the other parts of its progress go ahead of it. */
function* parts(envelope: Envelope): Iterable<Envelope> {
  const { message } = envelope;
  if (message.type === "settle") yield* cut(envelope, "settlements", message.settlements, "settle");
  else if (message.type === "settled") yield* cut(envelope, "leases", message.leases, "settled");
  else if (message.type === "disconnect" || message.type === "update_progress")
    yield* cut(envelope, "progress", message.progress, "update_progress");
  else if (message.type === "update_progress_response")
    yield* cut(envelope, "progress", message.progress, message.type);
  else yield envelope;
}

/** The last part is of the original type, the others are of the given one. */
function* cut(envelope: Envelope, name: string, list: readonly unknown[], type: string): Iterable<Envelope> {
  for (let at = 0; at === 0 || at < list.length; at += MAX_LISTED) {
    const isLast = at + MAX_LISTED >= list.length;
    const message = isLast ? envelope.message : { type };
    yield { ...envelope, message: { ...message, [name]: list.slice(at, at + MAX_LISTED) } } as Envelope;
  }
}
