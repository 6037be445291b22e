/**
 * A bounded buffer of log lines: it collects lines for a moment and writes them together, one write at a time. The log
 * adds lines; `stderr.ts` provides the outlet.
 *
 * Invariants: adding a line never waits. While the outlet accepts nothing, lines are kept up to a limit; further lines
 * are dropped and counted. After the next successful write one line states how many are missing.
 */
import type { Cancel, World } from "../core/world.ts";
import { type LineLimits, LOG_LIMITS } from "./defaults.ts";

export interface Outlet {
  /** Calls `done` once, when the text is written or lost. */
  write(text: string, done: (fault?: unknown) => void): void;
  /** For the end of a process: writes as much as the outlet accepts at once, and neither waits nor throws. */
  writeNow(text: string): void;
}

export class LineBuffer {
  /** Lines that were lost, since the start. */
  dropped = 0;
  private text = "";
  private lines = 0;
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
    if (this.text.length + line.length > this.limits.bufferChars) {
      this.lose(1);
      return;
    }
    this.text += line;
    this.lines++;
    if (this.underWay > 0) return;
    if (this.text.length >= this.limits.writeChars) this.write();
    else this.timer ??= this.world.after(this.limits.holdMs, () => this.write());
  }

  private write(): void {
    this.timer?.();
    this.timer = undefined;
    if (this.underWay > 0) return;
    const { text, lines } = this;
    this.text = "";
    this.lines = 0;
    this.underWay = lines;
    this.outlet.write(text, (fault) => this.written(fault));
  }

  private written(fault: unknown): void {
    if (fault) this.lose(this.underWay);
    else if (this.untold > 0) {
      this.text += this.tellDropped(this.untold);
      this.lines++;
      this.untold = 0;
    }
    this.underWay = 0;
    if (this.text.length >= this.limits.writeChars || (this.idle.length > 0 && this.lines > 0)) this.write();
    else if (this.lines > 0) this.timer ??= this.world.after(this.limits.holdMs, () => this.write());
    else for (const wake of this.idle.splice(0)) wake();
  }

  private lose(lines: number): void {
    this.dropped += lines;
    this.untold += lines;
  }

  /** Writes the waiting lines at once, because the process may end. */
  flushNow(): void {
    const { text } = this;
    this.text = "";
    this.lines = 0;
    if (text !== "") this.outlet.writeNow(text);
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
