/**
 * The bearer tokens of callbacks and workers. A token names its subscription, wake and expiry, and carries a random
 * secret. Called by delivery, `Holding` and the rules.
 *
 *     base64url(JSON [subscription, incarnation, generation, until]) "." secret
 *
 * Invariants: only the stored secret of the wake proves a token. The other fields only tell an old token from a
 * malformed one.
 */
import { base64url, fromBase64url, utf8 } from "../core/bytes.ts";

export interface Token {
  readonly subscription: string;
  /** Differs between two subscriptions of the same id, so that a token of a deleted one never fits its successor. */
  readonly incarnation: string;
  readonly generation: number;
  /** Epoch ms. */
  readonly until: number;
  readonly secret: string;
}

const MAX_TOKEN_CHARS = 2_048;
const SHAPE = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;
const decoder = new TextDecoder("utf-8", { fatal: true });

export function formatToken({ subscription, incarnation, generation, until, secret }: Token): string {
  return `${base64url(utf8(JSON.stringify([subscription, incarnation, generation, until])))}.${secret}`;
}

/** Undefined if the text is not a token of this server. */
export function parseToken(text: string): Token | undefined {
  if (text.length > MAX_TOKEN_CHARS || !SHAPE.test(text)) return undefined;
  const dot = text.indexOf(".");
  const fields = decode(text.slice(0, dot));
  if (!Array.isArray(fields) || fields.length !== 4) return undefined;
  const [subscription, incarnation, generation, until] = fields as unknown[];
  if (typeof subscription !== "string" || typeof incarnation !== "string") return undefined;
  if (!Number.isSafeInteger(generation) || !Number.isSafeInteger(until)) return undefined;
  return {
    subscription,
    incarnation,
    generation: generation as number,
    until: until as number,
    secret: text.slice(dot + 1),
  };
}

function decode(text: string): unknown {
  try {
    return JSON.parse(decoder.decode(fromBase64url(text)));
  } catch {
    return undefined;
  }
}

/** Takes the same time wherever the two differ. */
export function isSameSecret(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}
