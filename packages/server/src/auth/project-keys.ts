/**
 * Verifies the tokens of one project and remembers the valid ones. `TokenIdentity` calls `known` first, which is
 * synchronous and cheap, and `verify` only for a token that is not remembered.
 *
 * Invariants: the kind of key fixes the algorithm: a secret HS256, a public key an asymmetric one. So neither `none` nor
 * a public key used as a secret ever verifies. A remembered token is valid no longer than the token itself and the
 * keys that verified it. No response or report contains any part of a token or key.
 */
import { decodeProtectedHeader, errors, type JWTPayload, type JWTVerifyOptions, jwtVerify } from "jose";
import { utf8 } from "../core/bytes.ts";
import type { World } from "../core/world.ts";
import { Caller } from "./caller.ts";
import { inlineKeys, type KeySource, type Keys, type KeysFetcher, RemoteKeys } from "./key-set.ts";
import type { AuthOptions, ProjectAuth } from "./options.ts";
import { RecentCallers } from "./recent-callers.ts";
import { readClaims } from "./token-claims.ts";

const SHAPE = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const SECRET_ALGORITHM = "HS256";
const PUBLIC_ALGORITHMS = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519".split(" ");

export type Verdict =
  | { readonly kind: "caller"; readonly caller: Caller }
  | { readonly kind: "expired" }
  | { readonly kind: "invalid"; readonly detail: string }
  | { readonly kind: "unavailable"; readonly retryAtMs: number };

export interface ProjectParts {
  readonly settings: AuthOptions;
  readonly world: World;
  readonly fetchKeys: KeysFetcher;
  /** Called with the reason why keys could not be fetched. */
  report(what: string, fault: unknown): void;
}

/** The result of checking a signature, before the claims are read. */
type Checked =
  | { readonly kind: "payload"; readonly payload: JWTPayload; readonly freshUntilMs: number }
  | Exclude<Verdict, { kind: "caller" }>;

export class ProjectKeys {
  private readonly remembered = new Map<string, Caller>();
  private readonly recent = new RecentCallers();
  private readonly secrets: readonly Uint8Array[];
  private readonly source: KeySource | undefined;

  constructor(
    project: string,
    private readonly keys: ProjectAuth,
    private readonly parts: ProjectParts,
  ) {
    const { secrets = [], jwks } = keys;
    this.secrets = secrets.map(utf8);
    const { settings, world, fetchKeys, report } = parts;
    const onChange = () => {
      this.remembered.clear();
      this.recent.clear();
    };
    const remote = {
      settings,
      world,
      fetchKeys,
      onChange,
      report: (fault: unknown) =>
        report(
          `fetching the keys of project ${project} failed; the last key set is used while it is fresh enough`,
          fault,
        ),
    };
    if (jwks !== undefined) {
      this.source = typeof jwks === "string" ? new RemoteKeys({ ...remote, url: jwks }) : inlineKeys(jwks);
    }
  }

  /** The number of remembered tokens. */
  get size(): number {
    return this.remembered.size;
  }

  /** The caller of this token, if it was verified before and is still valid. */
  known(token: string): Caller | undefined {
    const caller = this.remembered.get(token);
    if (caller === undefined || this.isValid(caller)) return caller;
    this.remembered.delete(token);
    return undefined;
  }

  /** The same by the whole header, for recent callers. Undefined does not mean that the token is unknown. */
  justSeen(authorization: string): Caller | undefined {
    const caller = this.recent.get(authorization);
    return caller !== undefined && this.isValid(caller) ? caller : undefined;
  }

  private isValid({ endsAtMs, keysFreshUntilMs }: Caller): boolean {
    const { world } = this.parts;
    if (world.now() >= endsAtMs) return false;
    return keysFreshUntilMs === Number.POSITIVE_INFINITY || world.monotonicMs() < keysFreshUntilMs;
  }

  /** Remembers that this header carries a known token. */
  see(authorization: string, caller: Caller): void {
    this.recent.set(authorization, caller);
  }

