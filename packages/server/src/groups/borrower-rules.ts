/**
 * The borrower: one subscription of a member to a group, as a state machine. It finds the leader, takes and gives back streams,
 * and reports progress until that is durable. An agent drives it with messages, the words of its session, and the time.
 *
 *     [new] -> connecting -> connected -> unsubscribing -> [destroyed]        of the borrower
 *     [absent] -> granted -> revoking -> [absent]                             of each stream
 *
 * Invariants: a step depends on nothing but the state, the event and the time, and changes nothing but the state, in place. No
 * status comes back. A grant is taken once: its repetition installs nothing, however late. A borrower that cannot explain a
 * message ends and asks for a new one, which the leader does not take for it.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { LeaseTurn } from "./borrower-leases.ts";
import type { BorrowedStream, Borrower, BorrowerEffect, BorrowerEvent } from "./borrower-state.ts";
import { type GroupTimers, graceMs } from "./defaults.ts";
import { type FromLeader, type Granted, type LeaderAddress, MAX_LISTED, type Progress } from "./messages.ts";

export function borrowerStep(
  borrower: Borrower,
  event: BorrowerEvent,
  now: number,
  timers: GroupTimers,
): readonly BorrowerEffect[] {
  if (borrower.status === "destroyed") return [];
  const step = new Step(borrower, now, timers);
  switch (event.type) {
    case "told":
      step.told(event.leader, event.message);
      break;
    case "on_stream_progress":
      step.report(event.progress);
      break;
    case "on_settle":
      step.settle(event.settlements);
      break;
    case "on_extend":
      step.extend(event.extensions);
      break;
    case "on_unsubscribe":
      step.unsubscribe();
      break;
    case "on_disconnect":
      step.leave();
      step.destroy(false);
      break;
    case "tick":
      step.tick();
  }
  return step.effects;
}

/** When the borrower needs its next tick. */
export function borrowerDueMs(borrower: Borrower, timers: GroupTimers): number {
  const { status, findAtMs, pingAtMs, resendAtMs, leaveUntilMs } = borrower;
  if (status === "connecting") return findAtMs;
  const endMs = status === "unsubscribing" ? leaveUntilMs : givesUpAtMs(borrower, timers);
  return Math.min(pingAtMs, endMs, resendAtMs ?? pingAtMs);
}

/** The borrower may deliver messages until then, unless its leader answers a later ping before. */
export function holdsUntilMs({ answeredMs }: Borrower, timers: GroupTimers): number {
  return answeredMs + graceMs(timers);
}

function givesUpAtMs({ answeredMs, connectedMs, patientUntilMs }: Borrower, timers: GroupTimers): number {
  return Math.max(Math.max(answeredMs, connectedMs) + graceMs(timers), patientUntilMs);
}

class Step extends LeaseTurn {
  told(leader: LeaderAddress, message: FromLeader): void {
    const { borrower } = this;
    const known = borrower.leader;
    if (known === undefined) {
      if (message.type === "leader_connect_response") this.connect(leader);
      // A leader that invalidates cannot be meant yet: the borrower has not spoken to it. All else comes too early or too late.
      return;
    }
    if (leader.term < known.term) return;
    // A later leader has replaced the one that granted these streams. It may grant them to other borrowers at once.
    if (leader.term > known.term || message.type === "invalidate") {
      this.destroy(true);
      return;
    }
    if (message.type === "ping_response") this.answered(message.sentMs);
    else if (message.type === "update_progress_response") this.progressStored(message.progress);
    else if (message.type === "settled") this.settled(message.leases);
    else if (message.type === "disconnect_response") this.left();
    else if (borrower.status === "connected") this.toldOfStream(message);
  }

  private progressStored(progress: readonly Progress[]): void {
    for (const one of progress) this.stored(one, one.position);
    this.leaveIfDrained();
  }

  private answered(sentMs: number): void {
    const { borrower, now, timers } = this;
    const wasHeld = now < holdsUntilMs(borrower, timers);
    borrower.answeredMs = Math.max(borrower.answeredMs, sentMs);
    if (!wasHeld && now < holdsUntilMs(borrower, timers)) this.effects.push({ kind: "resumed" });
  }

  private toldOfStream(message: FromLeader): void {
    if (message.type === "grant") this.grant(message, message.position);
    else if (message.type === "revoke") this.revoke(message);
    else if (message.type === "revoked") this.revoked(message, message.position);
    else if (message.type === "lease") this.lease(message);
    else if (message.type === "gap") {
      const { stream, after, through } = message;
      this.effects.push({ kind: "gap", stream, after, through });
    }
  }

