/**
 * An open connection as the code that writes to it sees it. A door makes one per SSE response or socket; `Connection` writes to
 * it.
 *
 * Invariants: it knows bytes and back-pressure, and not what the bytes mean.
 */

/**
 * Why the server ended a connection: its stream ended, its lifetime ended, the server shut down, the client read too slowly, the
 * store failed, a newer connection of the same session took its place, or its session or token ended.
 */
export type EndReason = "stream" | "time" | "drained" | "slow-reader" | "fault" | "displaced" | "expired";

/** A client that may leave. */
export interface Departing {
  /** Runs the task once when the client has gone. */
  onGone(task: () => void): void;
}

export interface Sink extends Departing {
  /** Bytes that the network has not taken yet. */
  readonly buffered: number;
  /** `isShared`: other connections hold the same bytes, so that they cost this one no memory of its own. */
  write(bytes: Uint8Array, isShared?: boolean): void;
  /** Asks the client for a sign of life, where the protocol has one of its own. Cuts a client that answers no more. */
  ping?(): void;
  /** Runs the task once when `buffered` has fallen to zero. */
  onDrain(task: () => void): void;
  /** Ends the connection after the client has taken what is buffered. */
  end(why?: EndReason): void;
  /** Drops the connection and everything that is still buffered. */
  cut(why?: EndReason): void;
}
