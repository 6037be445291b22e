/**
 * The short-lived token of a session: what it says, how it is written and signed. Pure, with the signature as a port. `Tokens`
 * mints and verifies with keys from the store.
 *
 *     "sls_" base64url(JSON [key, project, session, subject, scope, streams, until, credentials]) "." base64url(HMAC-SHA256 of all before)
 *
 * Invariants: no field is believed before the signature is checked. A token belongs to one project and one session.
 */
import { base64url, fromBase64url, utf8 } from "../core/bytes.ts";

/** HMAC-SHA256, which each platform provides in its own way. Synchronous, so that it runs in a simulation. */
export type Mac = (key: Uint8Array, message: Uint8Array) => Uint8Array;

export interface SessionToken {
  /** The id of the key that signs it. */
  readonly key: string;
  readonly project: string;
  readonly session: string;
  /** The owner of the session; undefined if the owner is anonymous. */
  readonly subject: string | undefined;
  /** The scopes of the caller that had it minted, separated by spaces. */
  readonly scope: string;
  /** The topic filters that the caller was confined to; undefined for all streams. */
  readonly streams: readonly string[] | undefined;
  /** Epoch ms. */
  readonly untilMs: number;
  /** When the credentials end that the session's first token was minted with; undefined if they do not. */
  readonly credentialsUntilMs: number | undefined;
}

const PREFIX = "sls_";
/** Longer than the token of a caller with the most and longest filters that fit into the headers of a request. */
const MAX_CHARS = 8_192;
const SHAPE = /^sls_[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Whether the text claims to be a session token, and not a token of another kind. */
export function isSessionToken(text: string): boolean {
  return text.startsWith(PREFIX);
}

/** Undefined if the token would be too long to be accepted. */
export function signToken(token: SessionToken, secret: Uint8Array, mac: Mac): string | undefined {
  const { key, project, session, subject = null, scope, streams = null, untilMs, credentialsUntilMs = null } = token;
  const fields = [key, project, session, subject, scope, streams, untilMs, credentialsUntilMs];
  const signed = `${PREFIX}${base64url(utf8(JSON.stringify(fields)))}`;
  const text = `${signed}.${base64url(mac(secret, utf8(signed)))}`;
  return text.length > MAX_CHARS ? undefined : text;
}

/** A token whose signature is not checked yet. */
export interface Unproven {
  readonly key: string;
  /** The token, if this secret signed it. */
  prove(secret: Uint8Array, mac: Mac): SessionToken | undefined;
}

/** Undefined if the text is not a session token at all. */
export function readToken(text: string): Unproven | undefined {
  if (text.length > MAX_CHARS || !SHAPE.test(text)) return undefined;
  const dot = text.lastIndexOf(".");
  const token = fieldsOf(text.slice(PREFIX.length, dot));
  if (token === undefined) return undefined;
  const signed = utf8(text.slice(0, dot));
  const signature = text.slice(dot + 1);
  return {
    key: token.key,
    prove: (secret, mac) => (isSame(base64url(mac(secret, signed)), signature) ? token : undefined),
  };
}

function fieldsOf(encoded: string): SessionToken | undefined {
  const fields = decode(encoded);
  if (!Array.isArray(fields) || fields.length !== 8) return undefined;
  const [key, project, session, subject, scope, streams, untilMs, credentials] = fields as unknown[];
  if (typeof key !== "string" || typeof project !== "string" || typeof session !== "string") return undefined;
  if (subject !== null && typeof subject !== "string") return undefined;
  if (typeof scope !== "string" || !Number.isSafeInteger(untilMs)) return undefined;
  if (credentials !== null && typeof credentials !== "number") return undefined;
  if (streams !== null && !isTexts(streams)) return undefined;
  return {
    key,
    project,
    session,
    subject: subject ?? undefined,
    scope,
    streams: streams ?? undefined,
    untilMs: untilMs as number,
    credentialsUntilMs: credentials ?? undefined,
  };
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

function decode(text: string): unknown {
  try {
    return JSON.parse(decoder.decode(fromBase64url(text)));
  } catch {
    return undefined;
  }
}

/** Takes the same time wherever the two differ. */
function isSame(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}
