/**
 * The limits of wake subscriptions, with their defaults. Compose passes them to the service, which passes them to the
 * rules. The configuration takes its defaults from here, so that each default exists once.
 */
export interface WakeLimits {
  /** The body of one request. */
  readonly bodyBytes: number;
  /** Streams or acknowledgments named in one request. */
  readonly items: number;
  /** The default lease of a subscription, and its allowed range. */
  readonly leaseMs: number;
  readonly minLeaseMs: number;
  readonly maxLeaseMs: number;
  /** How long a token is valid, however often the lease is extended. */
  readonly tokenMs: number;
  /** An attempt without a result after this time was lost with its process. */
  readonly lostAttemptMs: number;
  /** The delay after the first failed attempt; it doubles with each further one. */
  readonly retryMs: number;
  readonly maxRetryMs: number;
  /** The delay after an internal fault until the subscription is checked again; it doubles while faults continue. */
  readonly recheckMs: number;
  readonly maxRecheckMs: number;
  /** How often a node looks for subscriptions that other nodes created or changed. Unused if one node owns the data. */
  readonly discoverMs: number;
  /** Concurrent attempts; further ones wait for their turn. */
  readonly deliveries: number;
  /** Subscriptions and explicit links of one process, over all projects. */
  readonly subscriptions: number;
  readonly explicitLinks: number;
  /** Streams that one subscription may be linked to. */
  readonly links: number;
  /** Pending streams in one wake and its payload; the remaining ones wait for the next wake. */
  readonly streamsPerWake: number;
  /**
   * Requests that wait for one subscription; beyond that a request is refused. The server's own steps are merged, so
   * they are few.
   */
  readonly queuedRequests: number;
  /** Streams that wait to be linked or unlinked; beyond that the subscription is checked as a whole. */
  readonly queuedNotes: number;
  /** Streams whose events wait for the next turn; beyond that every subscription is checked. */
  readonly queuedStreams: number;
  /** Paths for which the matching subscriptions are remembered. */
  readonly rememberedPaths: number;
  /** Names or rows that are read in one step of a full walk. */
  readonly page: number;
}

export const WAKE_LIMITS: WakeLimits = {
  bodyBytes: 64 * 1_024,
  items: 1_000,
  leaseMs: 30_000,
  minLeaseMs: 1_000,
  maxLeaseMs: 600_000,
  tokenMs: 3_600_000,
  lostAttemptMs: 20_000,
  retryMs: 1_000,
  maxRetryMs: 60_000,
  recheckMs: 1_000,
  maxRecheckMs: 60_000,
  discoverMs: 2_000,
  deliveries: 100,
  subscriptions: 10_000,
  explicitLinks: 1_000_000,
  links: 10_000,
  streamsPerWake: 1_000,
  queuedRequests: 1_000,
  queuedNotes: 20_000,
  queuedStreams: 100_000,
  rememberedPaths: 10_000,
  page: 200,
};

export interface WebhookLimits {
  /** From the name lookup to the end of the response. */
  readonly timeoutMs: number;
  /** The most bytes read of a response. */
  readonly answerBytes: number;
}

export const WEBHOOK_LIMITS: WebhookLimits = { timeoutMs: 10_000, answerBytes: 64 * 1_024 };
