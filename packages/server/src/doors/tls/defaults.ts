/** The limits of TLS connections, with their defaults. The configuration takes its defaults from here. */
export interface TlsLimits {
  /** A connection must have completed its handshake within this time. */
  readonly handshakeMs: number;
  /** How often the certificate's files are read again. */
  readonly renewMs: number;
}

export const TLS_LIMITS: TlsLimits = { handshakeMs: 10_000, renewMs: 10_000 };
