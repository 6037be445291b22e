/**
 * Mints tokens that the server accepts, with a secret of the project. Called by the command line, tests, and programs
 * that issue tokens themselves.
 *
 * Invariants: the request is checked, so that no token is minted that the server would always refuse.
 */
import { SignJWT } from "jose";
import { utf8 } from "../core/bytes.ts";
import { readFilters, SCOPE_WORDS } from "./token-claims.ts";

export interface MintRequest {
  /** One or more of read, write, admin and metrics, separated by spaces or commas. */
  readonly scope: string;
  readonly ttlSeconds: number;
  readonly sub?: string | undefined;
  /** The only project that the token is for. */
  readonly project?: string | undefined;
  readonly issuer?: string | undefined;
  readonly audience?: string | undefined;
  /** Topic filters that the token is confined to. */
  readonly streams?: readonly string[] | undefined;
}

/** Throws with the reason if the request is invalid. */
export async function mint(secret: string, request: MintRequest, nowMs: number): Promise<string> {
  const { sub, project, streams, ttlSeconds, issuer, audience } = request;
  if (secret === "") throw new Error("the secret is empty; use the secret of the project");
  if (!(ttlSeconds > 0) || !Number.isFinite(ttlSeconds))
    throw new Error(`the time to live must be above 0 seconds; got ${ttlSeconds}`);
  const filters = streams === undefined ? [] : readFilters(streams);
  if (typeof filters === "string") throw new Error(filters);
  const claims = { scope: scopeOf(request.scope), sub, project, streams, iss: issuer, aud: audience };
  const issuedAt = Math.floor(nowMs / 1_000);
  return await new SignJWT(claims)
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + Math.ceil(ttlSeconds))
    .sign(utf8(secret));
}

function scopeOf(text: string): string {
  const words = text.split(/[\s,]+/).filter((word) => word !== "");
  if (words.length === 0) throw new Error(`the scope must be one or more of ${SCOPE_WORDS.join(", ")}`);
  for (const word of words) {
    if (!SCOPE_WORDS.includes(word)) throw new Error(`the scope ${word} is not one of ${SCOPE_WORDS.join(", ")}`);
  }
  return [...new Set(words)].join(" ");
}
