/**
 * The rules that settings must fulfill together, whatever their source: limits that depend on each other, and which
 * callers may reach a server without keys. Called by loading, `createServer` and the command line.
 *
 * Invariants: no other code decides this.
 */
import { limitsOf, type Settings } from "./schema.ts";

/** Why the settings contradict each other; empty if they do not. */
export function disagreements(settings: Settings): string[] {
  const { cors, wake, webhook, list, stream, http } = limitsOf(settings);
  const problems: string[] = [];
  const atMost = (low: string, lowValue: number, high: string, highValue: number) => {
    if (lowValue > highValue) problems.push(`${low} (${lowValue}) must be at most ${high} (${highValue})`);
  };
  atMost("internal.wake.minLeaseMs", wake.minLeaseMs, "wake.leaseMs", wake.leaseMs);
  atMost("wake.leaseMs", wake.leaseMs, "wake.maxLeaseMs", wake.maxLeaseMs);
  atMost("internal.wake.retryMs", wake.retryMs, "internal.wake.maxRetryMs", wake.maxRetryMs);
  atMost("internal.wake.recheckMs", wake.recheckMs, "internal.wake.maxRecheckMs", wake.maxRecheckMs);
  atMost("webhook.timeoutMs", webhook.timeoutMs, "internal.wake.lostAttemptMs", wake.lostAttemptMs);
  atMost("internal.list.defaultStreams", list.defaultStreams, "list.streams", list.streams);
  // Otherwise the largest body would be refused for want of memory, however often its client retries.
  atMost("stream.bodyBytes", stream.bodyBytes, "half of http.memoryBytes", http.memoryBytes / 2);
  if (cors.credentials && cors.origins.includes("*")) {
    problems.push("cors.origins must not contain * when cors.credentials is true: any page could act for its visitor");
  }
  return problems;
}

/**
 * `guarded`: requests need a token. `open`: they need none, because the operator said so. `local`: they need none,
 * because there are no keys, but only this machine can connect. `refused`: the server must not start.
 */
export type Exposure =
  | { readonly kind: "guarded" | "open" | "local" }
  | { readonly kind: "refused"; readonly why: string };

/**
 * Without keys the server cannot tell callers apart, so only this machine may connect, unless the operator allows more.
 * `isGuarded`: the embedding program authorizes callers itself.
 */
export function exposureOf(
  { host, auth, projects }: Pick<Settings, "host" | "auth" | "projects">,
  isGuarded = false,
): Exposure {
  if (isGuarded) return { kind: "guarded" };
  if (auth.off) return { kind: "open" };
  const hasKeys = Object.values(projects).some(({ secrets, jwks }) => secrets !== undefined || jwks !== undefined);
  if (hasKeys) return { kind: "guarded" };
  if (isLoopback(host)) return { kind: "local" };
  const why =
    `no keys are configured, so every client that reaches ${host} could read and write everything: ` +
    "give a project a secret (SLUICE_SECRET_default=…), or listen on 127.0.0.1, or say --no-auth if that is meant";
  return { kind: "refused", why };
}

export function isLoopback(host: string): boolean {
  const name = host.toLowerCase();
  return name === "localhost" || name === "::1" || /^(::ffff:)?127(\.\d{1,3}){3}$/.test(name);
}
