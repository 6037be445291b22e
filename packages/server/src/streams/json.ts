/**
 * Splits a JSON body into messages: one array level is flattened, any other value is one message. Called by
 * `bodies.ts`.
 *
 * Invariants: a message keeps the bytes that the client sent, so no number loses a digit.
 */
import { isTooDeep, JSON_DEPTH } from "../core/json-depth.ts";
import { STREAM_LIMITS } from "./defaults.ts";

/**
 * A byte order mark is not JSON. The decoder must not drop it silently, because the stored bytes would still contain
 * it.
 */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const TAB = 0x09;
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export type JsonBody =
  | { readonly kind: "messages"; readonly payloads: Uint8Array[] }
  | { readonly kind: "invalid"; readonly why: string }
  | { readonly kind: "too-deep" }
  | { readonly kind: "too-many" };

export function jsonMessages(body: Uint8Array, maxMessages = STREAM_LIMITS.bodyMessages): JsonBody {
  const start = skipSpace(body, 0);
  // An array is split before it is known to be valid, so that its depth is found in the same pass.
  const split = body[start] === OPEN_BRACKET ? elements(body, start, maxMessages) : undefined;
  if (split === "too-deep" || (!Array.isArray(split) && isTooDeep(body))) return { kind: "too-deep" };
  try {
    JSON.parse(decoder.decode(body));
  } catch (error) {
    return { kind: "invalid", why: error instanceof SyntaxError ? error.message : "the body is not valid UTF-8" };
  }
  if (split === "too-many") return { kind: "too-many" };
  return { kind: "messages", payloads: split ?? [trimmed(body, start, body.length)] };
}

/** The elements of the array that opens at `open`. Of a text that is not valid JSON they mean nothing. */
function elements(bytes: Uint8Array, open: number, maxMessages: number): Uint8Array[] | "too-many" | "too-deep" {
  const found: Uint8Array[] = [];
  let depth = 1;
  let from = skipSpace(bytes, open + 1);
  if (bytes[from] === CLOSE_BRACKET) return found;
  for (let i = from; i < bytes.length; i++) {
    switch (bytes[i]) {
      case QUOTE:
        i = endOfString(bytes, i);
        break;
      case OPEN_BRACKET:
      case OPEN_BRACE:
        if (++depth > JSON_DEPTH) return "too-deep";
        break;
      case CLOSE_BRACKET:
      case CLOSE_BRACE:
        if (--depth > 0) break;
        found.push(trimmed(bytes, from, i));
        return found;
      case COMMA:
        if (depth > 1) break;
        // Counts this element and the one after the comma.
        if (found.length + 2 > maxMessages) return "too-many";
        found.push(trimmed(bytes, from, i));
        from = skipSpace(bytes, i + 1);
        break;
    }
  }
  return found;
}

/** The index of the closing quote of the string that opens at `open`, or the end of the text. */
function endOfString(bytes: Uint8Array, open: number): number {
  let i = open + 1;
  while (i < bytes.length && bytes[i] !== QUOTE) i += bytes[i] === BACKSLASH ? 2 : 1;
  return i;
}

function skipSpace(bytes: Uint8Array, from: number): number {
  let i = from;
  while (isSpace(bytes[i])) i++;
  return i;
}

function trimmed(bytes: Uint8Array, from: number, to: number): Uint8Array {
  let end = to;
  while (end > from && isSpace(bytes[end - 1])) end--;
  return bytes.subarray(from, end);
}

function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === NEWLINE || byte === RETURN || byte === TAB;
}
