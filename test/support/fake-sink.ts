/**
 * The client of a connection, under the test's control: the bytes it was sent, when it takes them, and when it leaves. The
 * tests of connections and followers use it.
 *
 * Invariants: a write after the end throws.
 */
import type { EndReason, Sink } from "../../packages/server/src/core/sink.ts";

export class FakeSink implements Sink {
  text = "";
  buffered = 0;
  endedBy: EndReason | undefined;
  cutBy: EndReason | undefined;
  private drainTasks: (() => void)[] = [];
  private goneTasks: (() => void)[] = [];

  /** A reading client takes all bytes at once; any other only with `take`. */
  constructor(private readonly isReading = true) {}

  write(bytes: Uint8Array): void {
    if (this.endedBy !== undefined || this.cutBy !== undefined) throw new Error("written to after its end");
    this.text += new TextDecoder().decode(bytes);
    if (!this.isReading) this.buffered += bytes.length;
  }

  onDrain(task: () => void): void {
    if (this.buffered === 0) queueMicrotask(task);
    else this.drainTasks.push(task);
  }

  onGone(task: () => void): void {
    this.goneTasks.push(task);
  }

  end(why?: EndReason): void {
    this.endedBy = why;
  }

  cut(why?: EndReason): void {
    this.cutBy = why;
  }

  /** The client takes all buffered bytes, or this many of them. */
  take(bytes = this.buffered): void {
    this.buffered -= Math.min(bytes, this.buffered);
    if (this.buffered === 0) for (const task of this.drainTasks.splice(0)) task();
  }

  leave(): void {
    for (const task of this.goneTasks.splice(0)) task();
  }
}
