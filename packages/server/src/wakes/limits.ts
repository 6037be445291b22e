/**
 * The bounds of wake subscriptions, with their defaults. Compose hands them to the service, which passes them on to the rules;
 * the configuration takes its defaults from here, so that a default exists once.
 */
export interface WakeLimits {
  /** The body of one request. */
  readonly bodyBytes: number;
  /** Streams or acknowledgements named in one request. */
  readonly items: number;
  /** A lease when the subscription does not say, and what it may say. */
  readonly leaseMs: number;
  readonly minLeaseMs: number;
  readonly maxLeaseMs: number;
  /** How long a token is good for, however often the lease is extended. */
  readonly tokenMs: number;
  /** An attempt without a result after this time was lost with the process that made it. */
  readonly lostAttemptMs: number;
  /** The wait after the first failed attempt; it doubles with each further one. */
  readonly retryMs: number;
  readonly maxRetryMs: number;
  /** The wait after an internal fault until everything is looked at again; it doubles while faults go on. */
  readonly recheckMs: number;
  readonly maxRecheckMs: number;
  /** How often a node looks for what other nodes have created or changed; there is nobody else where one has the data alone. */
  readonly discoverMs: number;
  /** Attempts under way at once; the others wait their turn. */
  readonly deliveries: number;
  /** Subscriptions and explicit links that one process takes on, in all projects together. */
  readonly subscriptions: number;
  readonly explicitLinks: number;
  /** Streams that one subscription is linked to. */
  readonly links: number;
  /** Pending streams that one wake takes on and a payload lists; the others wait for the next wake. */
  readonly streamsPerWake: number;
  /** Steps that wait for one subscription; beyond that a request is refused. Our own are few, since they join up. */
  readonly queuedRequests: number;
  /** Streams that wait to be linked or unlinked; beyond that everything is looked at again instead. */
  readonly queuedNotes: number;
  /** Streams whose events wait for the next turn; beyond that every subscription is looked at again instead. */
  readonly queuedStreams: number;
  /** Paths for which it is remembered who wants to hear of them. */
  readonly rememberedPaths: number;
  /** Names or rows that are looked at in one step when all are walked. */
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
  /** From the look-up of the name to the end of the answer. */
  readonly timeoutMs: number;
  /** What is read of an answer. */
  readonly answerBytes: number;
}

export const WEBHOOK_LIMITS: WebhookLimits = { timeoutMs: 10_000, answerBytes: 64 * 1_024 };
