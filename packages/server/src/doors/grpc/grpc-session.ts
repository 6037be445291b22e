/**
 * One connection of gRPC: whether its client is still there, and whether it is still of use. The gRPC server makes one per connection.
 *
 * Invariants: a client that answers no ping in time is cut. A connection without calls for `idleMs` is closed; its client opens
 * another when it needs one. A session that has ended leaves no open socket, even if its client keeps its side open.
 */
import type { ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Cancel, World } from "../../core/world.ts";
import type { GrpcLimits } from "./defaults.ts";

export interface SessionParts {
  readonly world: World;
  readonly limits: GrpcLimits;
}

export class GrpcSession {
  private calls = 0;
  private usedAt: number;
  private timer: Cancel = () => {};

  constructor(
    private readonly session: ServerHttp2Session,
    private readonly socket: Socket,
    private readonly parts: SessionParts,
  ) {
    this.usedAt = parts.world.monotonicMs();
    this.lookAfter(parts.limits.pingMs);
    socket.once("close", () => this.timer());
  }

  /** Counts a call until its stream closes. */
  enter(stream: ServerHttp2Stream): void {
    this.calls++;
    stream.once("close", () => {
      this.calls--;
      this.usedAt = this.parts.world.monotonicMs();
    });
  }

  private lookAfter(ms: number): void {
    this.timer = this.parts.world.after(ms, () => this.look());
  }

  private look(): void {
    const { session, socket } = this;
    const { world, limits } = this.parts;
    // Node waits for the end of the client's side, which may never come.
    if (session.destroyed) socket.destroy();
    // Its last calls are in flight, and Node sends no more pings.
    else if (session.closed) this.lookAfter(limits.pingMs);
    else if (this.calls === 0 && world.monotonicMs() - this.usedAt >= limits.idleMs) {
      session.close();
      this.lookAfter(limits.pongMs);
    } else this.ping();
  }

  private ping(): void {
    const { session, socket } = this;
    const { world, limits } = this.parts;
    this.timer = world.after(limits.pongMs, () => socket.destroy());
    const isSent = session.ping(() => {
      this.timer();
      // A session that ends gives its pings up, but its socket may stay open.
      if (!socket.destroyed) this.lookAfter(limits.pingMs);
    });
    // Earlier pings are not answered.
    if (!isSent) socket.destroy();
  }
}
