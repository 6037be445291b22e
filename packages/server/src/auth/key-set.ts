/**
 * The public keys of a project: inline from the options, or fetched from where they are published. `ProjectKeys` asks
 * for them whenever it verifies a token.
 *
 * Invariants: at most one fetch runs at a time, and none within the cool-down, whatever tokens arrive. A set that
 * cannot be fetched again stays in use for a while. A set that was never fetched is `unavailable`, which is not the
 * caller's fault. All times are monotonic: a machine's clock that is set neither keeps old keys nor delays a fetch.
 */
import { createLocalJWKSet, type JSONWebKeySet } from "jose";
import type { World } from "../core/world.ts";
import { type AuthOptions, publicKeys } from "./options.ts";

/** The body that is published at the URL; `why` must not quote it. */
export type KeysFetcher = (url: string, timeoutMs: number) => Promise<Fetched>;
export type Fetched =
  | { readonly kind: "fetched"; readonly text: string }
  | { readonly kind: "failed"; readonly why: string };

export type Finder = ReturnType<typeof createLocalJWKSet>;

export type Keys =
  | { readonly kind: "keys"; readonly find: Finder; readonly freshUntilMs: number }
  | { readonly kind: "unavailable"; readonly retryAtMs: number };

export interface KeySource {
  /** The keys to verify with now. */
  current(): Promise<Keys>;
  /** The keys after a token has named an unknown one. */
  renewed(): Promise<Keys>;
}

export function inlineKeys(jwks: JSONWebKeySet): KeySource {
  const keys: Keys = { kind: "keys", find: createLocalJWKSet(jwks), freshUntilMs: Number.POSITIVE_INFINITY };
  return { current: async () => keys, renewed: async () => keys };
}

export interface RemoteParts {
  readonly url: string;
  readonly world: World;
  readonly settings: Pick<
    AuthOptions,
    "jwksCacheSeconds" | "jwksStaleSeconds" | "jwksCooldownSeconds" | "jwksTimeoutMs" | "jwksKeys"
  >;
  readonly fetchKeys: KeysFetcher;
  /** Called when the keys have changed. */
  onChange(): void;
  /** Called with the reason of a failed fetch. */
  report(fault: unknown): void;
}

interface KeySet {
  readonly text: string;
  readonly find: Finder;
  readonly fetchedAtMs: number;
}

export class RemoteKeys implements KeySource {
  private set: KeySet | undefined;
  private triedAtMs = Number.NEGATIVE_INFINITY;
  private hasFailed = false;
  private fetching: Promise<void> | undefined;

  constructor(private readonly parts: RemoteParts) {}

  async current(): Promise<Keys> {
    if (!this.isFresh && !this.isCoolingDown) await this.refresh();
    return this.keys();
  }

  async renewed(): Promise<Keys> {
    if (!this.isCoolingDown) await this.refresh();
    return this.hasFailed ? this.unavailable() : this.keys();
  }

  private get isFresh(): boolean {
    const { world, settings } = this.parts;
    return this.set !== undefined && world.monotonicMs() < this.set.fetchedAtMs + settings.jwksCacheSeconds * 1_000;
  }

  private get isCoolingDown(): boolean {
    return this.parts.world.monotonicMs() < this.retryAtMs;
  }

  private get retryAtMs(): number {
    return this.triedAtMs + this.parts.settings.jwksCooldownSeconds * 1_000;
  }

  private keys(): Keys {
    const { world, settings } = this.parts;
    if (this.set === undefined) return this.unavailable();
    const { find, fetchedAtMs } = this.set;
    if (this.isFresh) return { kind: "keys", find, freshUntilMs: fetchedAtMs + settings.jwksCacheSeconds * 1_000 };
    if (world.monotonicMs() >= fetchedAtMs + settings.jwksStaleSeconds * 1_000) return this.unavailable();
    return { kind: "keys", find, freshUntilMs: this.retryAtMs };
  }

  private unavailable(): Keys {
    return { kind: "unavailable", retryAtMs: this.retryAtMs };
  }

  private refresh(): Promise<void> {
    this.fetching ??= this.fetch().finally(() => {
      this.fetching = undefined;
    });
    return this.fetching;
  }

  private async fetch(): Promise<void> {
    const { url, world, settings, fetchKeys, onChange, report } = this.parts;
    const fetched = await fetchKeys(url, settings.jwksTimeoutMs).catch(
      (fault): Fetched => ({ kind: "failed", why: String(fault) }),
    );
    this.triedAtMs = world.monotonicMs();
    const jwks = fetched.kind === "fetched" ? parseKeySet(fetched.text, settings.jwksKeys) : undefined;
    this.hasFailed = jwks === undefined;
    if (fetched.kind === "failed" || jwks === undefined) {
      report(new Error(fetched.kind === "failed" ? fetched.why : "the published document is not a key set"));
      return;
    }
    const isOther = this.set !== undefined && this.set.text !== fetched.text;
    this.set = { text: fetched.text, find: createLocalJWKSet(jwks), fetchedAtMs: this.triedAtMs };
    if (isOther) onChange();
  }
}

function parseKeySet(text: string, maxKeys: number): JSONWebKeySet | undefined {
  try {
    return publicKeys(JSON.parse(text), maxKeys);
  } catch {
    return undefined;
  }
}
