/**
 * The limits of the gRPC door, with their defaults. Compose passes them to the door. The configuration takes its defaults from
 * here, so that each default exists once.
 */
export interface GrpcLimits {
  /** Connections at a time. */
  readonly connections: number;
  /** Calls of one connection at a time, streams included. */
  readonly calls: number;
  /** The largest request. Google's service takes 10 MB of messages. */
  readonly requestBytes: number;
  /** Requests that are being published, of all connections together. */
  readonly publishingBytes: number;
  /** The messages of one response; a response has one message at least. */
  readonly responseBytes: number;
  /** A stream leases no more while this much of it waits for the network. */
  readonly unsentBytes: number;
  /** Delivered messages and bytes of one stream that are not answered, if the client sets no lower limit. */
  readonly outstandingMessages: number;
  readonly outstandingBytes: number;
  /** How long a Pull waits for a first message, if its caller does not set an earlier deadline. */
  readonly pullWaitMs: number;
  /** A Pull answers this long before its caller's deadline, so that no message is leased to a caller that has left. */
  readonly pullMarginMs: number;
  /** A silent connection is asked for a sign of life after this time, and cut if none comes in time. */
  readonly pingMs: number;
  readonly pongMs: number;
}

export const GRPC_LIMITS: GrpcLimits = {
  connections: 10_000,
  calls: 1_000,
  requestBytes: 11 * 1_024 * 1_024,
  publishingBytes: 128 * 1_024 * 1_024,
  responseBytes: 1_024 * 1_024,
  unsentBytes: 256 * 1_024,
  outstandingMessages: 100_000,
  outstandingBytes: 1_024 * 1_024 * 1_024,
  pullWaitMs: 30_000,
  pullMarginMs: 500,
  pingMs: 60_000,
  pongMs: 20_000,
};

/** The port that clients of Google's emulator expect. */
export const GRPC_PORT = 8085;
