/**
 * All clients that wait on this node: long-polls and open connections of every feature. Routes count a client in before its first
 * read, so that clients that arrive together are counted too. Compose drains the audience at shutdown.
 *
 * Invariants: the clients never exceed the limit, nor those of one project its share of it. After `drain` no client is let in, and
 * every guest has been told.
 */
import { Refusal } from "./refusal.ts";
import { SharedLimit } from "./shared-limit.ts";
import type { Departing } from "./sink.ts";

/** A waiting request or connection, which must end when the server shuts down. */
export interface Guest {
  /** Must not throw. */
  sendHome(): void;
}

export class Audience {
  private readonly limit: SharedLimit;
  private isDraining = false;
  private readonly guests = new Set<Guest>();

  /** A client beyond `max`, or beyond its project's share of it, is refused. */
  constructor(max: number, sharePercent?: number) {
    const noun = "readers";
    this.limit = new SharedLimit({ setting: "tail.readers", noun, max, code: "too-many-waiters", sharePercent });
  }

  /** Clients counted now; zero once all have gone. */
  get size(): number {
    return this.limit.used;
  }

  get draining(): boolean {
    return this.isDraining;
  }

  /**
   * Throws a Refusal if there is no room or the node shuts down. Returns the function by which the client leaves; it is
   * idempotent.
   */
  enter(project: string, client: Departing): () => void {
    if (this.isDraining) throw new Refusal("draining", "the server is shutting down; connect again");
    this.limit.demandRoom(project);
    this.limit.take(project);
    let left = false;
    const leave = () => {
      if (!left) this.limit.give(project);
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
