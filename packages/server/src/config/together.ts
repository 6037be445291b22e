/**
 * What settings must fulfil together, whoever gave them: limits that depend on each other, and who may reach a server that has
 * no keys. Loading and `createServer` ask here; nobody else decides it.
 */
import { limitsOf, type Settings } from "./schema.ts";

/** Why the settings cannot work together; empty when they can. */
export function disagreements(settings: Settings): string[] {
  const { cors, wake, webhook, list } = limitsOf(settings);
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
  if (cors.credentials && cors.origins.includes("*")) {
    problems.push("cors.origins must not hold * when cors.credentials is true: any page could act for its visitor");
  }
  return problems;
}

/**
 * `guarded`: requests need a token. `open`: they do not, and the operator has said so. `local`: they do not, for want of keys,
 * but only this machine can make any. `refused`: the server must not start.
 */
export type Exposure =
  | { readonly kind: "guarded" | "open" | "local" }
  | { readonly kind: "refused"; readonly why: string };

/**
 * Without keys nobody can be told from anybody, so only this machine may come, unless the operator wants it otherwise.
 * `isGuarded`: the program that we are part of decides by itself who may do what.
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
    `no keys are configured, so everybody who reaches ${host} could read and write everything: ` +
    "give a project a secret (SLUICE_SECRET_default=…), or listen on 127.0.0.1, or say --no-auth if that is meant";
  return { kind: "refused", why };
}

export function isLoopback(host: string): boolean {
  const name = host.toLowerCase();
  return name === "localhost" || name === "::1" || /^(::ffff:)?127(\.\d{1,3}){3}$/.test(name);
}
