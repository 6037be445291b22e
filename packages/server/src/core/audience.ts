/**
 * All clients that wait on this node: long-polls and open connections of every feature. Routes count a client in before its first
 * read, so that clients that arrive together are counted too. Compose drains the audience at shutdown.
 *
 * Invariants: never more clients than the limit; after `drain` no client is let in, and every guest has been told.
 */
import { Refusal } from "./refusal.ts";
import type { Departing } from "./sink.ts";

/** What waits, and must be told when the server shuts down. */
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

  /** Throws a Refusal when the node is full or shuts down. Returns how to leave, which may be called twice. */
  enter(client: Departing): () => void {
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
    client.onGone(leave);
    return leave;
  }

  /** The guest is sent home at shutdown, unless it goes before. */
  stay(guest: Guest): void {
    this.guests.add(guest);
  }

  go(guest: Guest): void {
    this.guests.delete(guest);
  }

  /** Sends every guest home: the clients reconnect to another node, from where they are. */
  drain(): void {
    this.isDraining = true;
    for (const guest of [...this.guests]) guest.sendHome();
  }
}
