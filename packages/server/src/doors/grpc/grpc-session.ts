/**
 * One connection of gRPC: whether its client is still there, and whether it is still of use. The gRPC server makes one per connection.
 *
 * Invariants: a client that answers no ping in time is cut. A connection without calls for `idleMs` is closed; its client opens
 * another when it needs one.
 */
import type { ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { Cancel, World } from "../../core/world.ts";
import type { GrpcLimits } from "./defaults.ts";

export interface SessionParts {
  readonly world: World;
  readonly limits: GrpcLimits;
}

export class GrpcSession {
  private calls = 0;
  private usedAt: number;
  private timer: Cancel;

  constructor(
    private readonly session: ServerHttp2Session,
    private readonly parts: SessionParts,
  ) {
    this.usedAt = parts.world.monotonicMs();
    this.timer = this.lookLater();
    session.once("close", () => this.timer());
  }

  /** Counts a call until its stream closes. */
  enter(stream: ServerHttp2Stream): void {
    this.calls++;
    stream.once("close", () => {
      this.calls--;
      this.usedAt = this.parts.world.monotonicMs();
    });
  }

  private lookLater(): Cancel {
    return this.parts.world.after(this.parts.limits.pingMs, () => this.look());
  }

  private look(): void {
    const { session } = this;
    const { world, limits } = this.parts;
    if (this.calls === 0 && world.monotonicMs() - this.usedAt >= limits.idleMs) {
      session.close();
      return;
    }
    this.timer = world.after(limits.pongMs, () => session.destroy());
    const isSent = session.ping((fault: Error | null) => {
      this.timer();
      if (fault === null && !session.destroyed) this.timer = this.lookLater();
    });
    // Earlier pings are not answered.
    if (!isSent) session.destroy();
  }
}
