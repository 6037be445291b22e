/**
 * Lines on their way out: gathered for a moment, written together, one write at a time. The log writes into it; `stderr.ts` gives
 * it its outlet.
 *
 * What must stay true: adding a line never waits. What the outlet does not take is kept up to a limit, beyond it lines are
 * dropped and counted, and when there is room again one line says how many.
 */
import type { Cancel, World } from "../core/world.ts";
import { type LineLimits, LOG_LIMITS } from "./limits.ts";

export interface Outlet {
  /** Calls `done` once, when the text was taken or lost. */
  write(text: string, done: (fault?: unknown) => void): void;
  /** For the last moment of a process: writes what can be written at once, and neither waits nor throws. */
  writeNow(text: string): void;
}

export class LineBuffer {
  /** Lines that nobody will ever see. */
  dropped = 0;
  private text = "";
  private lines = 0;
  /** Lines in the write that is under way; 0 when there is none. */
  private underWay = 0;
  private untold = 0;
  private timer: Cancel | undefined;
  private idle: (() => void)[] = [];

  /** `tellDropped` makes the line that says how many are missing. */
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

  /** There may be no later: what waits goes out now, as far as it can. */
  flushNow(): void {
    const { text } = this;
    this.text = "";
    this.lines = 0;
    if (text !== "") this.outlet.writeNow(text);
  }

  /** Resolves when everything is written, or after `withinMs` when the outlet takes nothing. */
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
