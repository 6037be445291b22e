/**
 * One step of a leader: the effects that it collects, and the part of the state that has to do with storing. `leader-rules.ts`
 * builds the decisions on it.
 *
 * Invariants: one commit is in flight at most. Progress is confirmed, a stream is told as revoked and a leaver is told so only
 * when all that they reported is durable.
 */
import { comparePositions } from "@sluice/protocol";
import type { GroupTimers } from "./defaults.ts";
import type { Assignment, GroupStream, Leader, LeaderEffect, StreamRow } from "./leader-state.ts";
import type { BorrowerAddress, FromLeader, Progress } from "./messages.ts";

/** The most rows of one commit. */
const MAX_ROWS = 1_000;
const NO_ROWS: ReadonlyMap<string, StreamRow | undefined> = new Map();

export class LeaderTurn {
  protected readonly effects: LeaderEffect[] = [];
  /** Confirmations of this step, one message per borrower. */
  private readonly confirmed = new Map<string, Progress[]>();

  constructor(
    protected readonly leader: Leader,
    protected readonly now: number,
    protected readonly timers: GroupTimers,
  ) {}

  protected store(path: string): void {
    const { leader, now, timers } = this;
    leader.dirty.add(path);
    leader.storeAtMs ??= now + timers.progressMs;
  }

  /** Nothing is stored of a stream that is gone. */
  protected isStored({ path, progress, stored, isGone }: GroupStream): boolean {
    const { dirty, storing } = this.leader;
    return (isGone || comparePositions(progress, stored) <= 0) && !dirty.has(path) && !storing?.has(path);
  }

  stored(): void {
    const { leader } = this;
    const { storing = NO_ROWS } = leader;
    leader.storing = undefined;
    for (const [path, row] of storing) {
      const stream = leader.streams.get(path);
      if (stream === undefined) continue;
      if (row !== undefined && comparePositions(row.at, stream.stored) > 0) stream.stored = row.at;
      const { assignment } = stream;
      if (assignment === undefined) continue;
      if (assignment.status !== "revoked") this.confirm(stream);
      else if (assignment.sentMs === undefined && this.isStored(stream)) this.tellRevoked(stream, assignment);
    }
    for (const leaver of leader.storingLeavers) this.send(leaver, { type: "disconnect_response" });
    leader.storingLeavers = [];
  }

  /** The outcome is unknown. The rows are absolute and only this leader writes them, so they can be stored again. */
  storeFailed(): void {
    const { leader, now, timers } = this;
    for (const path of leader.storing?.keys() ?? []) leader.dirty.add(path);
    leader.leavers = [...leader.storingLeavers, ...leader.leavers];
    leader.storing = undefined;
    leader.storingLeavers = [];
    leader.storeAtMs = now + timers.resendMs;
  }

  protected confirm({ path: stream, stored: position, assignment }: GroupStream): void {
    const { borrower, epoch } = assignment!;
    const list = this.confirmed.get(borrower) ?? [];
    list.push({ stream, epoch, position });
    this.confirmed.set(borrower, list);
  }

  protected beginStore(): void {
    const { leader, now } = this;
    if (leader.storing !== undefined) return;
    if (leader.dirty.size === 0) {
      for (const leaver of leader.leavers) this.send(leaver, { type: "disconnect_response" });
      leader.leavers = [];
      return;
    }
    if (leader.storeAtMs === undefined || now < leader.storeAtMs) return;
    const rows = new Map<string, StreamRow | undefined>();
    for (const path of leader.dirty) {
      if (rows.size === MAX_ROWS) break;
      rows.set(path, this.rowOf(leader.streams.get(path)));
      leader.dirty.delete(path);
    }
    leader.storing = rows;
    const isAll = leader.dirty.size === 0;
    leader.storeAtMs = isAll ? undefined : now;
    if (isAll) {
      leader.storingLeavers = leader.leavers;
      leader.leavers = [];
    }
    this.effects.push({ kind: "store", rows });
  }

  protected tellRevoked({ path: stream, stored: position }: GroupStream, assignment: Assignment): void {
    assignment.sentMs = this.now;
    const to = this.leader.members.get(assignment.borrower)!;
    this.send(to, { type: "revoked", stream, epoch: assignment.epoch, position });
  }

  protected tellConfirmed(): void {
    for (const [borrower, progress] of this.confirmed) {
      const member = this.leader.members.get(borrower);
      if (member !== undefined) this.send(member, { type: "update_progress_response", progress });
    }
  }

  protected rowOf(stream: GroupStream | undefined): StreamRow | undefined {
    if (stream === undefined || stream.isGone) return undefined;
    const { progress: at, home } = stream;
    return home === undefined ? { at } : { at, home };
  }

  protected reassignIn(ms: number): void {
    const { leader, now } = this;
    const atMs = Math.max(now + ms, leader.grantsFromMs);
    leader.reassignAtMs = Math.min(atMs, leader.reassignAtMs ?? Number.POSITIVE_INFINITY);
  }

  protected send({ id, node }: BorrowerAddress, message: FromLeader): void {
    this.effects.push({ kind: "send", to: { id, node }, message });
  }
}
