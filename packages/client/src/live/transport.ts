/**
 * The port to a live connection, whatever carries it. The link opens one; `socket-transport.ts` and `sse-transport.ts` are its
 * two kinds.
 *
 * Invariants: `end` is called once and never from within `open`. After `close` no method of the listener is called.
 */
import type { SluiceError } from "../error.ts";
import type { LiveEvent } from "./events.ts";

export interface Credentials {
  readonly sessionId: string;
  /** The session's own token, where no header can be set. */
  readonly token: string;
}

export interface LineListener {
  /** The server gave a sign of life. */
  heard(): void;
  /** `chars` is the length of its text, which bounds what is kept of it. */
  event(event: LiveEvent, chars: number): void;
  end(error: SluiceError): void;
}

/** A connection, open or about to be. */
export interface Line {
  close(): void;
  /** Sends a request over the connection itself, where it can carry one. Rejects with a SluiceError. */
  readonly ask?: (type: "heartbeat", body: object) => Promise<void>;
}

export interface Transport {
  readonly kind: "websocket" | "sse";
  open(credentials: Credentials, listener: LineListener): Line;
}