  private connect(leader: LeaderAddress): void {
    const { borrower } = this;
    borrower.leader = leader;
    borrower.status = "connected";
    borrower.connectedMs = this.now;
    this.effects.push({ kind: "connected" });
    // The leader grants nothing to a borrower that has not pinged, because its request may be an old one.
    this.ping();
  }

  private grant({ stream, epoch }: Granted, position: Position): void {
    const { streams, finished } = this.borrower;
    const held = streams.get(stream);
    if (epoch <= (finished.get(stream) ?? 0) || (held !== undefined && epoch < held.epoch)) return;
    // The leader would not grant a stream that this borrower holds. So its idea of this borrower is another one.
    if (held !== undefined && epoch > held.epoch) {
      this.destroy(true);
      return;
    }
    if (held === undefined) {
      const fresh = { isFinal: false, end: undefined, isGone: false };
      streams.set(stream, { epoch, status: "granted", progress: position, stored: position, ...fresh });
      this.effects.push({ kind: "granted", stream, epoch, position });
    }
    // The first progress, which may be none, tells the leader that the grant has arrived.
    this.tellProgress([stream]);
  }

  private revoke({ stream, epoch }: Granted): void {
    const held = this.borrower.streams.get(stream);
    if (held === undefined || held.epoch < epoch) {
      this.finish({ stream, epoch });
      return;
    }
    if (held.epoch > epoch) return;
    if (held.status === "granted") {
      held.status = "revoking";
      this.effects.push({ kind: "revoking", stream, epoch });
    } else this.tellProgress([stream]);
  }

  /** It may come without a `revoke`, which was lost while the time to drain ran out. */
  private revoked({ stream, epoch }: Granted, position: Position): void {
    const held = this.borrower.streams.get(stream);
    if (held !== undefined && held.epoch > epoch) return;
    if (held?.epoch === epoch) {
      this.stored({ stream, epoch }, position);
      this.effects.push({ kind: "revoked", stream, epoch });
    }
    this.finish({ stream, epoch });
  }

  /** The borrower has nothing of this grant: any more, or at all if the grant was lost. */
  private finish({ stream, epoch }: Granted): void {
    const { streams, finished } = this.borrower;
    // A stream of an older epoch cannot be held beside a later grant.
    if (streams.has(stream) && streams.get(stream)!.epoch < epoch) {
      this.destroy(true);
      return;
    }
    streams.delete(stream);
    finished.set(stream, Math.max(epoch, finished.get(stream) ?? 0));
    this.send({ type: "revoke_finished", stream, epoch });
  }

  private stored({ stream, epoch }: Granted, position: Position): void {
    const held = this.borrower.streams.get(stream);
    if (held === undefined || held.epoch !== epoch) return;
    // A leader may know of more than this borrower has reported: what it granted the stream with.
    const durable = comparePositions(position, held.progress) < 0 ? position : held.progress;
    if (comparePositions(durable, held.stored) <= 0) return;
    held.stored = durable;
    this.effects.push({ kind: "acked", stream, epoch, position: durable });
  }

  report(progress: readonly Progress[]): void {
    const { borrower } = this;
    const moved: string[] = [];
    for (const { stream, epoch, position, isFinal = false, end, isGone = false } of progress) {
      const held = borrower.streams.get(stream);
      if (held === undefined || held.epoch !== epoch) continue;
      if (comparePositions(position, held.progress) > 0) held.progress = position;
      held.isFinal ||= isFinal;
      held.isGone ||= isGone;
      held.end ??= end;
      moved.push(stream);
    }
    this.leaveIfDrained();
    if (!borrower.isLeaving && moved.length > 0) this.tellProgress(moved);
  }

  /** The answer to `disconnect` confirms what it lists. So it goes when one message can list what is not confirmed. */
  protected leaveIfDrained(): void {
    const { status, isLeaving, streams, leases } = this.borrower;
    if (status !== "unsubscribing" || isLeaving || leases.size > 0) return;
    for (const { isFinal } of streams.values()) if (!isFinal) return;
    if (this.unconfirmed().length <= MAX_LISTED) this.leave();
  }

  private unconfirmed(): string[] {
    const found: string[] = [];
    for (const [stream, { progress, stored }] of this.borrower.streams) {
      if (comparePositions(progress, stored) > 0) found.push(stream);
    }
    return found;
  }

