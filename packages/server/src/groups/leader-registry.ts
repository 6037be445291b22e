/**
 * The leader registry of this node: borrowers that look for their leader ask it. It leads the group itself if no node does,
 * through an atomic claim on the group's entity, and else passes the request on to the node that does.
 *
 * Invariants: this node contends for a group only while a borrower of it looks for a leader, so that a group without members has
 * no leader. A request is passed on once, so that two nodes with old ideas of each other never play ping-pong.
 */
import type { Cancel } from "../core/world.ts";
import { entityOf } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { OwnedEntity, type OwnerLimits } from "../engine/owned-entity.ts";
import type { ToLeaderEnvelope } from "./carrier.ts";
import { type LeaderParts, LeaderProcess } from "./leader-process.ts";
import type { Leader } from "./leader-state.ts";

export interface RegistryParts extends LeaderParts {
  readonly keepers: Keepers;
  readonly claim: OwnerLimits;
}

/** A group that this node leads or contends for. */
interface Seat {
  readonly owned: OwnedEntity;
  leader: LeaderProcess | undefined;
  /** When a borrower last looked for the leader. */
  wantedMs: number;
  /** Requests from before the first answer to the claim, by borrower. */
  readonly waiting: Map<string, ToLeaderEnvelope>;
}

const MAX_WAITING = 1_000;

export class LeaderRegistry {
  private readonly seats = new Map<string, Seat>();
  /** Groups whose leader on this node ended although it had members. */
  private readonly unclean = new Set<string>();
  private timer: Cancel | undefined;
  private isStopped = false;

  constructor(private readonly parts: RegistryParts) {}

  /** What the leader of a group knows, if it is on this node. */
  leaderOf(key: string): Leader | undefined {
    return this.seats.get(key)?.leader?.leader;
  }

  /** The leaders of this node that have read their rows, by the keys of their groups. */
  *serving(): Iterable<readonly [string, Leader]> {
    for (const [key, { leader }] of this.seats) if (leader?.leader !== undefined) yield [key, leader.leader];
  }

  get leaders(): number {
    let count = 0;
    for (const { leader } of this.seats.values()) if (leader !== undefined) count++;
    return count;
  }

  /** The members or streams of all groups that this node leads. */
  count(what: "members" | "streams"): number {
    let count = 0;
    for (const { leader } of this.seats.values()) count += leader?.leader?.[what].size ?? 0;
    return count;
  }

  /** A message to the leader of a group, from a borrower of this node or another. */
  take(envelope: ToLeaderEnvelope): void {
    if (this.isStopped) return;
    const { group, from, message } = envelope;
    const seat = this.seats.get(group);
    if (seat?.leader !== undefined) {
      seat.leader.told(from, message);
      return;
    }
    // All other messages are for a leader that the borrower knew, and it will notice that there is none.
    if (message.type !== "leader_wanted" && message.type !== "disconnect") return;
    if (seat !== undefined) this.pass(seat, envelope);
    else if (message.type === "leader_wanted") this.contend(envelope);
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    this.timer?.();
    const seats = [...this.seats.values()];
    this.seats.clear();
    for (const { leader } of seats) leader?.dismiss();
    await Promise.all(seats.map(({ owned }) => owned.stop()));
  }

  private contend(envelope: ToLeaderEnvelope): void {
    const e = entityOf(envelope.group);
    const { engine, keepers, world, claim: limits, report } = this.parts;
    const owned = new OwnedEntity({ engine, keepers, world, node: engine.node, limits, report }, e, {
      gained: (term) => {
        const isFirstHere = !this.unclean.delete(e.key);
        seat.leader = new LeaderProcess(this.parts, term, isFirstHere, () => this.leave(e.key, seat));
        for (const { from, message } of seat.waiting.values()) seat.leader.told(from, message);
        seat.waiting.clear();
      },
      refused: ({ node }) => this.passOn(seat, node),
      lost: () => {
        if (seat.leader?.hasMembers) this.unclean.add(e.key);
        seat.leader?.stop();
        seat.leader = undefined;
      },
    });
    const seat: Seat = { owned, leader: undefined, wantedMs: 0, waiting: new Map() };
    this.seats.set(e.key, seat);
    this.pass(seat, envelope);
    owned.start();
    this.timer ??= world.after(this.giveUpMs, this.tidy);
  }

  /** To the node that leads the group, as far as this one knows; or to wait for the answer to the claim. */
  private pass(seat: Seat, envelope: ToLeaderEnvelope): void {
    const { carrier, world } = this.parts;
    if (envelope.message.type === "leader_wanted") seat.wantedMs = world.monotonicMs();
    const { holder } = seat.owned;
    const isElsewhere = holder !== undefined && holder.node !== carrier.node;
    if (isElsewhere && !envelope.isForwarded) carrier.send(holder.node, { ...envelope, isForwarded: true });
    else if (seat.waiting.size < MAX_WAITING) seat.waiting.set(envelope.from.id, envelope);
  }

  /** The claim has met a leader on another node: the requests so far are for it. */
  private passOn({ waiting }: Seat, node: string): void {
    const { carrier } = this.parts;
    if (node === carrier.node) return;
    for (const [id, envelope] of waiting) {
      if (envelope.isForwarded) continue;
      waiting.delete(id);
      carrier.send(node, { ...envelope, isForwarded: true });
    }
  }

  private get giveUpMs(): number {
    return 3 * this.parts.timers.findLeaderMs;
  }

  /** Leaves the contests that no borrower has wanted any more for a while. */
  private readonly tidy = (): void => {
    const { world } = this.parts;
    const untilMs = world.monotonicMs() - this.giveUpMs;
    for (const [key, seat] of this.seats)
      if (seat.leader === undefined && seat.wantedMs < untilMs) this.leave(key, seat);
    const isContending = [...this.seats.values()].some(({ leader }) => leader === undefined);
    this.timer = isContending && !this.isStopped ? world.after(this.giveUpMs, this.tidy) : undefined;
  };

  private leave(key: string, seat: Seat): void {
    if (this.seats.get(key) === seat) this.seats.delete(key);
    if (seat.leader?.hasMembers) this.unclean.add(key);
    seat.leader?.stop();
    seat.leader = undefined;
    void seat.owned.stop();
  }
}
