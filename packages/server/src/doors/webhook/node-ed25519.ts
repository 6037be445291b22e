/** Ed25519 with node's crypto, for the keys that sign webhooks. Compose passes it to the wakes feature. */
import { createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";
import type { Ed25519 } from "../../wakes/keys.ts";

/**
 * PKCS #8 around a bare seed: a sequence of version 0, the algorithm's id 1.3.101.112, and the seed as an octet string.
 */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");

export const nodeEd25519: Ed25519 = {
  publicKey(seed) {
    const { x } = createPublicKey(privateKey(seed)).export({ format: "jwk" });
    return new Uint8Array(Buffer.from(x!, "base64url"));
  },
  sign: (seed, message) => new Uint8Array(sign(null, message, privateKey(seed))),
};

function privateKey(seed: Uint8Array): KeyObject {
  return createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: "der", type: "pkcs8" });
}
