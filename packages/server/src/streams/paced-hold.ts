/**
 * A follower's hold on a stream, moved at a limited pace, because each move is a commit that competes with appends. A
 * feature has one per stream that it follows, and reports its position after each step.
 *
 * Invariants: a hold that must fall falls at once. A hold that may rise does so at most every 5 s or 8 MiB. It also
 * rises when the follower is idle, so that no message stays held for longer than that.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Cancel, World } from "../core/world.ts";

const PACE_MS = 5_000;
const PACE_BYTES = 8 * 1024 * 1024;

/** Stores the hold; rejects if the commit failed. */
export type StoreHold = (position: Position, name: string) => Promise<unknown>;

export class PacedHold {
  private stored: Position | undefined;
  private storedAt = 0;
  private bytes = 0;
  private next: { readonly position: Position; readonly name: string } | undefined;
  private timer: Cancel | undefined;

  constructor(
    private readonly world: World,
    private readonly store: StoreHold,
    private readonly report: (fault: unknown) => void,
  ) {}

  /** Whether a move waits for its time. */
  get isWaiting(): boolean {
    return this.timer !== undefined;
  }

  /** `bytes`: how much the follower has taken since its last call. */
  async move(position: Position, name: string, bytes: number): Promise<void> {
    this.bytes += bytes;
    this.next = { position, name };
    if (this.isDue(position)) return this.write();
    const restMs = this.storedAt + PACE_MS - this.world.monotonicMs();
    this.timer ??= this.world.after(restMs, () => {
      this.timer = undefined;
      this.write().catch(this.report);
    });
  }

  /** Forgets the stored hold, because another node may have changed it. */
  forget(): void {
    this.timer?.();
    this.timer = undefined;
    this.stored = undefined;
    this.next = undefined;
    this.bytes = 0;
  }

  private isDue(position: Position): boolean {
    if (this.stored === undefined || comparePositions(position, this.stored) < 0) return true;
    if (comparePositions(position, this.stored) === 0) return false;
    return this.bytes >= PACE_BYTES || this.world.monotonicMs() - this.storedAt >= PACE_MS;
  }

  private async write(): Promise<void> {
    const { next } = this;
    if (next === undefined) return;
    this.timer?.();
    this.timer = undefined;
    this.next = undefined;
    this.stored = undefined;
    await this.store(next.position, next.name);
    this.stored = next.position;
    this.storedAt = this.world.monotonicMs();
    this.bytes = 0;
  }
}
