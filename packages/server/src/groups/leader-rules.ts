/**
 * The leader of a group, as a state machine: it tracks members and streams, assigns streams to borrowers, takes their progress
 * and asks for it to be stored. The leader process drives it with messages, streams, outcomes of commits, and the time.
 *
 *     [free] -> granting -> granted -> revoking -> revoked -> [free]          of each stream
 *
 * Invariants: a step depends on nothing but the state, the event and the time, and changes nothing but the state, in place,
 * because a copy of 100,000 streams would cost more than any event. A stream has one assignment at most. Progress of an epoch
 * that is over moves nothing. What is confirmed to a borrower is durable. The time of a member runs from its own last message,
 * so that no traffic of others postpones its eviction.
 */
import { comparePositions } from "@sluice/protocol";
import { assign, type Placed } from "./assignment.ts";
import type { GroupTimers } from "./defaults.ts";
import {
  type Assignment,
  EPOCHS_PER_TERM,
  type FoundStream,
  type GroupStream,
  isDone,
  type Leader,
  type LeaderEffect,
  type LeaderEvent,
  type Member,
  newStream,
} from "./leader-state.ts";
import { LeaderTurn } from "./leader-turn.ts";
import type { BorrowerAddress, Granted, Progress, ToLeader } from "./messages.ts";

export function leaderStep(
  leader: Leader,
  event: LeaderEvent,
  now: number,
  timers: GroupTimers,
): readonly LeaderEffect[] {
  if (leader.isReleased) return [];
  const step = new Step(leader, now, timers);
  switch (event.type) {
    case "told":
      step.told(event.from, event.message);
      break;
    case "found":
      for (const found of event.streams) step.found(found);
      break;
    case "lost":
      for (const path of event.paths) step.lost(path);
      break;
    case "stored":
      step.stored();
      break;
    case "store_failed":
      step.storeFailed();
      break;
    case "tick":
      step.tick();
  }
  return step.finished();
}

/** When the leader needs its next tick. */
export function leaderDueMs({ tickAtMs, reassignAtMs, storeAtMs, storing }: Leader): number {
  const storeMs = storing === undefined ? storeAtMs : undefined;
  return Math.min(tickAtMs, reassignAtMs ?? tickAtMs, storeMs ?? tickAtMs);
}

class Step extends LeaderTurn {
  told(from: BorrowerAddress, message: ToLeader): void {
    const member = this.leader.members.get(from.id);
    if (member !== undefined) member.heardMs = this.now;
    if (message.type === "leader_wanted") this.connect(from, message.member);
    else if (message.type === "disconnect") this.disconnect(from, member, message.progress);
    else if (member === undefined) this.send(from, { type: "invalidate" });
    else if (message.type === "ping") this.ping(member, message.sentMs);
    else if (message.type === "update_progress") for (const one of message.progress) this.progress(member, one);
    else this.revokeFinished(member, message);
  }

  private connect(from: BorrowerAddress, member: string): void {
    const { members } = this.leader;
    if (!members.has(from.id)) members.set(from.id, { ...from, member, heardMs: this.now, isConfirmed: false });
    this.leader.emptySinceMs = undefined;
    this.send(from, { type: "leader_connect_response" });
  }

  private ping(member: Member, sentMs: number): void {
    if (!member.isConfirmed) {
      member.isConfirmed = true;
      // The first member waits for no others.
      this.reassignIn(this.leader.members.size === 1 ? 0 : this.timers.reassignMs);
    }
    this.send(member, { type: "ping_response", sentMs });
  }

  private disconnect(from: BorrowerAddress, member: Member | undefined, progress: readonly Progress[]): void {
    if (member !== undefined) {
      for (const one of progress) this.advance(member, one);
      this.remove(member);
    }
    this.leader.leavers.push(from);
    // A leaver is waiting for its answer, so its progress waits for nothing else.
    if (this.leader.dirty.size > 0) this.leader.storeAtMs = this.now;
  }

  /** Its streams are free at once, for the others. */
  private remove({ id }: Member): void {
    const { members, streams } = this.leader;
    members.delete(id);
    if (members.size === 0) this.leader.emptySinceMs = this.now;
    for (const stream of streams.values()) if (stream.assignment?.borrower === id) this.unassign(stream);
    this.reassignIn(0);
  }

  private progress(member: Member, report: Progress): void {
    const { stream: path, epoch } = report;
    const stream = this.advance(member, report);
    if (stream === undefined) {
      // The grant is over. The borrower may not know, if it was silent for long.
      const position = this.leader.streams.get(path)?.stored ?? report.position;
      this.send(member, { type: "revoked", stream: path, epoch, position });
      return;
    }
    const assignment = stream.assignment!;
    if (assignment.status === "granting") {
      this.settle(stream, "granted");
      stream.home = member.member;
      this.store(path);
    }
    stream.end ??= report.end;
    if (report.isGone) this.lost(path);
    else if (isDone(stream)) this.finalize(stream);
    else if (assignment.status === "revoking" && report.isFinal) this.finalize(stream);
    if (assignment.status === "revoked") {
      if (assignment.sentMs !== undefined) this.tellRevoked(stream, assignment);
    } else if (comparePositions(stream.progress, stream.stored) <= 0) this.confirm(stream);
  }

  /** Takes the progress of a grant that stands; undefined if it does not. */
  private advance({ id }: Member, { stream: path, epoch, position }: Progress): GroupStream | undefined {
    const stream = this.leader.streams.get(path);
    if (stream?.assignment?.borrower !== id || stream.assignment.epoch !== epoch) return undefined;
    if (comparePositions(position, stream.progress) > 0) {
      stream.progress = position;
      this.store(path);
    }
    return stream;
  }

