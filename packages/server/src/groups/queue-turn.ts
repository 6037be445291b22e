/**
 * The steps of a leader whose members share single messages: it leases the next message to the member with the fewest outstanding,
 * and takes acknowledgements, refusals and extensions. `leader-rules.ts` calls it; `leases/` has the leases themselves.
 *
 * Invariants: a member has no more messages than its credit. An acknowledgement is answered when it is durable. A batch of leases
 * is sent again until its borrower confirms it, without the leases that have ended meanwhile.
 */
import { comparePositions, formatOffset, type Position } from "@sluice/protocol";
import type { Block } from "../leases/block-row.ts";
import { LeaseCore } from "../leases/lease-core.ts";
import {
  type Batch,
  type FoundStream,
  type GroupStream,
  isDone,
  type Member,
  newStream,
  positionOf,
  type QueuedStream,
  type Settling,
  type StreamRow,
} from "./leader-state.ts";
import { type AboutGiven, MemberTurn } from "./member-turn.ts";
import { type Disconnect, type Extension, type Leased, MAX_LISTED, type Settlement } from "./messages.ts";

function buryKey(path: string, position: Position): string {
  return `${path} ${formatOffset(position)}`;
}

export class QueueTurn extends MemberTurn {
  private get queue() {
    return this.leader.queue!;
  }

  found({ path, from, end, isHeld, blocks }: FoundStream): void {
    const { streams } = this.leader;
    const known = streams.get(path);
    const stream = known === undefined || known.isGone ? newStream(path, { at: from }) : known;
    if (stream !== known) streams.set(path, stream);
    if (isHeld && stream !== known) this.store(path);
    stream.end = end;
    stream.queued ??= this.newQueued(stream, blocks);
    if (!isDone(stream)) this.readOn(stream);
  }

  private newQueued(stream: GroupStream, blocks: Iterable<readonly [number, Block]> = []): QueuedStream {
    const { path, progress, marked = progress } = stream;
    const { leader, queue } = this;
    const parts = {
      wheel: queue.wheel,
      nextNumber: () => queue.nextLease++,
      maxAttempts: queue.maxAttempts,
      ended: ({ holder }: { readonly holder: string }) => {
        const member = leader.members.get(holder);
        if (member !== undefined) member.outstanding--;
      },
      died: () => queue.dying.add(path),
    };
    const { generation, seq } = progress;
    const core = new LeaseCore(parts, seq, seq, blocks, this.now);
    // Blocks of an earlier stream at this path may be left beyond.
    core.rewind(Math.max(seq, marked.seq), seq);
    return { core, generations: [{ from: 0, generation }], tail: progress, marked, isReading: false, isDry: false };
  }

  lost(path: string): void {
    const stream = this.leader.streams.get(path);
    if (stream === undefined) return;
    stream.queued?.core.rewind(0, 0);
    this.leader.streams.delete(path);
    this.store(path);
  }

  /** Messages that follow the last one that was read. */
  read(path: string, positions: readonly Position[], isDry: boolean): void {
    const stream = this.leader.streams.get(path);
    const queued = stream?.queued;
    if (stream === undefined || queued === undefined) return;
    queued.isReading = false;
    queued.isDry = isDry;
    for (const position of positions) this.append(stream, queued, position);
    if (queued.core.dead.size > 0) this.queue.dying.add(path);
    this.reassignIn(0);
  }

  private append(stream: GroupStream, queued: QueuedStream, position: Position): void {
    const { core, generations, tail, marked } = queued;
    if (comparePositions(position, tail) <= 0) return;
    // A known number in a later generation: the stream lost its end, or was created anew.
    const isReplaced = position.generation > marked.generation && position.seq <= marked.seq;
    if (isReplaced || position.seq <= tail.seq) {
      core.rewind(position.seq - 1, position.seq - 1);
      queued.generations = generations.filter(({ from }) => from < position.seq);
      this.store(stream.path);
    }
    if (isReplaced || comparePositions(position, marked) > 0) queued.marked = position;
    if (position.generation !== queued.generations.at(-1)?.generation) {
      queued.generations.push({ from: position.seq, generation: position.generation });
    }
    core.extendTail(position.seq);
    queued.tail = position;
  }

