/**
 * What a door tells of its requests, and to whom: the port that `observe` fills with logs, metrics and traces. Called for
 * every request, so an observer counts and hands on, and never waits or throws.
 */
import type { HttpRequest, Reply } from "../../core/http.ts";
import type { EndReason } from "../../core/sink.ts";

/** A request with what an observer notes on it. */
export interface ObservedRequest extends HttpRequest {
  startedAt: number;
  id: string | undefined;
}

export type Handle = (request: HttpRequest) => Promise<Reply> | Reply;

/** `gone`: the client left by itself. */
export type RequestEnd = EndReason | "gone";

export interface HttpObserver {
  /** A request has arrived; exactly one of `answered` and `ended` will follow. */
  began(request: ObservedRequest): void;
  /** Runs the handling inside of whatever shall surround it; absent when nothing shall. */
  readonly surround?: ((request: ObservedRequest, handle: Handle) => Promise<Reply> | Reply) | undefined;
  /** The answer is handed to the connection, or its client had left before. */
  answered(request: ObservedRequest, status: number, hasLeft: boolean): void;
  /** A live answer has begun; `ended` will follow. */
  opened(request: ObservedRequest, status: number): void;
  ended(request: ObservedRequest, status: number, why: RequestEnd): void;
  /** Something came that was no request, and was refused. */
  malformed(): void;
  /** The id under which the log knows this request. */
  idOf(request: ObservedRequest): string;
}

/** What has gone over all connections of a door, bodies only. */
export interface Traffic {
  receivedBytes: number;
  sentBytes: number;
}
