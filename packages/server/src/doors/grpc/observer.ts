/**
 * The port through which the gRPC door reports its calls. `observe` implements it with logs, metrics and traces.
 *
 * Invariants: an observer counts and passes on; it never waits and never throws.
 */

/** A call with the fields that an observer sets. */
export interface ObservedCall {
  /** `Publisher.Publish`: a name of the definitions, or `other` for a method that the server does not have. */
  readonly method: string;
  /** Whether it lasts as long as its client stays. */
  readonly isStream: boolean;
  /** Whether its time says nothing about the server. */
  readonly waits: boolean;
  /** Known once the caller is identified. */
  readonly project: string | undefined;
  startedAt: number;
  id: string | number | undefined;
  header(name: string): string | undefined;
}

export interface GrpcObserver {
  /** A call has arrived; `ended` follows. */
  began(call: ObservedCall): void;
  /** Runs the method inside a context, such as a span; absent if there is none. */
  readonly surround?: (<T>(call: ObservedCall, run: () => T) => T) | undefined;
  /** `code`: the status that the client got, or CANCELLED if it left. */
  ended(call: ObservedCall, code: number): void;
}

/** What the door counts by itself. */
export interface GrpcTraffic {
  receivedBytes: number;
  sentBytes: number;
}
