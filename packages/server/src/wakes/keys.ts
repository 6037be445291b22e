/**
 * The keys that sign webhooks. A project has one key pair in use; old pairs are replaced and stay published for a
 * while. One entity per project, kind "keys". Delivery signs with them, the routes publish them, the service starts
 * their replacement.
 *
 *     signing  ""   the retired keys without their private half, then the key in use
 *
 * Invariants: a published key verifies every signature for as long as a receiver may still see it. Projects share no
 * keys.
 */
import { base64url, fromBase64url } from "../core/bytes.ts";
import type { Cancel, World } from "../core/world.ts";
import { type Engine, type Entity, entity } from "../engine/contract.ts";
import { put } from "../engine/draft.ts";
import type { Decision, Keepers, View } from "../engine/keeper.ts";
import { jsonTable } from "../engine/table.ts";

/** The signature algorithm, which each platform provides in its own way. A pair follows from a seed of 32 bytes. */
export interface Ed25519 {
  publicKey(seed: Uint8Array): Uint8Array;
  sign(seed: Uint8Array, message: Uint8Array): Uint8Array;
}

export interface KeySettings {
  /** A key in use for this long is replaced. */
  readonly keyMs: number;
  /** A replaced key stays published for this long. */
  readonly keyKeepMs: number;
  /** How often the age of the keys is checked. */
  readonly keyCheckMs: number;
}

export const KEY_SETTINGS: KeySettings = {
  keyMs: 30 * 24 * 3_600_000,
  keyKeepMs: 24 * 3_600_000,
  keyCheckMs: 3_600_000,
};

interface StoredKey {
  readonly kid: string;
  /** The public half, base64url. */
  readonly x: string;
  /** The private half, base64url; erased when the key is retired. */
  readonly seed?: string | undefined;
  readonly createdAt: number;
  readonly retiredAt?: number | undefined;
}

const KEYS = "keys";
const SEED_BYTES = 32;
const KID_BYTES = 16;

const signingTable = jsonTable<readonly StoredKey[]>("signing");
const SIGNING = signingTable.at("");

function keysEntity(project: string): Entity {
  return entity(project, KEYS, "webhook");
}

type InUse = { readonly kind: "in-use"; readonly key: StoredKey } | { readonly kind: "stale" };

/** The key in use. An expired or missing key is replaced by `fresh`, if given. */
function keyRule(
  view: View,
  now: number,
  input: { fresh?: StoredKey; force?: boolean } & KeySettings,
): Decision<InUse> {
  const keys = view.get(signingTable, "") ?? [];
  const current = keys.find((key) => key.retiredAt === undefined);
  if (current && !input.force && now - current.createdAt < input.keyMs)
    return { outcome: { kind: "in-use", key: current } };
  const { fresh } = input;
  if (fresh === undefined) return { outcome: { kind: "stale" } };
  const older = keys.map((key) => (key.retiredAt === undefined ? { ...key, seed: undefined, retiredAt: now } : key));
  const published = older.filter((key) => isPublished(key, now, input.keyKeepMs));
  const key = { ...fresh, createdAt: now };
  return { outcome: { kind: "in-use", key }, changes: [put(signingTable, "", [...published, key])] };
}

function isPublished({ retiredAt }: StoredKey, now: number, keepMs: number): boolean {
  return retiredAt === undefined || now < retiredAt + keepMs;
}

export interface Signature {
  readonly kid: string;
  readonly bytes: Uint8Array;
}

export class SigningKeys {
  private cancel: Cancel | undefined;

  constructor(
    private readonly engine: Engine,
    private readonly keepers: Keepers,
    private readonly world: World,
    private readonly ed25519: Ed25519,
    private readonly settings: KeySettings,
    private readonly report: (what: string, fault: unknown) => void,
  ) {}

  /** Replaces expired keys now and periodically. */
  start(): void {
    const round = () => {
      this.cancel = this.world.after(this.settings.keyCheckMs, round);
      this.replaceOld().catch((fault) =>
        this.report("replacing old signing keys failed; the next check repeats it", fault),
      );
    };
    round();
  }

  stop(): void {
    this.cancel?.();
  }

  private async replaceOld(): Promise<void> {
    for (const project of await this.engine.projects(KEYS)) await this.inUse(project);
  }

  /** The id of the key in use; creates the project's first key if there is none. */
  async kid(project: string): Promise<string> {
    return (await this.inUse(project)).kid;
  }

  async sign(project: string, message: Uint8Array): Promise<Signature> {
    const { kid, seed } = await this.inUse(project);
    return { kid, bytes: this.ed25519.sign(fromBase64url(seed!)!, message) };
  }

  /** Replaces the key in use whatever its age, because it may have leaked. */
  async rotate(project: string): Promise<string> {
    return (await this.submit(project, this.newKey(), true)).kid;
  }

  /** The keys that receivers verify with, as a JWK set. A project that never signed has none, and this creates none. */
  async published(project: string): Promise<{ keys: object[] }> {
    const { rows } = await this.engine.load(keysEntity(project), [SIGNING]);
    const keys = rows[0] ? signingTable.decode(rows[0]) : [];
    const now = this.engine.now();
    const shown = keys.filter((key) => isPublished(key, now, this.settings.keyKeepMs));
    return { keys: shown.map(({ kid, x }) => ({ kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", kid, x })) };
  }

  private async inUse(project: string): Promise<StoredKey> {
    const rule = (view: View, now: number) => keyRule(view, now, this.settings);
    const outcome = await this.keepers.submit(keysEntity(project), [SIGNING], rule);
    return outcome.kind === "in-use" ? outcome.key : this.submit(project, this.newKey(), false);
  }

  private async submit(project: string, fresh: StoredKey, force: boolean): Promise<StoredKey> {
    const rule = (view: View, now: number) => keyRule(view, now, { ...this.settings, fresh, force });
    const outcome = await this.keepers.submit(keysEntity(project), [SIGNING], rule);
    if (outcome.kind !== "in-use") throw new Error("a new signing key was not accepted");
    return outcome.key;
  }

  private newKey(): StoredKey {
    const seed = this.world.randomBytes(SEED_BYTES);
    const publicKey = this.ed25519.publicKey(seed);
    const kid = `ds_${base64url(publicKey.subarray(0, KID_BYTES))}`;
    return { kid, x: base64url(publicKey), seed: base64url(seed), createdAt: 0 };
  }
}
