/**
 * The limits of the gRPC door, with their defaults. Compose passes them to the door. The configuration takes its defaults from
 * here, so that each default exists once.
 */
export interface GrpcLimits {
  /** Connections at a time. */
  readonly connections: number;
  /** Calls of one connection at a time, streams included. */
  readonly calls: number;
  /** The largest Publish. Google's service takes 10 MB of messages. */
  readonly requestBytes: number;
  /** The largest request of any other method. */
  readonly smallRequestBytes: number;
  /** The fields of a request, nested ones included: 1,000 messages with 100 attributes each, which have a key and a value. */
  readonly requestFields: number;
  /** What an open call is charged for besides its bytes. */
  readonly callBytes: number;
  /** The metadata of a call. */
  readonly headerBytes: number;
  /** A request must have arrived within this time, and the last response of a call must have left. */
  readonly requestMs: number;
  /** The messages of one response; a response has one message at least. */
  readonly responseBytes: number;
  /** A stream leases no more while this much of it waits for the network. */
  readonly unsentBytes: number;
  /** The server reads no more requests of a stream while more responses than this wait for the network. */
  readonly unsentResponses: number;
  /** Delivered messages and bytes of one stream that are not answered, if the client sets no lower limit. */
  readonly outstandingMessages: number;
  readonly outstandingBytes: number;
  /** How long a Pull waits for a first message, if its caller does not set an earlier deadline. */
  readonly pullWaitMs: number;
  /** A Pull answers this long before its caller's deadline, so that no message is leased to a caller that has left. */
  readonly pullMarginMs: number;
  /** How long a client may take to end its side after the status of a call has left, before its stream is closed. */
  readonly lingerMs: number;
  /** A connection without calls is closed after this time. */
  readonly idleMs: number;
  /** A silent connection is asked for a sign of life after this time, and cut if none comes in time. */
  readonly pingMs: number;
  readonly pongMs: number;
}

export const GRPC_LIMITS: GrpcLimits = {
  connections: 10_000,
  calls: 1_000,
  requestBytes: 11 * 1_024 * 1_024,
  smallRequestBytes: 1_024 * 1_024,
  requestFields: 310_000,
  callBytes: 4 * 1_024,
  headerBytes: 16 * 1_024,
  requestMs: 60_000,
  responseBytes: 1_024 * 1_024,
  unsentBytes: 256 * 1_024,
  unsentResponses: 1_000,
  outstandingMessages: 100_000,
  outstandingBytes: 1_024 * 1_024 * 1_024,
  pullWaitMs: 30_000,
  pullMarginMs: 500,
  lingerMs: 5_000,
  idleMs: 600_000,
  pingMs: 60_000,
  pongMs: 20_000,
};

/** The port that clients of Google's emulator expect. */
export const GRPC_PORT = 8085;
