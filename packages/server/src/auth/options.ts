/**
 * The options of auth, with their defaults. `compose` builds them from the settings, which the configuration has
 * checked. Published key sets are checked here.
 */
import type { JSONWebKeySet } from "jose";

export interface ProjectAuth {
  /** For HS256. Several at once during a rotation. */
  readonly secrets?: readonly string[] | undefined;
  /** For RS, PS, ES and EdDSA: the public keys, or the URL where they are published. */
  readonly jwks?: string | JSONWebKeySet | undefined;
  /** The required claims `iss` and `aud`, for keys that also sign tokens for other services. */
  readonly issuer?: string | undefined;
  readonly audience?: string | undefined;
}

export interface AuthOptions {
  readonly projects: Readonly<Record<string, ProjectAuth>>;
  /** Every caller may do everything, whatever keys exist. */
  readonly off: boolean;
  /** How far the clock of the token's issuer may be from the server's. */
  readonly clockSkewSeconds: number;
  /** Verified tokens that are remembered per project. */
  readonly cacheTokens: number;
  /** How long a fetched key set is used before it is fetched again. */
  readonly jwksCacheSeconds: number;
  /** How long it is still used if it cannot be fetched again. */
  readonly jwksStaleSeconds: number;
  /** The least time between two fetches, however many tokens name unknown keys. */
  readonly jwksCooldownSeconds: number;
  readonly jwksTimeoutMs: number;
  /** The most bytes and keys of a published key set. */
  readonly jwksBytes: number;
  readonly jwksKeys: number;
  /** The most characters of a token. */
  readonly tokenChars: number;
}

export const AUTH_DEFAULTS: AuthOptions = {
  projects: {},
  off: false,
  clockSkewSeconds: 5,
  cacheTokens: 10_000,
  jwksCacheSeconds: 600,
  jwksStaleSeconds: 3_600,
  jwksCooldownSeconds: 10,
  jwksTimeoutMs: 5_000,
  jwksBytes: 256 * 1_024,
  jwksKeys: 100,
  tokenChars: 4_096,
};

/** The kinds of keys that have a public half. */
const PUBLIC_KINDS = ["RSA", "EC", "OKP"];

/** The keys that can verify but not sign; undefined if the value is not a key set. */
export function publicKeys(value: unknown, maxKeys: number): JSONWebKeySet | undefined {
  const { keys } = (value ?? {}) as { keys?: unknown };
  if (!Array.isArray(keys) || keys.length > maxKeys) return undefined;
  const isPublic = (key: unknown): key is JSONWebKeySet["keys"][number] => {
    if (typeof key !== "object" || key === null) return false;
    const { kty } = key as { kty?: unknown };
    return PUBLIC_KINDS.includes(kty as string) && !("d" in key) && !("k" in key);
  };
  return { keys: keys.filter(isPublic) };
}

/** Whether the project requires tokens. */
export function hasKeys({ secrets = [], jwks }: ProjectAuth): boolean {
  return secrets.length > 0 || jwks !== undefined;
}
