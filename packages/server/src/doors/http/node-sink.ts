/**
 * The sink of a live response on `node:http`. The adapter makes one per live response; `Connection` writes to it and owns its
 * pace and its end.
 *
 * Invariants: bytes that only this connection holds, and that the network has not taken, are charged to the memory budget. A
 * client whose bytes find no room there is cut off as a slow reader.
 */
import type { ServerResponse } from "node:http";
import type { EndReason, Sink } from "../../core/sink.ts";
import { type NodeRequest, onOver } from "./node-request.ts";

export class NodeSink implements Sink {
  private readonly outgoing: ServerResponse;
  private readonly draining: (() => void)[] = [];
  /** What the budget is charged for, until the network has taken everything. */
  private held = 0;

  constructor(private readonly request: NodeRequest) {
    this.outgoing = request.outgoing;
    // A reset by the client is not a fault of the server; `close` follows it.
    this.outgoing.on("error", () => {});
  }

  get buffered(): number {
    return this.outgoing.writableLength;
  }

  write(bytes: Uint8Array, isShared = false): void {
    if (this.outgoing.destroyed) return;
    this.request.line.shared.traffic.sentBytes += bytes.length;
    this.outgoing.write(bytes, this.written);
    // Node passes the chunks of a turn to the network at the end of that turn, and usually the network takes all of them.
    if (!isShared) process.nextTick(this.charge, bytes.length);
  }

  private readonly charge = (bytes: number): void => {
    if (this.outgoing.destroyed || this.buffered === 0) return;
    if (this.request.line.requests.hold(bytes)) this.held += bytes;
    else this.cut("slow-reader");
  };

  /** Runs when everything is written. Node's `drain` fires at its high-water mark, below which much may still wait. */
  onDrain(task: () => void): void {
    if (this.buffered === 0) queueMicrotask(task);
    else this.draining.push(task);
  }

  private readonly written = (): void => {
    if (this.buffered > 0) return;
    if (this.held > 0) {
      this.request.line.requests.drained(this.held);
      this.held = 0;
    }
    if (this.draining.length > 0) for (const task of this.draining.splice(0)) task();
  };

  onGone(task: () => void): void {
    onOver(this.request, task);
  }

  end(why?: EndReason): void {
    this.request.endedBy ??= why;
    this.outgoing.end(this.written);
  }

  cut(why?: EndReason): void {
    if (!this.outgoing.destroyed && why !== undefined) this.request.endedBy = why;
    this.outgoing.destroy();
  }
}
