/**
 * The bounds that every engine keeps, with their defaults. Compose passes them to the engine that it opens.
 *
 * Invariants: the configuration takes its defaults from here, so a default exists once.
 */
export interface EngineBounds {
  /** The most messages on one page of a read. Bytes alone are no bound, because a small message costs more than its payload. */
  readonly pageMessages: number;
  /** The most rate-limit windows open at once, on an engine that counts them in one process. */
  readonly windows: number;
  /** The most ownerships held at once, on an engine that keeps them in one process. */
  readonly claims: number;
}

export const ENGINE_BOUNDS: EngineBounds = { pageMessages: 10_000, windows: 1_000_000, claims: 1_000_000 };
