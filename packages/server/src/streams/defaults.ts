/**
 * The limits of streams and of the clients that wait at their tail, with their defaults. Compose passes them to the
 * service and the routes. The configuration takes its defaults from here, so that each default exists once.
 */
import { CONNECTION_LIMITS, type ConnectionLimits } from "../core/connection.ts";

export interface StreamLimits {
  /** The body of one request. */
  readonly bodyBytes: number;
  /** Messages in the JSON array of one request. */
  readonly bodyMessages: number;
  /** The most bytes in one page, unless a single message is larger. */
  readonly pageBytes: number;
  /** Bytes that may be kept for holders and forks, beyond the stream's retention. */
  readonly holdBytes: number;
  /** Holders of one stream. */
  readonly holds: number;
  /** Length of a chain of forks. */
  readonly forkDepth: number;
  /** How long after a fork was announced, or is about to go, the source checks that it exists. */
  readonly forkCheckMs: number;
  /** Forks of one stream that are checked in one step. */
  readonly forkRows: number;
  /** How long after a step of a sharded topic the sweep checks that every shard has completed it. */
  readonly shardCheckMs: number;
  /** Topics whose round-robin turn is remembered, for appends with neither a key nor a producer. */
  readonly shardTurns: number;
}

export const STREAM_LIMITS: StreamLimits = {
  bodyBytes: 8 * 1024 * 1024,
  /** Millions of tiny messages in one body would take gigabytes as objects and block all other requests meanwhile. */
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
  /** Streams on one page when the request sets no limit. */
  readonly defaultStreams: number;
  /** Streams on one page at most, and described for one at most, because expired ones do not count. */
  readonly streams: number;
  /** Names examined for one page, so that a filter with few matches cannot prolong a request; `next` continues. */
  readonly scanned: number;
  /** Names that the engine lists at a time: at first at least, and once those did not fill the page. */
  readonly firstPage: number;
  readonly page: number;
}

export const LIST_LIMITS: ListLimits = {
  defaultStreams: 100,
  streams: 1_000,
  scanned: 10_000,
  firstPage: 64,
  page: 1_000,
};

/** Reads that wait at the tail of a stream. */
export interface TailLimits extends Omit<ConnectionLimits, "lifetimeMs"> {
  readonly longPollMs: number;
  /** The server ends an SSE connection after this time, so that proxies and balancers can move it. */
  readonly sseMs: number;
  /** Long-polls and SSE connections together, including the readers of channels. */
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
  /** Names listed from the engine in one step, and the pause after it. */
  readonly page: number;
  readonly pauseMs: number;
  /** A count is valid for this long, or for this many times its own duration. */
  readonly keepMs: number;
  readonly keepFactor: number;
}

export const CENSUS_LIMITS: CensusLimits = { page: 500, pauseMs: 5, keepMs: 60_000, keepFactor: 100 };
