/**
 * A bounded buffer of log lines: it collects lines for a moment and writes them together, one write at a time. The log
 * adds lines; `stderr.ts` provides the outlet.
 *
 * Lines wait as bytes, because thousands of them a second as strings cost more than all else that the log does: they outlive
 * collections, and are put together only when they are written.
 *
 * Invariants: adding a line never waits. While the outlet accepts nothing, lines are kept up to a limit; further lines
 * are dropped and counted. After the next successful write one line states how many are missing.
 */
import type { Cancel, World } from "../core/world.ts";
import { type LineLimits, LOG_LIMITS } from "./defaults.ts";

export interface Outlet {
  /** Calls `done` once, when the bytes are written or lost. Until then they stay as they are. */
  write(bytes: Uint8Array, done: (fault?: unknown) => void): void;
  /** For the end of a process: writes as much as the outlet accepts at once, and neither waits nor throws. */
  writeNow(bytes: Uint8Array): void;
}

/** The most bytes that UTF-8 needs for a character, as `length` counts them. */
const CHAR_BYTES = 3;
const NOTHING = Buffer.alloc(0);

export class LineBuffer {
  /** Lines that were lost, since the start. */
  dropped = 0;
  /** The lines that wait, up to `used`. */
  private bytes = NOTHING;
  private used = 0;
  private lines = 0;
  /** Memory for the lines that wait next. */
  private spare = NOTHING;
  /** Lines in the current write; 0 if there is none. */
  private underWay = 0;
  /** Lost lines that no line has reported yet. */
  private untold = 0;
  private timer: Cancel | undefined;
  private idle: (() => void)[] = [];

  /** `tellDropped` renders the line that states how many are missing. */
  constructor(
    private readonly outlet: Outlet,
    private readonly world: Pick<World, "after">,
    private readonly tellDropped: (count: number) => string,
    private readonly limits: LineLimits = LOG_LIMITS,
  ) {}

  add(line: string): void {
    if (!this.hasRoomFor(line.length)) return;
    this.put(line);
    this.added();
  }

  /** As `add`, for a line that is bytes already; they are copied. */
  addBytes(line: Uint8Array): void {
    if (!this.hasRoomFor(line.length)) return;
    this.reserve(line.length);
    this.bytes.set(line, this.used);
    this.used += line.length;
    this.lines++;
    this.added();
  }

  private hasRoomFor(length: number): boolean {
    const hasRoom = this.used + length <= this.limits.bufferBytes;
    if (!hasRoom) this.lose(1);
    return hasRoom;
  }

  private added(): void {
    if (this.underWay > 0) return;
    if (this.used >= this.limits.writeBytes) this.write();
    else this.timer ??= this.world.after(this.limits.holdMs, () => this.write());
  }

  private put(line: string): void {
    this.reserve(CHAR_BYTES * line.length);
    this.used += this.bytes.write(line, this.used);
    this.lines++;
  }

  private reserve(bytes: number): void {
    const needed = this.used + bytes;
    if (needed > this.bytes.length) this.grow(Math.max(needed, 2 * this.bytes.length, 2 * this.limits.writeBytes));
  }

  private grow(length: number): void {
    const larger = Buffer.allocUnsafeSlow(length);
    this.bytes.copy(larger, 0, 0, this.used);
    this.bytes = larger;
  }

  private write(): void {
    this.timer?.();
    this.timer = undefined;
    if (this.underWay > 0) return;
    const { bytes, lines } = this;
    this.underWay = lines;
    const waiting = this.take();
    this.outlet.write(waiting, (fault) => {
      // What had to grow is given back to the system.
      if (bytes.length <= 2 * this.limits.writeBytes) this.spare = bytes;
      this.written(fault);
    });
  }

  private take(): Buffer {
    const waiting = this.bytes.subarray(0, this.used);
    this.bytes = this.spare;
    this.spare = NOTHING;
    this.used = 0;
    this.lines = 0;
    return waiting;
  }

  private written(fault: unknown): void {
    if (fault) this.lose(this.underWay);
    else if (this.untold > 0) {
      this.put(this.tellDropped(this.untold));
      this.untold = 0;
    }
    this.underWay = 0;
    if (this.used >= this.limits.writeBytes || (this.idle.length > 0 && this.lines > 0)) this.write();
    else if (this.lines > 0) this.timer ??= this.world.after(this.limits.holdMs, () => this.write());
    else for (const wake of this.idle.splice(0)) wake();
  }

  private lose(lines: number): void {
    this.dropped += lines;
    this.untold += lines;
  }

  /** Writes the waiting lines at once, because the process may end. */
  flushNow(): void {
    if (this.used > 0) this.outlet.writeNow(this.take());
  }

  /** Resolves when everything is written, or after `withinMs` if the outlet accepts nothing. */
  async close(withinMs: number): Promise<void> {
    if (this.underWay === 0 && this.lines === 0) return;
    const written = new Promise<void>((resolve) => this.idle.push(resolve));
    let cancel: Cancel = () => {};
    const late = new Promise<void>((resolve) => {
      cancel = this.world.after(withinMs, resolve);
    });
    if (this.underWay === 0) this.write();
    await Promise.race([written, late]);
    cancel();
  }
}
