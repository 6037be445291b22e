/**
 * The limits of the HTTP door, with their defaults. The adapter uses them; the configuration takes its defaults from
 * here.
 */
export interface HttpLimits {
  /** Connections at a time; the limit of open files may allow fewer. */
  readonly connections: number;
  /** A request must have arrived completely within this time. */
  readonly requestMs: number;
  /** The headers of a request must have arrived within this time. */
  readonly headersMs: number;
  /** How long a connection may wait for its next request. */
  readonly keepAliveMs: number;
  /** How long a client may take to read the reason before its connection is closed. */
  readonly lingerMs: number;
  /** How late the server may notice that a request took too long. */
  readonly checkMs: number;
  /** The request line and the headers of a request together. */
  readonly headerBytes: number;
}

export const HTTP_LIMITS: HttpLimits = {
  connections: 100_000,
  requestMs: 60_000,
  headersMs: 15_000,
  keepAliveMs: 65_000,
  lingerMs: 500,
  checkMs: 5_000,
  headerBytes: 16 * 1_024,
};
