/**
 * A follower's hold on a stream, moved at a limited pace, because each move is a commit that competes with appends. A
 * feature has one per stream that it follows, and reports its position after each step.
 *
 * Invariants: a hold that must fall falls at once. A hold that may rise does so at most every 5 s or 8 MiB. It also
 * rises when the follower is idle, so that no message stays held for longer than that. A position is stored at once or
 * not at all, because the follower may need earlier messages by the time a move is due.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Cancel, World } from "../core/world.ts";

const PACE_MS = 5_000;
const PACE_BYTES = 8 * 1024 * 1024;

export interface HoldParts {
  readonly world: World;
  /** Stores the hold; rejects if the commit failed. */
  store(position: Position, name: string): Promise<unknown>;
  /** A move that came too soon is due now: the follower moves the hold to where it stands by now. */
  again(): Promise<void>;
  report(fault: unknown): void;
}

export class PacedHold {
  private stored: Position | undefined;
  private storedAt = 0;
  private bytes = 0;
  private timer: Cancel | undefined;

  constructor(private readonly parts: HoldParts) {}

  /** Whether a move waits for its time. */
  get isWaiting(): boolean {
    return this.timer !== undefined;
  }

  /** `bytes`: how much the follower has taken since its last call. */
  async move(position: Position, name: string, bytes: number): Promise<void> {
    this.bytes += bytes;
    if (this.stored !== undefined && comparePositions(position, this.stored) === 0) return;
    if (this.isDue(position)) await this.write(position, name);
    else this.later(this.storedAt + PACE_MS - this.parts.world.monotonicMs());
  }

  /** Asks for the position again after a while. */
  later(ms = PACE_MS): void {
    const { world, again, report } = this.parts;
    this.timer ??= world.after(ms, () => {
      this.timer = undefined;
      again().catch(report);
    });
  }

  /** Forgets the stored hold, because another node may have changed it. */
  forget(): void {
    this.timer?.();
    this.timer = undefined;
    this.stored = undefined;
    this.bytes = 0;
  }

  private isDue(position: Position): boolean {
    if (this.stored === undefined || comparePositions(position, this.stored) < 0) return true;
    return this.bytes >= PACE_BYTES || this.parts.world.monotonicMs() - this.storedAt >= PACE_MS;
  }

  private async write(position: Position, name: string): Promise<void> {
    this.forget();
    await this.parts.store(position, name);
    this.stored = position;
    this.storedAt = this.parts.world.monotonicMs();
  }
}