  unsubscribe(): void {
    const { borrower, now, timers } = this;
    if (borrower.status === "unsubscribing") return;
    if (borrower.status === "connecting") {
      this.leave();
      this.destroy(false);
      return;
    }
    borrower.status = "unsubscribing";
    borrower.leaveUntilMs = now + timers.unsubscribeMs;
    for (const [stream, held] of borrower.streams) {
      if (held.status === "granted") this.effects.push({ kind: "revoking", stream, epoch: held.epoch });
      held.status = "revoking";
    }
    this.leaveIfDrained();
  }

  /** Tells the leader the last progress. Without a leader the registry passes it on, in case a request is on its way. */
  leave(): void {
    const { borrower, now, timers } = this;
    borrower.isLeaving = true;
    borrower.resendAtMs = now + timers.resendMs;
    const isGraceful = borrower.status === "unsubscribing";
    this.send({
      type: "disconnect",
      progress: this.progressOf(this.unconfirmed()),
      ...(borrower.leases.size > 0 && { settlements: this.settlements() }),
      ...(isGraceful && { isGraceful }),
    });
  }

  private left(): void {
    if (!this.borrower.isLeaving) {
      this.destroy(true);
      return;
    }
    for (const [stream, held] of this.borrower.streams) this.stored({ stream, epoch: held.epoch }, held.progress);
    this.destroy(false);
  }

  destroy(isRestart: boolean): void {
    const { borrower } = this;
    for (const [stream, { epoch }] of borrower.streams) this.effects.push({ kind: "revoked", stream, epoch });
    borrower.streams.clear();
    borrower.leases.clear();
    this.effects.push({ kind: "destroyed", isRestart: isRestart && borrower.status !== "unsubscribing" });
    borrower.status = "destroyed";
  }

  tick(): void {
    const { borrower, now, timers } = this;
    if (borrower.status === "connecting") {
      if (now < borrower.findAtMs) return;
      borrower.findAtMs = now + timers.findLeaderMs;
      const { member, credit } = borrower;
      this.send({ type: "leader_wanted", member, ...(credit !== undefined && { credit }) });
      return;
    }
    if (borrower.status === "unsubscribing" && now >= borrower.leaveUntilMs) {
      // What is processed counts, although more is in flight.
      if (!borrower.isLeaving) this.leave();
      this.destroy(false);
      return;
    }
    if (borrower.status === "connected" && now >= givesUpAtMs(borrower, timers)) {
      // A borrower that is late with its own ping was not served by its node. So the silence says nothing about the leader, and a
      // restart would only add to the load. It delivers nothing until an answer comes.
      if (now < borrower.pingAtMs + timers.pingMs) {
        this.destroy(true);
        return;
      }
      borrower.patientUntilMs = now + timers.pingTimeoutMs;
    }
    if (now >= borrower.pingAtMs) this.ping();
    if (borrower.resendAtMs !== undefined && now >= borrower.resendAtMs) this.resend();
  }

  private ping(): void {
    const { borrower, now, timers } = this;
    borrower.pingAtMs = now + timers.pingMs;
    this.send({ type: "ping", sentMs: now });
  }

  private resend(): void {
    const { borrower } = this;
    if (borrower.isLeaving) {
      this.leave();
      return;
    }
    const open: string[] = [];
    for (const [stream, held] of borrower.streams) if (isOpen(held)) open.push(stream);
    borrower.resendAtMs = undefined;
    if (open.length > 0) this.tellProgress(open);
    this.tellSettlements(this.settlements());
  }

  private tellProgress(streams: readonly string[]): void {
    const { borrower, now, timers } = this;
    if (borrower.status === "connecting") return;
    borrower.resendAtMs ??= now + timers.resendMs;
    this.send({ type: "update_progress", progress: this.progressOf(streams) });
  }

  private progressOf(streams: Iterable<string>): readonly Progress[] {
    return Array.from(streams, (stream) => {
      const { epoch, progress: position, isFinal, end, isGone } = this.borrower.streams.get(stream)!;
      return {
        ...{ stream, epoch, position },
        ...(isFinal && { isFinal }),
        ...(end !== undefined && { end }),
        ...(isGone && { isGone }),
      };
    });
  }
}

/** Whether the leader has not confirmed the last word on this stream. */
function isOpen({ progress, stored, status, isFinal, end, isGone }: BorrowedStream): boolean {
  const isOver = isGone || (end !== undefined && comparePositions(progress, end) >= 0);
  return isOver || comparePositions(progress, stored) > 0 || (status === "revoking" && isFinal);
}
