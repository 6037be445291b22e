/**
 * An open connection as the code that writes to it sees it. A door makes one per SSE response or socket; `Connection` writes to it.
 *
 * Invariants: it knows bytes and back-pressure, and nothing of what the bytes mean.
 */

/** Why the server ended a connection: its stream has no more to tell, its time was up, the server shuts down, … */
export type EndReason = "stream" | "time" | "drained" | "slow-reader" | "fault";

/** A client that may leave. */
export interface Departing {
  /** Runs the task once when the client has gone. */
  onGone(task: () => void): void;
}

export interface Sink extends Departing {
  /** Bytes handed over and not yet taken by the network. */
  readonly buffered: number;
  write(bytes: Uint8Array): void;
  /** Runs the task once when `buffered` has fallen to zero. */
  onDrain(task: () => void): void;
  /** Ends the connection after the client has taken what is buffered. */
  end(why?: EndReason): void;
  /** Drops the connection and everything that is still buffered. */
  cut(why?: EndReason): void;
}
