/**
 * How auth is set up, and what is refused at the start rather than at the first request. `compose` reads it; the errors
 * name the project and what is wrong, never a secret.
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
};

const MAX_SECRETS = 16;
export const MAX_JWKS_KEYS = 100;

/** The kinds of keys that have a public half. */
const PUBLIC_KINDS = ["RSA", "EC", "OKP"];

/** Throws when the options cannot work. */
export function checkAuth(options: AuthOptions): void {
  for (const [project, keys] of Object.entries(options.projects)) checkProject(project, keys);
  const numbers = ["clockSkewSeconds", "jwksCacheSeconds", "jwksStaleSeconds", "jwksCooldownSeconds"] as const;
  for (const name of numbers) {
    if (!(options[name] >= 0)) throw new Error(`auth: ${name} must be a number from 0`);
  }
  for (const name of ["cacheTokens", "jwksTimeoutMs"] as const) {
    if (!(options[name] >= 1)) throw new Error(`auth: ${name} must be a number from 1`);
  }
}

function checkProject(project: string, { secrets = [], jwks }: ProjectAuth): void {
  if (secrets.length > MAX_SECRETS) throw new Error(`auth: project ${project} has more than ${MAX_SECRETS} secrets`);
  if (secrets.some((secret) => typeof secret !== "string" || secret === "")) {
    throw new Error(`auth: a secret of project ${project} is empty`);
  }
  if (typeof jwks === "string") {
    const url = URL.canParse(jwks) ? new URL(jwks) : undefined;
    if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:")) {
      throw new Error(`auth: jwks of project ${project} must be an http or https URL, or a key set`);
    }
  } else if (jwks !== undefined) {
    const usable = publicKeys(jwks);
    if (usable === undefined) throw new Error(`auth: jwks of project ${project} must be an object with an array keys`);
    if (usable.keys.length === 0 || usable.keys.length < jwks.keys.length) {
      throw new Error(`auth: jwks of project ${project} must hold public RSA, EC or OKP keys, and nothing else`);
    }
  }
}

/** The keys that can verify without being able to sign; undefined when this is no key set. */
export function publicKeys(value: unknown): JSONWebKeySet | undefined {
  const { keys } = (value ?? {}) as { keys?: unknown };
  if (!Array.isArray(keys) || keys.length > MAX_JWKS_KEYS) return undefined;
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
