/** The limits of the HTTP door, with their defaults; the configuration takes its own from here. */
export interface HttpLimits {
  /** A request must have arrived whole within this time. */
  readonly requestMs: number;
  /** Its headers must have arrived within this time. */
  readonly headersMs: number;
  /** How long a connection may wait for its next request. */
  readonly keepAliveMs: number;
  /** How long a client that is hung up on may take to read why. */
  readonly lingerMs: number;
  /** How late a request that takes too long may be found. */
  readonly checkMs: number;
  /** The request line and the headers of a request together. */
  readonly headerBytes: number;
}

export const HTTP_LIMITS: HttpLimits = {
  requestMs: 60_000,
  headersMs: 15_000,
  keepAliveMs: 65_000,
  lingerMs: 500,
  checkMs: 5_000,
  headerBytes: 16 * 1_024,
};
