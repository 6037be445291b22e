/**
 * The steps of a leader whose members share whole streams: which borrower has which stream, and how a stream moves.
 * `leader-rules.ts` calls it.
 *
 *     [free] -> granting -> granted -> revoking -> revoked -> [free]          of each stream
 *
 * Invariants: a stream has one assignment at most. Progress of an epoch that is over moves nothing.
 */
import { comparePositions } from "@sluice/protocol";
import { assign, type Placed } from "./assignment.ts";
import {
  type Assignment,
  EPOCHS_PER_TERM,
  type FoundStream,
  type GroupStream,
  isDone,
  type Member,
  newStream,
} from "./leader-state.ts";
import { type AboutGiven, MemberTurn } from "./member-turn.ts";
import type { Disconnect, Granted, Progress } from "./messages.ts";

export class ShareTurn extends MemberTurn {
  protected toldOfGiven(member: Member, message: AboutGiven): void {
    if (message.type === "update_progress") for (const one of message.progress) this.progress(member, one);
    else if (message.type === "revoke_finished") this.revokeFinished(member, message);
  }

  protected partWith(member: Member, { progress }: Disconnect): void {
    for (const one of progress) this.advance(member, one);
  }

  protected takeBack({ id }: Member): void {
    for (const stream of this.leader.streams.values()) if (stream.assignment?.borrower === id) this.unassign(stream);
  }

  protected resendAll(): void {
    for (const path of [...this.leader.unsettled]) this.resend(this.leader.streams.get(path)!);
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

  private resend(stream: GroupStream): void {
    const { now, timers } = this;
    const assignment = stream.assignment!;
    if (assignment.status === "revoking" && now - assignment.sinceMs >= timers.drainMs) this.finalize(stream);
    else if (assignment.sentMs === undefined || now - assignment.sentMs < timers.resendMs) return;
    else if (assignment.status === "revoked") this.tellRevoked(stream, assignment);
    else this.tellAssignment(stream, assignment);
  }

  protected give(): void {
    const { leader } = this;
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
}

function placeOf({ path, home, assignment }: GroupStream): Placed {
  const isHeld = assignment?.status === "granting" || assignment?.status === "granted";
  return { path, home, holder: isHeld ? assignment.borrower : undefined, isFree: assignment === undefined };
}
