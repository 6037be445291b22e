/**
 * The one error table: every refusal that reaches a client has its code, its status and whether a retry can help here. Services
 * and rules choose a code; doors render it.
 *
 * Invariants: no other place chooses a status.
 */
const table = {
  // Malformed or unacceptable requests.
  "bad-request": { status: 400, title: "The request is malformed", retryable: false },
  "bad-path": { status: 400, title: "The stream path is not valid", retryable: false },
  "bad-project": { status: 400, title: "The project name is not valid", retryable: false },
  "bad-header": { status: 400, title: "A header is not valid", retryable: false },
  "bad-query": { status: 400, title: "A query parameter is not valid", retryable: false },
  "bad-body": { status: 400, title: "The body is not valid", retryable: false },
  "bad-offset": { status: 400, title: "The offset is not valid", retryable: false },
  "empty-body": { status: 400, title: "The body is empty", retryable: false },
  "reserved-name": { status: 403, title: "The name is reserved", retryable: false },
  "too-large": { status: 413, title: "The body is too large", retryable: false },
  "no-route": { status: 404, title: "There is nothing at this address", retryable: false },
  "method-not-allowed": { status: 405, title: "The method is not allowed here", retryable: false },
  "body-timeout": { status: 408, title: "The body did not arrive in time", retryable: true },

  // Authentication and authorization.
  unauthenticated: { status: 401, title: "A token is needed", retryable: false },
  forbidden: { status: 403, title: "The caller may not do this", retryable: false },
  "host-not-allowed": { status: 403, title: "The server is not reached under this name", retryable: false },
  "origin-not-allowed": { status: 403, title: "Pages of this origin may not do this", retryable: false },
  "keys-unavailable": { status: 503, title: "The keys that verify tokens cannot be fetched", retryable: true },

  // Streams.
  "stream-not-found": { status: 404, title: "There is no such stream", retryable: false },
  "stream-gone": { status: 410, title: "The stream was deleted", retryable: false },
  "stream-exists": { status: 409, title: "The stream exists with another configuration", retryable: false },
  "stream-closed": { status: 409, title: "The stream is closed", retryable: false },
  "content-type-mismatch": { status: 409, title: "The content type is not the stream's", retryable: false },
  "sequence-regression": { status: 409, title: "Stream-Seq must be greater than the last one", retryable: false },
  "producer-fenced": { status: 403, title: "A newer epoch of this producer has taken over", retryable: false },
  "producer-gap": { status: 409, title: "Earlier messages of this producer are missing", retryable: true },
  "producer-epoch-start": { status: 400, title: "A new producer epoch starts at sequence 0", retryable: false },
  "offset-trimmed": { status: 410, title: "Retention has taken messages after this offset", retryable: false },
  "history-lost": { status: 410, title: "A failover lost messages before this offset", retryable: false },
  "offset-ahead": { status: 400, title: "The offset lies beyond the end of the stream", retryable: false },
  "stream-sharded": { status: 409, title: "The stream is a sharded topic", retryable: false },
  "fork-source-gone": { status: 409, title: "The source of the fork was deleted", retryable: false },

  // Wake subscriptions.
  "subscription-not-found": { status: 404, title: "There is no such subscription", retryable: false },
  "subscription-already-exists": {
    status: 409,
    title: "The subscription exists with another configuration",
    retryable: false,
  },
  "webhook-url-rejected": { status: 400, title: "The webhook must not be called at this address", retryable: false },
  "token-invalid": { status: 401, title: "The token is missing or malformed", retryable: false },
  "token-expired": { status: 401, title: "The token has expired", retryable: false },
  fenced: { status: 409, title: "The work is over or belongs to another worker", retryable: false },
  "already-claimed": { status: 409, title: "Another worker holds the wake", retryable: true },
  "no-pending-work": { status: 409, title: "Nothing is pending", retryable: true },
  "invalid-offset": { status: 409, title: "The offset cannot be acknowledged", retryable: false },
  "too-many-links": { status: 409, title: "The subscription would be linked to too many streams", retryable: false },

  // Sessions.
  "session-not-found": { status: 404, title: "There is no such session", retryable: false },
  "subscription-differs": { status: 409, title: "The session is subscribed in another way", retryable: false },
  "too-many-subscriptions": { status: 409, title: "Too many subscriptions", retryable: false },

  // Groups.
  "group-not-found": { status: 404, title: "There is no such group", retryable: false },
  "group-ambiguous": { status: 409, title: "Several groups have this name", retryable: false },
  "group-differs": { status: 409, title: "The group exists with another configuration", retryable: false },

  // Pull. A topic that is missing is a stream that is missing.
  "bad-filter": { status: 400, title: "The filter is not valid", retryable: false },
  "subscription-detached": { status: 409, title: "The subscription is detached from its topic", retryable: false },
  "snapshot-not-found": { status: 404, title: "There is no such snapshot", retryable: false },
  "snapshot-exists": { status: 409, title: "There is a snapshot of this name", retryable: false },
  "schema-not-found": { status: 404, title: "There is no such schema", retryable: false },
  "schema-exists": { status: 409, title: "There is a schema of this name", retryable: false },

  // Channels.
  "channel-not-found": { status: 404, title: "There is no such channel", retryable: false },
  "channel-not-started": { status: 409, title: "The channel has not started", retryable: false },
  "channel-started": { status: 409, title: "The channel has started already", retryable: false },
  "channel-ended": { status: 409, title: "The channel has ended", retryable: false },
  "channel-sequence": { status: 409, title: "The sequence cannot be taken any more", retryable: false },
  "rate-limited": { status: 429, title: "Too many publishes at once", retryable: true },
  "limiter-unavailable": { status: 503, title: "The rate limit cannot be checked", retryable: true },

  // The server itself.
  "project-limit": { status: 429, title: "The project has used up its share of a limit", retryable: true },
  "too-many-waiters": { status: 503, title: "Too many readers are waiting", retryable: true },
  overloaded: { status: 503, title: "The server has more work than it can take", retryable: true },
  "memory-full": { status: 503, title: "The memory for requests and answers is in use", retryable: true },
  draining: { status: 503, title: "The server is shutting down", retryable: true },
  "storage-full": { status: 503, title: "The storage is full", retryable: true },
  "storage-failed": { status: 503, title: "The storage does not accept writes", retryable: true },
  unavailable: { status: 503, title: "The storage cannot be reached", retryable: true },
  "data-damaged": { status: 500, title: "Stored data is damaged", retryable: false },
  internal: { status: 500, title: "Something went wrong in the server", retryable: true },
} as const;

export type ErrorCode = keyof typeof table;

export interface ErrorKind {
  readonly status: number;
  readonly title: string;
  readonly retryable: boolean;
}

export const errors: Readonly<Record<ErrorCode, ErrorKind>> = table;

/** The body of an error response, as RFC 9457 defines it. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  retryable: boolean;
}

export function problem(code: ErrorCode, detail: string): Problem {
  const { status, title, retryable } = errors[code];
  return { type: `urn:sluice:problem:${code}`, title, status, detail, code, retryable };
}
