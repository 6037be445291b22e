/**
 * Makes tokens that the gate takes, with a secret of the project. For the command line, for tests, and for programs that
 * hand out tokens themselves. What it is asked for is checked, so that no token is minted that could never be used.
 */
import { SignJWT } from "jose";
import { utf8 } from "../core/bytes.ts";
import { readFilters, SCOPE_WORDS } from "./claims.ts";

export interface MintRequest {
  /** Words out of read, write and admin, between spaces or commas. */
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

/** Throws when the request makes no sense, saying why. */
export async function mint(secret: string, request: MintRequest, nowMs: number): Promise<string> {
  const { sub, project, streams, ttlSeconds, issuer, audience } = request;
  if (secret === "") throw new Error("the secret is empty");
  if (!(ttlSeconds > 0) || !Number.isFinite(ttlSeconds)) throw new Error("the time to live must be above 0 seconds");
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
