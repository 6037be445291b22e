/**
 * What auth runs with, and its defaults. `compose` puts it together from the settings, which the configuration has checked;
 * what is published elsewhere is looked at here.
 */
import type { JSONWebKeySet } from "jose";

export interface ProjectAuth {
  /** For HS256. Several at once while one replaces another. */
  readonly secrets?: readonly string[] | undefined;
  /** For RS, PS, ES and EdDSA: the public keys, or where they are published. */
  readonly jwks?: string | JSONWebKeySet | undefined;
  /** What the claims `iss` and `aud` must say, where the keys sign tokens for other services too. */
  readonly issuer?: string | undefined;
  readonly audience?: string | undefined;
}

export interface AuthOptions {
  readonly projects: Readonly<Record<string, ProjectAuth>>;
  /** Everybody may do everything, whatever keys there are. */
  readonly off: boolean;
  /** How far the clock of who signs may be from ours. */
  readonly clockSkewSeconds: number;
  /** Verified tokens that are remembered per project. */
  readonly cacheTokens: number;
  /** How long a fetched key set is used before it is fetched again. */
  readonly jwksCacheSeconds: number;
  /** How long it is still used when it cannot be fetched again. */
  readonly jwksStaleSeconds: number;
  /** The least time between two fetches, however many tokens name unknown keys. */
  readonly jwksCooldownSeconds: number;
  readonly jwksTimeoutMs: number;
  /** The size of a published key set, and how many keys it holds at most. */
  readonly jwksBytes: number;
  readonly jwksKeys: number;
  /** The length of a token. */
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

/** The keys that can verify without being able to sign; undefined when this is no key set. */
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

/** Whether a project may be used with a token only. */
export function hasKeys({ secrets = [], jwks }: ProjectAuth): boolean {
  return secrets.length > 0 || jwks !== undefined;
}
