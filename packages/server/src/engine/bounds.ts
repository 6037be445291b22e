/**
 * The bounds that every engine keeps, with their defaults. Compose hands them to the engine that it opens; the configuration takes
 * its defaults from here, so that a default exists once.
 */
export interface EngineBounds {
  /** Messages on one page of a read; small ones cost more than their payload, so bytes alone are no bound. */
  readonly pageMessages: number;
  /** Windows of rate limits that are open at once, where one process counts them. */
  readonly windows: number;
  /** Ownerships that stand at once, where one process keeps them. */
  readonly claims: number;
}

export const ENGINE_BOUNDS: EngineBounds = { pageMessages: 10_000, windows: 1_000_000, claims: 1_000_000 };
