/**
 * Signs tokens as another issuer might, right or wrong: any claims, any algorithm, any key. The suites of test/auth use it.
 *
 * Invariants: it checks nothing, so that a test can sign what the server must refuse.
 */
import { createHmac, generateKeyPairSync, type KeyObject } from "node:crypto";
import { exportJWK, type JWK, type JWTPayload, SignJWT } from "jose";
import { SECRET } from "./app.ts";

/** Signs with HS256 unless the header says otherwise. */
export function signed(claims: JWTPayload, secret: string | Buffer = SECRET, header: object = {}): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const content = `${part({ alg: "HS256", typ: "JWT", ...header })}.${part(claims)}`;
  return `${content}.${createHmac("sha256", secret).update(content).digest("base64url")}`;
}

export interface KeyPair {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: KeyObject;
  readonly jwk: JWK;
}

export async function keyPair(kid: string, alg: "RS256" | "ES256" | "EdDSA" = "ES256"): Promise<KeyPair> {
  const { publicKey, privateKey } =
    alg === "RS256"
      ? generateKeyPairSync("rsa", { modulusLength: 2048 })
      : alg === "ES256"
        ? generateKeyPairSync("ec", { namedCurve: "P-256" })
        : generateKeyPairSync("ed25519");
  return { kid, alg, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: "sig" } };
}

export function signedBy({ kid, alg, privateKey }: KeyPair, claims: JWTPayload, header: object = {}): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg, kid, ...header }).sign(privateKey);
}
