/**
 * Everybody who waits for what comes, on this node: long-polls and SSE connections of streams and channels. The routes count
 * each in before its first look, so that a crowd that comes at once is counted too; compose sends them all home at a shutdown.
 */
import type { HttpRequest } from "./http.ts";
import { Refusal } from "./refusal.ts";

export class Audience {
  private count = 0;
  private isDraining = false;
  private readonly farewells = new Set<() => void>();

  /** `max`: beyond it, the next one is refused. */
  constructor(private readonly max: number) {}

  /** How many there are now; back to zero when the clients have gone. */
  get size(): number {
    return this.count;
  }

  get draining(): boolean {
    return this.isDraining;
  }

  /** Throws a Refusal when there is no room, or soon nobody to answer. Returns how to leave, which may be called twice. */
  enter(request: HttpRequest): () => void {
    if (this.isDraining) throw new Refusal("draining", "the server is shutting down");
    if (this.count >= this.max) {
      throw new Refusal("too-many-waiters", `${this.max} readers are waiting already`);
    }
    this.count++;
    let left = false;
    const leave = () => {
      if (!left) this.count--;
      left = true;
    };
    request.onGone(leave);
    return leave;
  }

  /** `farewell` runs at a shutdown, unless what is returned was called before. */
  stay(farewell: () => void): () => void {
    this.farewells.add(farewell);
    return () => void this.farewells.delete(farewell);
  }

  /** Sends everyone home: they reconnect elsewhere, from where they are. */
  drain(): void {
    this.isDraining = true;
    for (const farewell of [...this.farewells]) farewell();
  }
}
