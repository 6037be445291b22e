/**
 * All clients that wait on this node: long-polls and open connections of every feature. Routes count a client in before its first
 * read, so that clients that arrive together are counted too. Compose drains the audience at shutdown.
 *
 * Invariants: the clients never exceed the limit. After `drain` no client is let in, and every guest has been told.
 */
import { Refusal } from "./refusal.ts";
import type { Departing } from "./sink.ts";

/** A waiting request or connection, which must end when the server shuts down. */
export interface Guest {
  /** Must not throw. */
  sendHome(): void;
}

export class Audience {
  private count = 0;
  private isDraining = false;
  private readonly guests = new Set<Guest>();

  /** A client beyond `max` is refused. */
  constructor(private readonly max: number) {}

  /** Clients counted now; zero once all have gone. */
  get size(): number {
    return this.count;
  }

  get draining(): boolean {
    return this.isDraining;
  }

  /** Throws a Refusal if the node is full or shuts down. Returns the function by which the client leaves; it is idempotent. */
  enter(client: Departing): () => void {
    if (this.isDraining) throw new Refusal("draining", "the server is shutting down");
    if (this.count >= this.max) {
      throw new Refusal("too-many-waiters", `${this.max} readers are waiting already; retry later`);
    }
    this.count++;
    let left = false;
    const leave = () => {
      if (!left) this.count--;
      left = true;
    };
    client.onGone(leave);
    return leave;
  }

  /** Sends the guest home at shutdown, unless it leaves earlier. */
  stay(guest: Guest): void {
    this.guests.add(guest);
  }

  go(guest: Guest): void {
    this.guests.delete(guest);
  }

  /** Sends every guest home. Its client reconnects to another node and resumes at its offset. */
  drain(): void {
    this.isDraining = true;
    for (const guest of [...this.guests]) guest.sendHome();
  }
}