  /** Retention took what was not processed. */
  trimmed(path: string, through: Position): void {
    const stream = this.leader.streams.get(path);
    const queued = stream?.queued;
    if (stream === undefined || queued === undefined) return;
    queued.isReading = false;
    const gap = { type: "gap", stream: path, after: stream.progress, through } as const;
    for (const member of this.leader.members.values()) this.send(member, gap);
    this.append(stream, queued, through);
    queued.core.dropThrough(through.seq);
    this.store(path);
    this.reassignIn(0);
  }

  woken(path: string): void {
    const stream = this.leader.streams.get(path);
    if (stream?.queued === undefined) return;
    stream.queued.isDry = false;
    this.reassignIn(0);
  }

  buried(path: string, position: Position): void {
    const queued = this.leader.streams.get(path)?.queued;
    this.queue.burying.delete(buryKey(path, position));
    // Another message has its number if the stream lost its end meanwhile.
    if (queued === undefined || comparePositions(positionOf(queued, position.seq), position) !== 0) return;
    queued.core.drop(position.seq);
    this.store(path);
  }

  private readOn({ path, queued }: GroupStream): void {
    if (queued === undefined || queued.isReading || queued.isDry || this.leader.members.size === 0) return;
    queued.isReading = true;
    this.effects.push({ kind: "read", path, after: queued.tail });
  }

  protected toldOfGiven(member: Member, message: AboutGiven): void {
    if (message.type === "leased") this.queue.unconfirmed.delete(`${member.id} ${message.batch}`);
    else if (message.type === "settle") this.settle(member, message.settlements);
    else if (message.type === "extend") for (const one of message.extensions) this.extend(one);
  }

  private settle(member: Member, settlements: readonly Settlement[]): void {
    const answered: { lease: number; isGone: boolean }[] = [];
    for (const { stream: path, lease, position, verdict, delayMs } of settlements) {
      const core = this.leader.streams.get(path)?.queued?.core;
      const { seq } = position;
      if (core === undefined) answered.push({ lease, isGone: true });
      else if (verdict === "nack") {
        const outcome = core.nack(seq, lease, this.now, delayMs);
        if (outcome === "done") this.store(path);
        answered.push({ lease, isGone: outcome === "gone" });
      } else if (core.ack(seq, lease) === "gone" && !core.acks.isAcked(seq)) answered.push({ lease, isGone: true });
      else {
        // A repetition may come before the commit too.
        this.store(path);
        this.queue.settling.push({ to: member, lease, path });
      }
    }
    if (answered.length > 0) this.send(member, { type: "settled", leases: answered });
    this.reassignIn(0);
  }

  private extend({ stream, lease, position, leaseMs }: Extension): void {
    this.leader.streams.get(stream)?.queued?.core.extend(position.seq, lease, this.now, leaseMs);
  }

  protected partWith(member: Member, { settlements = [] }: Disconnect): void {
    this.settle(member, settlements);
  }

  protected takeBack({ id }: Member, isGraceful: boolean): void {
    for (const [key, { borrower }] of this.queue.unconfirmed) if (borrower === id) this.queue.unconfirmed.delete(key);
    for (const { path, queued } of this.leader.streams.values()) {
      if (queued === undefined || queued.core.outstandingOf(id) === 0) continue;
      queued.core.release(id, isGraceful);
      this.store(path);
    }
    if (this.leader.members.size > 0) return;
    for (const { queued } of this.leader.streams.values()) if (queued !== undefined) queued.isDry = false;
    this.effects.push({ kind: "rest" });
  }

  protected resendAll(): void {
    const { leader, now, timers, queue } = this;
    for (const [key, batch] of queue.unconfirmed) {
      if (now - batch.sentMs < timers.resendMs) continue;
      const leases = batch.leases.filter(({ stream, position, lease }) =>
        leader.streams.get(stream)?.queued?.core.isLeased(position.seq, lease),
      );
      if (leases.length === 0) queue.unconfirmed.delete(key);
      else this.sendBatch({ ...batch, leases });
    }
  }

  /** Gives back what has run out, and leases what is ready, one message of each stream in turn. */
  protected give(): void {
    const given = new Map<Member, Leased[]>();
    const members = [...this.leader.members.values()].filter(({ isConfirmed }) => isConfirmed);
    for (let isMoving = true; isMoving; ) {
      isMoving = false;
      for (const stream of this.leader.streams.values()) {
        const member = this.freest(members);
        if (member === undefined) {
          isMoving = false;
          break;
        }
        if (stream.queued === undefined) continue;
        const lease = stream.queued.core.lease(member.id, this.now, this.queue.leaseMs);
        if (lease === undefined) {
          if (!isDone(stream)) this.readOn(stream);
          continue;
        }
        isMoving = true;
        member.outstanding++;
        const position = positionOf(stream.queued, lease.seq);
        const leased = { stream: stream.path, position, lease: lease.number, attempt: lease.attempt };
        given.set(member, [...(given.get(member) ?? []), leased]);
      }
    }
    for (const [member, leases] of given) this.tellLeases(member, leases);
  }

