/**
 * The limits of the HTTP door, with their defaults. The adapter uses them; the configuration takes its defaults from
 * here.
 */
import type { BudgetLimits } from "../memory-budget.ts";
import type { LineLimits } from "../request-line.ts";

export interface HttpLimits extends BudgetLimits, LineLimits {
  /** Connections at a time; the limit of open files may allow fewer. */
  readonly connections: number;
  /** Whether plain requests are answered without `node:http`. */
  readonly lane: boolean;
  /** A request must have arrived completely within this time. */
  readonly requestMs: number;
  /** The headers of a request must have arrived within this time. */
  readonly headersMs: number;
  /** How long a client may take nothing of an answer before its connection is cut. Live answers have a limit of their own. */
  readonly stallMs: number;
  /** How long a connection may wait for its next request. */
  readonly keepAliveMs: number;
  /** How long a client may take to read the reason before its connection is closed. */
  readonly lingerMs: number;
  /** How late the server may notice that a request took too long. */
  readonly checkMs: number;
  /** The largest frame that a client may send over a WebSocket. */
  readonly frameBytes: number;
  /** Whether large answers are compressed for clients that ask for it. Live answers never are. */
  readonly compress: boolean;
  /** Smaller answers are never compressed. */
  readonly compressBytes: number;
  /** Answers that are compressed at a time; others go out as they are. */
  readonly compressions: number;
  /** The request line and the headers of a request together. */
  readonly headerBytes: number;
}

export const HTTP_LIMITS: HttpLimits = {
  connections: 100_000,
  lane: true,
  requestMs: 60_000,
  headersMs: 15_000,
  stallMs: 30_000,
  keepAliveMs: 65_000,
  lingerMs: 500,
  checkMs: 5_000,
  frameBytes: 64 * 1_024,
  headerBytes: 16 * 1_024,
  compress: true,
  compressBytes: 16 * 1_024,
  compressions: 2,
  memoryBytes: 128 * 1_024 * 1_024,
  /** What a socket gives in one read. */
  smallBytes: 64 * 1_024,
  openRequests: 64,
  waitingBytes: 256 * 1_024,
  queuedRequests: 16,
  requestBytes: 4 * 1_024,
};
