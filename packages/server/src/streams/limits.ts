/**
 * The bounds of streams and of the clients that wait at their tail, with their defaults. Compose hands them to the service and the
 * routes; the configuration takes its defaults from here, so that a default exists once.
 */
import { CONNECTION_LIMITS, type ConnectionLimits } from "../core/connection.ts";

export interface StreamLimits {
  /** The body of one request. */
  readonly bodyBytes: number;
  /** Messages in the JSON array of one request. */
  readonly bodyMessages: number;
  /** What one read answers at most, unless a single message is larger. */
  readonly pageBytes: number;
  /** How many bytes may be kept for the sake of holders and forks, over what retention was asked for. */
  readonly holdBytes: number;
  /** Holders of one stream. */
  readonly holds: number;
  /** How many forks may stand on each other. */
  readonly forkDepth: number;
  /** How long after a fork was announced or is about to go the source makes sure that it really is there. */
  readonly forkCheckMs: number;
  /** Forks of one stream that are looked at in one step. */
  readonly forkRows: number;
  /** How long after a step of a sharded topic the sweep makes sure that all its shards have been through it. */
  readonly shardCheckMs: number;
  /** Topics whose turn is remembered, for appends that name neither a key nor a producer. */
  readonly shardTurns: number;
}

export const STREAM_LIMITS: StreamLimits = {
  bodyBytes: 8 * 1024 * 1024,
  /** A body of millions of tiny messages costs gigabytes as objects, and everybody else the time it takes. */
  bodyMessages: 100_000,
  pageBytes: 1024 * 1024,
  holdBytes: 1024 * 1024 * 1024,
  holds: 1_000,
  forkDepth: 64,
  forkCheckMs: 10_000,
  forkRows: 100,
  shardCheckMs: 10_000,
  shardTurns: 10_000,
};

export interface ListLimits {
  /** Streams on one page when the request does not say. */
  readonly defaultStreams: number;
  /** Streams on one page at most. */
  readonly streams: number;
  /** Names looked at for one page, so that a filter that matches little cannot make a request long; `next` goes on. */
  readonly scanned: number;
}

export const LIST_LIMITS: ListLimits = { defaultStreams: 100, streams: 1_000, scanned: 10_000 };

/** Reads that wait at the tail of a stream. */
export interface TailLimits extends Omit<ConnectionLimits, "lifetimeMs"> {
  readonly longPollMs: number;
  /** An SSE connection is ended after this time, so that proxies and balancers can move it. */
  readonly sseMs: number;
  /** Long-polls and SSE connections together, those of channels included. */
  readonly readers: number;
}

export const TAIL_LIMITS: TailLimits = {
  ...CONNECTION_LIMITS,
  longPollMs: 20_000,
  sseMs: 60_000,
  readers: 50_000,
};

/** How streams are counted, for a gauge. */
export interface CensusLimits {
  /** Names that are taken from the engine in one step, and the pause after it. */
  readonly page: number;
  readonly pauseMs: number;
  /** A count is good for this long, or for this many times what it took. */
  readonly keepMs: number;
  readonly keepFactor: number;
}

export const CENSUS_LIMITS: CensusLimits = { page: 500, pauseMs: 5, keepMs: 60_000, keepFactor: 100 };