  /** The member with the fewest outstanding messages that takes more; members with equally many take turns. */
  private freest(members: readonly Member[]): Member | undefined {
    const { queue } = this;
    let best: number | undefined;
    for (let i = 0; i < members.length; i++) {
      const at = (queue.turn + i) % members.length;
      const { outstanding, credit } = members[at]!;
      if (outstanding < credit && (best === undefined || outstanding < members[best]!.outstanding)) best = at;
    }
    if (best === undefined) return undefined;
    queue.turn = best + 1;
    return members[best];
  }

  private tellLeases(member: Member, leases: readonly Leased[]): void {
    for (let at = 0; at < leases.length; at += MAX_LISTED) {
      const batch = ++member.batches;
      const { id: borrower, pingedMs: sinceMs } = member;
      this.sendBatch({ borrower, batch, leases: leases.slice(at, at + MAX_LISTED), sinceMs, sentMs: this.now });
    }
  }

  private sendBatch(batch: Batch): void {
    const { borrower, batch: number, leases, sinceMs } = batch;
    this.queue.unconfirmed.set(`${borrower} ${number}`, { ...batch, sentMs: this.now });
    const to = this.leader.members.get(borrower)!;
    this.send(to, { type: "lease", batch: number, leases, sinceMs, leaseMs: this.queue.leaseMs });
  }

  /** Leases and delays that have run out. */
  override finished() {
    const { queue, now } = this;
    for (const [core, seqs] of queue.wheel.take(now)) {
      for (const seq of seqs) core.due(seq, now);
      this.reassignIn(0);
    }
    this.buryDead();
    return super.finished();
  }

  private buryDead(): void {
    for (const path of this.queue.dying) {
      this.queue.dying.delete(path);
      const queued = this.leader.streams.get(path)?.queued;
      if (queued === undefined) continue;
      for (const [seq, why] of queued.core.dead) {
        const position = positionOf(queued, seq);
        const key = buryKey(path, position);
        // A message that died under an earlier leader is put aside once it has been read, because only then its position is known.
        if (this.queue.burying.has(key) || seq > queued.tail.seq) continue;
        this.queue.burying.add(key);
        const attempts = queued.core.acks.attemptsOf(seq);
        this.effects.push({ kind: "bury", path, position, attempts, why });
        this.store(path);
      }
    }
  }

  protected override rowOf(stream: GroupStream | undefined): StreamRow | undefined {
    const queued = stream?.queued;
    if (stream === undefined || queued === undefined) return super.rowOf(stream);
    const at = positionOf(queued, queued.core.floor);
    stream.progress = at;
    return { at, marked: queued.marked, blocks: queued.core.acks.takeChanged() };
  }

  protected override beginStore(): void {
    const wasStoring = this.leader.storing !== undefined;
    super.beginStore();
    if (wasStoring || this.leader.storing === undefined) return;
    const { storing: rows } = this.leader;
    this.queue.storing = this.queue.settling.filter(({ path }) => rows.has(path));
    this.queue.settling = this.queue.settling.filter(({ path }) => !rows.has(path));
  }

  override stored(): void {
    super.stored();
    const { storing } = this.queue;
    this.queue.storing = [];
    const byBorrower = new Map<string, Settling[]>();
    for (const one of storing) {
      const list = byBorrower.get(one.to.id);
      if (list === undefined) byBorrower.set(one.to.id, [one]);
      else list.push(one);
    }
    for (const settled of byBorrower.values()) {
      const leases = settled.map(({ lease }) => ({ lease, isGone: false }));
      this.send(settled[0]!.to, { type: "settled", leases });
    }
  }

  override storeFailed(): void {
    for (const [path, row] of this.leader.storing ?? []) {
      this.leader.streams.get(path)?.queued?.core.acks.redo(row?.blocks?.keys() ?? []);
    }
    this.queue.settling = [...this.queue.storing, ...this.queue.settling];
    this.queue.storing = [];
    super.storeFailed();
  }
}
