/**
 * What the server has told a page about the ends of its streams, taken from the network and not from the client. `SimTab` asks it
 * whenever the client says that a subscription has ended.
 *
 * Invariants: an event counts for the epoch that it names; the last answer to a subscription tells which epoch is meant.
 */
import { SseParser } from "../streams/sse.ts";
import type { Asked } from "./sim-fetch.ts";

interface Pushed {
  readonly type: string;
  readonly streamId: string;
  readonly epoch: number;
}

export class Evidence {
  private parser = new SseParser();
  /** By stream: the epoch of the last answer. */
  private readonly epochs = new Map<string, number>();
  /** `closed` and `gone` events, as `type stream epoch`. */
  private readonly events = new Set<string>();
  /** By stream: what answers to reads and subscriptions have shown since the page subscribed. */
  private readonly shown = new Map<string, string>();

  connected(): void {
    this.parser = new SseParser();
  }

  pushed(piece: Uint8Array): void {
    for (const { data } of this.parser.push(piece)) {
      if (data === "") continue;
      const { type, streamId, epoch } = JSON.parse(data) as Pushed;
      if (type === "closed" || type === "gone") this.events.add(`${type} ${streamId} ${epoch}`);
    }
  }

  answered({ method, path, body }: Asked, status: number, text: string, isClosed: boolean): void {
    const isSubscription = path === "subscriptions" && method === "POST";
    if (!isSubscription && !path.startsWith("stream/")) return;
    const stream = isSubscription ? JSON.parse(body).streamId : path.slice("stream/".length);
    const isGone = (status === 404 || status === 410) && /"stream-(not-found|gone)"/.test(text);
    if (isGone) this.shown.set(stream, "gone");
    else if (isClosed) this.shown.set(stream, "closed");
    if (isSubscription && status === 200) this.epochs.set(stream, JSON.parse(text).epoch);
  }

  /** The page subscribes anew. */
  forget(stream: string): void {
    this.shown.delete(stream);
  }

  shows(stream: string, reason: string): boolean {
    const isShown = this.shown.get(stream) === (reason === "refused" ? "gone" : reason);
    return isShown || this.events.has(`${reason} ${stream} ${this.epochs.get(stream)}`);
  }
}
