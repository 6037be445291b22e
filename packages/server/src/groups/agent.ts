/**
 * The agent: what a session's handler sees of groups. It turns the subscriptions of sessions into borrowers, makes new borrowers
 * where the rules ask for it, and carries their messages. `NoAgent` is the stub for a server without groups.
 *
 * Invariants: borrowers are known by their ids only, so that several of one member and group can stand side by side, some
 * connecting and some ending. A message for a borrower that is gone is answered with `disconnect`, so that its leader forgets it.
 */

import { hex } from "../core/bytes.ts";
import type { Cancel, World } from "../core/world.ts";
import type { Entity } from "../engine/contract.ts";
import { borrowerDueMs, borrowerStep, holdsUntilMs } from "./borrower-rules.ts";
import { type Borrower, type BorrowerEffect, type BorrowerEvent, newBorrower } from "./borrower-state.ts";
import type { Carrier, ToBorrowerEnvelope } from "./carrier.ts";
import type { GroupTimers } from "./defaults.ts";
import type { Extension, InFlight, Progress, Settlement, ToLeader } from "./messages.ts";

/** What the session learns of its subscription: the effects of its borrower, without messages. */
export type SessionEffect = Exclude<BorrowerEffect, { kind: "send" }>;

export interface Subscription {
  /** Whether messages may be delivered now. A session asks before each. */
  isHeld(): boolean;
  progress(progress: readonly Progress[]): void;
  /** Of a queue. */
  settle(settlements: readonly Settlement[]): void;
  extend(extensions: readonly Extension[]): void;
  /** Drains, and ends when the last progress is stored. */
  unsubscribe(): void;
  /** Ends at once: the connection is lost. */
  disconnect(): void;
}

export interface Subscriber {
  readonly group: Entity;
  readonly member: string;
  /** Of a queue: how many messages the member takes. */
  readonly credit?: number | undefined;
  /** What is in flight, for the operator; the streams with the most of it. */
  readonly pending?: (() => readonly InFlight[]) | undefined;
}

export interface Agent {
  subscribe(subscriber: Subscriber, perform: (effect: SessionEffect) => void): Subscription;
}

/** Subscriptions have no effect. */
export class NoAgent implements Agent {
  subscribe(_subscriber: Subscriber, perform: (effect: SessionEffect) => void): Subscription {
    const end = () => perform({ kind: "destroyed", isRestart: false });
    const none = () => {};
    return { isHeld: () => false, progress: none, settle: none, extend: none, unsubscribe: end, disconnect: end };
  }
}

export interface AgentParts {
  readonly world: World;
  readonly carrier: Carrier;
  readonly timers: GroupTimers;
}

const ID_BYTES = 8;

export class GroupAgent implements Agent {
  private readonly borrowers = new Map<string, Loan>();

  constructor(private readonly parts: AgentParts) {}

  get size(): number {
    return this.borrowers.size;
  }

  subscribe(subscriber: Subscriber, perform: (effect: SessionEffect) => void): Subscription {
    let loan: Loan;
    const begin = () => {
      loan = this.begin(subscriber, perform, begin);
    };
    begin();
    return {
      isHeld: () => loan.isHeld(),
      progress: (progress) => loan.step({ type: "on_stream_progress", progress }),
      settle: (settlements) => loan.step({ type: "on_settle", settlements }),
      extend: (extensions) => loan.step({ type: "on_extend", extensions }),
      unsubscribe: () => loan.step({ type: "on_unsubscribe" }),
      disconnect: () => loan.step({ type: "on_disconnect" }),
    };
  }

  private begin(subscriber: Subscriber, perform: (effect: SessionEffect) => void, again: () => void): Loan {
    const id = hex(this.parts.world.randomBytes(ID_BYTES));
    const ended = (isRestart: boolean) => {
      this.borrowers.delete(id);
      perform({ kind: "destroyed", isRestart });
      if (isRestart) again();
    };
    const loan = new Loan(this.parts, subscriber, id, perform, ended);
    this.borrowers.set(id, loan);
    loan.arm();
    return loan;
  }

  /** A message of a leader. */
  take({ group, to, leader, message }: ToBorrowerEnvelope): void {
    const loan = this.borrowers.get(to);
    if (loan !== undefined) loan.step({ type: "told", leader, message });
    else if (message.type !== "disconnect_response" && message.type !== "invalidate") {
      const from = { id: to, node: this.parts.carrier.node };
      this.parts.carrier.send(leader.node, { groups: 1, group, from, message: { type: "disconnect", progress: [] } });
    }
  }

  stop(): void {
    for (const loan of [...this.borrowers.values()]) loan.step({ type: "on_disconnect" });
  }
}

/** A borrower with its timer and its address. */
class Loan {
  private readonly borrower: Borrower;
  private timer: Cancel | undefined;
  private timerAtMs = Number.POSITIVE_INFINITY;

  constructor(
    private readonly parts: AgentParts,
    private readonly subscriber: Subscriber,
    private readonly id: string,
    private readonly perform: (effect: SessionEffect) => void,
    private readonly ended: (isRestart: boolean) => void,
  ) {
    this.borrower = newBorrower(subscriber.member, this.now, subscriber.credit);
  }

  private get now(): number {
    return this.parts.world.monotonicMs();
  }

  isHeld(): boolean {
    return this.now < holdsUntilMs(this.borrower, this.parts.timers);
  }

  step(event: BorrowerEvent): void {
    for (const effect of borrowerStep(this.borrower, event, this.now, this.parts.timers)) {
      if (effect.kind === "send") this.send(effect);
      else if (effect.kind === "destroyed") {
        this.timer?.();
        this.ended(effect.isRestart);
      } else this.perform(effect);
    }
    this.arm();
  }

  private send({ leader, message }: Extract<BorrowerEffect, { kind: "send" }>): void {
    const { carrier } = this.parts;
    const { group } = this.subscriber;
    const from = { id: this.id, node: carrier.node };
    const told = message.type === "ping" ? this.withPending(message) : message;
    carrier.send(leader?.node ?? carrier.node, { groups: 1, group: group.key, from, message: told });
  }

  private withPending(ping: ToLeader & { type: "ping" }): ToLeader {
    const pending = this.subscriber.pending?.() ?? [];
    return pending.length === 0 ? ping : { ...ping, pending };
  }

  arm(): void {
    if (this.borrower.status === "destroyed") return;
    const dueMs = borrowerDueMs(this.borrower, this.parts.timers);
    if (dueMs >= this.timerAtMs) return;
    this.timer?.();
    this.timerAtMs = dueMs;
    this.timer = this.parts.world.after(Math.max(0, dueMs - this.now), () => {
      this.timerAtMs = Number.POSITIVE_INFINITY;
      this.step({ type: "tick" });
    });
  }
}