  async verify(token: string): Promise<Verdict> {
    const checked = await this.check(token);
    if (checked.kind !== "payload") return checked;
    const claims = readClaims(checked.payload);
    if (typeof claims === "string") return invalid(claims);
    const { clockSkewSeconds, cacheTokens } = this.parts.settings;
    const endsAtMs = (claims.expiresAt + clockSkewSeconds) * 1_000;
    const caller = new Caller(claims, endsAtMs, checked.freshUntilMs);
    // Evicts the token that has been remembered longest. If it is in use, it is verified again.
    if (this.remembered.size >= cacheTokens) this.remembered.delete(this.remembered.keys().next().value!);
    this.remembered.set(token, caller);
    return { kind: "caller", caller };
  }

  private async check(token: string): Promise<Checked> {
    const { tokenChars } = this.parts.settings;
    if (token.length > tokenChars) return invalid(`the token is longer than ${tokenChars} characters`);
    if (!SHAPE.test(token)) return invalid("the token is not a signed JWT");
    const alg = algorithmOf(token);
    if (alg === undefined) return invalid("the token is not a signed JWT");
    if (alg === SECRET_ALGORITHM) return this.checkSecret(token);
    if (PUBLIC_ALGORITHMS.includes(alg)) return this.checkPublic(token, alg);
    return invalid(`the token must be signed with ${SECRET_ALGORITHM} or an asymmetric algorithm`);
  }

  private async checkSecret(token: string): Promise<Checked> {
    const options = this.options([SECRET_ALGORITHM]);
    for (const secret of this.secrets) {
      try {
        const { payload } = await jwtVerify(token, secret, options);
        return { kind: "payload", payload, freshUntilMs: Number.POSITIVE_INFINITY };
      } catch (fault) {
        if (!(fault instanceof errors.JWSSignatureVerificationFailed)) return explain(fault);
      }
    }
    return invalid(UNSIGNED);
  }

  private async checkPublic(token: string, alg: string): Promise<Checked> {
    if (this.source === undefined) return invalid(UNSIGNED);
    const checked = await this.checkWith(await this.source.current(), token, alg);
    if (checked !== "unknown-key") return checked;
    const again = await this.checkWith(await this.source.renewed(), token, alg);
    return again === "unknown-key" ? invalid(UNSIGNED) : again;
  }

  private async checkWith(keys: Keys, token: string, alg: string): Promise<Checked | "unknown-key"> {
    if (keys.kind === "unavailable") return keys;
    const options = this.options([alg]);
    const passed = (payload: JWTPayload): Checked => ({ kind: "payload", payload, freshUntilMs: keys.freshUntilMs });
    try {
      return passed((await jwtVerify(token, keys.find, options)).payload);
    } catch (fault) {
      if (fault instanceof errors.JWKSNoMatchingKey) return "unknown-key";
      if (!(fault instanceof errors.JWKSMultipleMatchingKeys)) return explain(fault);
      // The token does not name its key, so every matching key is tried.
      for await (const key of fault) {
        try {
          return passed((await jwtVerify(token, key, options)).payload);
        } catch (other) {
          if (!(other instanceof errors.JWSSignatureVerificationFailed)) return explain(other);
        }
      }
      return invalid(UNSIGNED);
    }
  }

  private options(algorithms: string[]): JWTVerifyOptions {
    const { settings, world } = this.parts;
    const { issuer, audience } = this.keys;
    return {
      ...(issuer === undefined ? {} : { issuer }),
      ...(audience === undefined ? {} : { audience }),
      algorithms,
      currentDate: new Date(world.now()),
      clockTolerance: settings.clockSkewSeconds,
      requiredClaims: ["exp"],
    };
  }
}

const UNSIGNED = "the token is not signed with a key of this project";

function algorithmOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).alg;
  } catch {
    return undefined;
  }
}

/** Uses texts of its own, because the library's could quote the token. */
function explain(fault: unknown): Checked {
  if (fault instanceof errors.JWTExpired) return { kind: "expired" };
  if (fault instanceof errors.JWTClaimValidationFailed) {
    if (fault.claim === "iss" || fault.claim === "aud") {
      return invalid(`the claim ${fault.claim} does not match the one that the project requires`);
    }
    if (fault.reason === "missing") return invalid("the claim exp is missing");
    if (fault.claim === "nbf" && fault.reason === "check_failed") return invalid("the token is not valid yet");
    return invalid("one of the claims exp, nbf and iat is not a number or not a valid time");
  }
  return invalid(UNSIGNED);
}

function invalid(detail: string): { kind: "invalid"; detail: string } {
  return { kind: "invalid", detail };
}