  /** The final progress is known. The borrower is told when it is durable. */
  private finalize(stream: GroupStream): void {
    const assignment = stream.assignment!;
    if (assignment.status === "revoked") return;
    this.settle(stream, "revoked");
    this.leader.unsettled.add(stream.path);
    assignment.sentMs = undefined;
    if (this.isStored(stream)) this.tellRevoked(stream, assignment);
  }

  private revokeFinished({ id }: Member, { stream: path, epoch }: Granted): void {
    const stream = this.leader.streams.get(path);
    if (stream?.assignment?.borrower !== id || stream.assignment.epoch !== epoch) return;
    // A borrower that never got the grant answers the revoke in this way too.
    if (stream.assignment.status !== "revoking" && stream.assignment.status !== "revoked") return;
    this.unassign(stream);
    this.reassignIn(0);
  }

  private unassign(stream: GroupStream): void {
    stream.assignment = undefined;
    this.leader.unsettled.delete(stream.path);
    if (stream.isGone) this.leader.streams.delete(stream.path);
  }

  found({ path, from, end, isHeld }: FoundStream): void {
    const { streams } = this.leader;
    let stream = streams.get(path);
    if (stream === undefined || stream.isGone) {
      const assignment = stream?.assignment;
      // Without progress there is nothing to store: the next leader begins in the same place.
      stream = { ...newStream(path, { at: from }), assignment };
      streams.set(path, stream);
      if (isHeld) this.store(path);
      this.reassignIn(this.timers.reassignMs);
    }
    stream.end = end;
    if (isDone(stream) && stream.assignment !== undefined) this.finalize(stream);
  }

  lost(path: string): void {
    const stream = this.leader.streams.get(path);
    if (stream === undefined || stream.isGone) return;
    stream.isGone = true;
    this.store(path);
    if (stream.assignment === undefined) this.leader.streams.delete(path);
    else this.finalize(stream);
    this.reassignIn(this.timers.reassignMs);
  }

  tick(): void {
    const { leader, now, timers } = this;
    if (now >= leader.tickAtMs) {
      leader.tickAtMs = now + timers.resendMs;
      for (const member of [...leader.members.values()]) {
        if (now - member.heardMs > timers.memberTimeoutMs) this.remove(member);
      }
      for (const path of [...leader.unsettled]) this.resend(leader.streams.get(path)!);
    }
    const idleMs = leader.emptySinceMs === undefined ? 0 : now - leader.emptySinceMs;
    if (idleMs >= timers.idleMs && leader.dirty.size === 0 && leader.storing === undefined) this.release("idle");
  }

  private resend(stream: GroupStream): void {
    const { now, timers } = this;
    const assignment = stream.assignment!;
    if (assignment.status === "revoking" && now - assignment.sinceMs >= timers.drainMs) this.finalize(stream);
    else if (assignment.sentMs === undefined || now - assignment.sentMs < timers.resendMs) return;
    else if (assignment.status === "revoked") this.tellRevoked(stream, assignment);
    else this.tellAssignment(stream, assignment);
  }

  private reassign(): void {
    const { leader } = this;
    leader.reassignAtMs = undefined;
    const borrowers = [...leader.members.values()].filter(({ isConfirmed }) => isConfirmed);
    const placed: Placed[] = [];
    for (const stream of leader.streams.values()) if (!stream.isGone && !isDone(stream)) placed.push(placeOf(stream));
    const { revoke, grant } = assign(placed, borrowers);
    for (const path of revoke) this.revoke(leader.streams.get(path)!);
    for (const { path, borrower } of grant) {
      if (leader.nextEpoch < (leader.term + 1) * EPOCHS_PER_TERM) this.grant(leader.streams.get(path)!, borrower);
      else this.release("epochs");
    }
  }

  private grant(stream: GroupStream, borrower: string): void {
    const { leader, now } = this;
    stream.assignment = { borrower, epoch: leader.nextEpoch++, status: "granting", sinceMs: now, sentMs: now };
    leader.unsettled.add(stream.path);
    this.tellAssignment(stream, stream.assignment);
  }

  private revoke(stream: GroupStream): void {
    const assignment = stream.assignment!;
    this.settle(stream, "revoking");
    this.leader.unsettled.add(stream.path);
    this.tellAssignment(stream, assignment);
  }

  private settle({ path, assignment }: GroupStream, status: Assignment["status"]): void {
    assignment!.status = status;
    assignment!.sinceMs = this.now;
    this.leader.unsettled.delete(path);
  }

  private tellAssignment({ path: stream, progress: position }: GroupStream, assignment: Assignment): void {
    const { epoch, status } = assignment;
    assignment.sentMs = this.now;
    const to = this.leader.members.get(assignment.borrower)!;
    if (status === "granting") this.send(to, { type: "grant", stream, epoch, position });
    else this.send(to, { type: "revoke", stream, epoch });
  }

  private release(why: "idle" | "epochs"): void {
    if (this.leader.isReleased) return;
    this.leader.isReleased = true;
    this.effects.push({ kind: "release", why });
  }

  /** What every step ends with: assigning, storing, and confirming. */
  finished(): readonly LeaderEffect[] {
    const { leader, now } = this;
    if (leader.reassignAtMs !== undefined && now >= leader.reassignAtMs) this.reassign();
    this.beginStore();
    this.tellConfirmed();
    return this.effects;
  }
}

function placeOf({ path, home, assignment }: GroupStream): Placed {
  const isHeld = assignment?.status === "granting" || assignment?.status === "granted";
  return { path, home, holder: isHeld ? assignment.borrower : undefined, isFree: assignment === undefined };
}
