/**
 * The part of a leader's step that both modes share: members come, ping, leave and are evicted, and a leader without members ends.
 * `share-turn.ts` and `queue-turn.ts` build on it.
 *
 * Invariants: the time of a member runs from its own last message, so that no traffic of others postpones its eviction. A borrower
 * gets nothing before its first ping, because its request to connect may be an old one.
 */
import type { FoundStream, LeaderEffect, Member } from "./leader-state.ts";
import { LeaderTurn } from "./leader-turn.ts";
import type { BorrowerAddress, Disconnect, ToLeader } from "./messages.ts";

/** The messages of a member about what it was given. */
export type AboutGiven = Exclude<ToLeader, { type: "leader_wanted" | "ping" | "disconnect" }>;

export abstract class MemberTurn extends LeaderTurn {
  abstract found(found: FoundStream): void;
  abstract lost(path: string): void;
  protected abstract toldOfGiven(member: Member, message: AboutGiven): void;
  /** Takes the last words of a member. */
  protected abstract partWith(member: Member, message: Disconnect): void;
  /** The member is gone: what it had is free for the others. `isGraceful`: it said so. */
  protected abstract takeBack(member: Member, isGraceful: boolean): void;
  /** Sends again what was not answered. */
  protected abstract resendAll(): void;
  /** Gives free streams or messages to members. */
  protected abstract give(): void;

  told(from: BorrowerAddress, message: ToLeader): void {
    const member = this.leader.members.get(from.id);
    if (member !== undefined) member.heardMs = this.now;
    if (message.type === "leader_wanted") this.connect(from, message.member, message.credit);
    else if (message.type === "disconnect") this.disconnect(from, member, message);
    else if (member === undefined) this.send(from, { type: "invalidate" });
    else if (message.type === "ping") this.ping(member, message);
    else this.toldOfGiven(member, message);
  }

  private connect(from: BorrowerAddress, member: string, credit = 0): void {
    const { members } = this.leader;
    const fresh = {
      heardMs: this.now,
      isConfirmed: false,
      credit,
      outstanding: 0,
      batches: 0,
      pingedMs: 0,
      pending: [],
    };
    if (!members.has(from.id)) members.set(from.id, { ...from, member, ...fresh });
    this.leader.emptySinceMs = undefined;
    this.send(from, { type: "leader_connect_response" });
  }

  private ping(member: Member, { sentMs, pending = [] }: Extract<ToLeader, { type: "ping" }>): void {
    if (!member.isConfirmed) {
      member.isConfirmed = true;
      // The first member waits for no others.
      this.reassignIn(this.leader.members.size === 1 ? 0 : this.timers.reassignMs);
    }
    if (sentMs >= member.pingedMs) member.pending = pending;
    member.pingedMs = Math.max(member.pingedMs, sentMs);
    this.send(member, { type: "ping_response", sentMs });
  }

  private disconnect(from: BorrowerAddress, member: Member | undefined, message: Disconnect): void {
    if (member !== undefined) {
      this.partWith(member, message);
      this.remove(member, message.isGraceful ?? false);
    }
    this.leader.leavers.push(from);
    // A leaver is waiting for its answer, so its progress waits for nothing else.
    if (this.leader.dirty.size > 0) this.leader.storeAtMs = this.now;
  }

  private remove(member: Member, isGraceful: boolean): void {
    const { members } = this.leader;
    members.delete(member.id);
    if (members.size === 0) this.leader.emptySinceMs = this.now;
    this.takeBack(member, isGraceful);
    this.reassignIn(0);
  }

  tick(): void {
    const { leader, now, timers } = this;
    if (now >= leader.tickAtMs) {
      leader.tickAtMs = now + timers.resendMs;
      for (const member of [...leader.members.values()]) {
        if (now - member.heardMs > timers.memberTimeoutMs) this.remove(member, false);
      }
      this.resendAll();
    }
    const idleMs = leader.emptySinceMs === undefined ? 0 : now - leader.emptySinceMs;
    if (idleMs >= timers.idleMs && leader.dirty.size === 0 && leader.storing === undefined) this.release("idle");
  }

  protected release(why: "idle" | "epochs"): void {
    if (this.leader.isReleased) return;
    this.leader.isReleased = true;
    this.effects.push({ kind: "release", why });
  }

  /** What every step ends with: assigning, storing, and confirming. */
  finished(): readonly LeaderEffect[] {
    const { leader, now } = this;
    if (leader.reassignAtMs !== undefined && now >= leader.reassignAtMs) {
      leader.reassignAtMs = undefined;
      this.give();
    }
    this.beginStore();
    this.tellConfirmed();
    return this.effects;
  }
}
