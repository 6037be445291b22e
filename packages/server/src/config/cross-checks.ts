/**
 * The rules that settings must fulfill together, whatever their source: defaults and limits that depend on other settings,
 * and which callers may reach a server without keys. Called by loading, `createServer` and the command line.
 *
 * Invariants: no other code decides this.
 */
import { hostOf, isAddress, isLoopbackHost } from "../core/address.ts";
import { limitsOf, type ParsedSettings, type Settings } from "./schema.ts";

/** The share of one project where several are configured, so that one alone cannot use up what all of them need. */
const SHARE_PERCENT = 50;

/** Fills in the defaults that follow from other settings. `isGuarded`: the embedding program authorizes callers itself. */
export function complete(settings: ParsedSettings, isGuarded = false): Settings {
  const { webhook, publicUrl, projects } = settings;
  const isPublic = publicUrl !== undefined && !isLoopbackHost(hostOf(new URL(publicUrl)));
  const { allowLoopback = isLocal(settings, isGuarded) && !isPublic } = webhook;
  const { projectSharePercent = Object.keys(projects).length > 1 ? SHARE_PERCENT : 100 } = settings;
  return { ...settings, webhook: { ...webhook, allowLoopback }, projectSharePercent };
}

/** Why the settings contradict each other; empty if they do not. */
export function disagreements(settings: Settings): string[] {
  const { cors, wake, webhook, list, stream, http, tls } = limitsOf(settings);
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
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    problems.push(`tls.cert and tls.key belong together; tls.${tls.cert === undefined ? "cert" : "key"} is not set`);
  }
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

/** What an operator can do about a refused server, in the words of the command line or of an embedding program. */
const WAYS_OUT = {
  flags: "give a project a secret (SLUICE_SECRET_default=…), or listen on 127.0.0.1, or say --no-auth if that is meant",
  options:
    "give a project a secret (projects.default.secrets), or listen on 127.0.0.1, or set auth.off to true if that is meant",
} as const;

/**
 * Without keys the server cannot tell callers apart, so only this machine may connect, unless the operator allows more.
 * `isGuarded`: the embedding program authorizes callers itself.
 */
export function exposureOf(
  { host, auth, projects }: Pick<Settings, "host" | "auth" | "projects">,
  isGuarded = false,
  words: keyof typeof WAYS_OUT = "flags",
): Exposure {
  if (isGuarded) return { kind: "guarded" };
  if (auth.off) return { kind: "open" };
  const hasKeys = Object.values(projects).some(({ secrets, jwks }) => secrets !== undefined || jwks !== undefined);
  if (hasKeys) return { kind: "guarded" };
  if (isLoopback(host)) return { kind: "local" };
  const why = `no keys are configured, so every client that reaches ${host} could read and write everything: ${WAYS_OUT[words]}`;
  return { kind: "refused", why };
}

/**
 * Whether only programs of this machine can connect, and none needs a token: a developer's server. Any page in the developer's
 * browser can send requests to it.
 */
export function isLocal(settings: Parameters<typeof exposureOf>[0], isGuarded = false): boolean {
  return exposureOf(settings, isGuarded).kind !== "guarded" && isLoopback(settings.host);
}

/** Whether a listener on this host is out of reach for other machines. A name below localhost may resolve to anything. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase();
  return name === "localhost" || (isAddress(name) && isLoopbackHost(name));
}
