/**
 * A leader of a `ProtocolWorld`: the leader's rules, a claim that it renews, and a store that may fail.
 *
 * Invariants: it acts until its claim ends by its own clock, also when it is cut off from the store. What it stores counts only
 * while the store has it for the owner.
 */
import type { Position } from "@sluice/protocol";
import { graceMs } from "../../packages/server/src/groups/defaults.ts";
import { leaderDueMs, leaderStep } from "../../packages/server/src/groups/leader-rules.ts";
import {
  type Leader,
  type LeaderEvent,
  newLeader,
  type StreamRow,
} from "../../packages/server/src/groups/leader-state.ts";
import type { BorrowerAddress, ToLeader } from "../../packages/server/src/groups/messages.ts";
import { type Block, decodeBlock, encodeBlock } from "../../packages/server/src/leases/block-row.ts";
import { nameOf, type ProtocolWorld, TIMERS } from "./protocol-world.ts";

const CLAIM_MS = 5_000;
/** A leader stops by itself this long before its claim ends. */
const MARGIN_MS = 500;

function copyOf(block: Block): Block {
  return decodeBlock(encodeBlock(block));
}

export class TestLeader {
  readonly state: Leader;
  claimUntilMs: number;
  isDead = false;
  /** Cut off from the store: it serves until its claim ends by its own clock. */
  isCutOff = false;
  private timerAtMs = Number.POSITIVE_INFINITY;
  /** What was stored when it began, until their stream is found. */
  private readonly blocks = new Map<string, readonly (readonly [number, Block])[]>();

  constructor(
    private readonly world: ProtocolWorld,
    readonly term: number,
  ) {
    this.claimUntilMs = world.now + CLAIM_MS;
    const fromMs = term === 1 ? world.now : world.now + graceMs(TIMERS);
    this.state = newLeader(term, world.rows, world.now, fromMs, world.queue);
    // The rules change blocks in place, which the store must not see.
    for (const [path, blocks] of world.blocks) {
      if (world.rows.has(path))
        this.blocks.set(
          path,
          [...blocks].map(([i, block]) => [i, copyOf(block)] as const),
        );
    }
    this.renew();
    this.find();
    this.arm();
  }

  get isServing(): boolean {
    return !this.isDead && this.world.now < this.claimUntilMs - MARGIN_MS;
  }

  private renew(): void {
    this.world.after(CLAIM_MS / 3, () => {
      if (!this.isServing) return;
      if (!this.isCutOff) this.claimUntilMs = this.world.now + CLAIM_MS;
      this.renew();
    });
  }

  find(): void {
    const streams = [...this.world.logs].map(([path, { generation, length, isClosed }]) => ({
      path,
      from: { generation: 0, seq: 0 },
      end: isClosed ? { generation, seq: length } : undefined,
      blocks: this.blocks.get(path) ?? [],
    }));
    for (const { path } of streams) this.blocks.delete(path);
    this.step({ type: "found", streams });
  }

  lose(path: string): void {
    this.step({ type: "lost", paths: [path] });
  }

  told(from: BorrowerAddress, message: ToLeader): void {
    this.step({ type: "told", from, message });
  }

  step(event: LeaderEvent): void {
    if (!this.isServing) return;
    const { world, term, state } = this;
    for (const effect of leaderStep(state, event, world.now, TIMERS)) {
      if (effect.kind === "send") world.toBorrower(effect.to, { node: "n", term }, effect.message);
      else if (effect.kind === "store") this.store(effect.rows);
      else if (effect.kind === "read") this.read(effect.path, effect.after);
      else if (effect.kind === "bury") this.bury(effect.path, effect.position);
      else if (effect.kind === "release") this.release();
    }
    this.arm();
  }

  private store(rows: ReadonlyMap<string, StreamRow | undefined>): void {
    const { world } = this;
    const fails = world.random.chance(world.weather.failedStores);
    world.after(world.random.between(0, 10), () => {
      if (this.isDead) return;
      if (this.isCutOff) {
        world.after(1_000, () => this.step({ type: "store_failed" }));
        return;
      }
      // A failed commit may have happened.
      const isApplied = world.owner === this && (!fails || world.random.chance(0.5));
      if (isApplied) for (const [path, row] of rows) this.apply(path, row);
      if (world.owner !== this) this.isDead = true;
      else world.after(world.random.between(0, 10), () => this.step({ type: fails ? "store_failed" : "stored" }));
    });
  }

  private apply(path: string, row: StreamRow | undefined): void {
    const { rows, blocks } = this.world;
    // The blocks of a stream that is gone are left behind.
    if (row === undefined) {
      rows.delete(path);
      return;
    }
    rows.set(path, row);
    const known = blocks.get(path) ?? new Map<number, Block>();
    blocks.set(path, known);
    for (const [i, block] of row.blocks ?? []) block === undefined ? known.delete(i) : known.set(i, copyOf(block));
  }

  /** Reads a few messages of a log, some time later. */
  private read(path: string, after: Position): void {
    const { world } = this;
    world.after(world.random.between(0, 10), () => {
      const log = world.logs.get(path);
      if (log === undefined) {
        this.lose(path);
        return;
      }
      const { generation, length } = log;
      const first = after.generation === generation ? after.seq + 1 : 1;
      const last = Math.min(length, first + 9);
      const positions = Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => ({
        generation,
        seq: first + i,
      }));
      this.step({ type: "read", path, positions, isDry: last === length });
    });
  }

  private bury(path: string, position: Position): void {
    const { world } = this;
    world.after(world.random.between(0, 10), () => {
      world.ledger.processed(nameOf(path, position), position.seq);
      this.step({ type: "buried", path, position });
    });
  }

  release(): void {
    this.claimUntilMs = this.world.now;
    this.isDead = true;
    if (this.world.owner === this) this.world.owner = undefined;
  }

  private arm(): void {
    const { world, state } = this;
    const dueMs = leaderDueMs(state);
    if (!this.isServing || dueMs >= this.timerAtMs) return;
    this.timerAtMs = dueMs;
    world.after(dueMs - world.now, () => {
      if (this.timerAtMs === dueMs) this.timerAtMs = Number.POSITIVE_INFINITY;
      this.step({ type: "tick" });
      this.arm();
    });
  }
}
