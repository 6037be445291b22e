/**
 * The port through which a door reports its requests. `observe` implements it with logs, metrics and traces. Called for
 * every request.
 *
 * Invariants: an observer counts and passes on; it never waits and never throws.
 */
import type { HttpRequest, Reply } from "../../core/http.ts";
import type { EndReason } from "../../core/sink.ts";

/** A request with the fields that an observer sets. */
export interface ObservedRequest extends HttpRequest {
  startedAt: number;
  id: string | number | undefined;
}

export type Handle = (request: HttpRequest) => Promise<Reply> | Reply;

/** `gone`: the client left by itself. */
export type RequestEnd = EndReason | "gone";

export interface HttpObserver {
  /** A request has arrived; exactly one of `answered` and `ended` follows. */
  began(request: ObservedRequest): void;
  /** Runs the handler inside a context, such as a span; absent if there is none. */
  readonly surround?: ((request: ObservedRequest, handle: Handle) => Promise<Reply> | Reply) | undefined;
  /** The response is passed to the connection, or its client had left before. */
  answered(request: ObservedRequest, status: number, hasLeft: boolean): void;
  /** A live response has begun; `ended` follows. */
  opened(request: ObservedRequest, status: number): void;
  ended(request: ObservedRequest, status: number, why: RequestEnd): void;
  /** Input arrived that was not a request, and was refused. */
  malformed(): void;
  /** The id of this request in the log. */
  idOf(request: ObservedRequest): string;
}

/** Bytes over all connections of a door, bodies only. */
export interface Traffic {
  receivedBytes: number;
  sentBytes: number;
}

/** Why a door cut a connection: its client took nothing of an answer, or there was no memory for what waits for the client. */
export type CutReason = "stalled" | "memory";
