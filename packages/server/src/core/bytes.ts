/** Operations on bytes and text without Node's Buffer, because rules, services and the client must run without Node. */
const encoder = new TextEncoder();

export const EMPTY = new Uint8Array(0);

export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Whether the text has more than `bytes` UTF-8 bytes. A UTF-16 unit takes at most three, so most texts need no encoding. */
export function isLonger(text: string, bytes: number): boolean {
  return text.length * 3 > bytes && (text.length > bytes || utf8(text).length > bytes);
}

/** What a message takes, roughly: its texts count by their UTF-16 units, because this is asked of every message that is delivered. */
export function messageBytes(
  data: Uint8Array,
  key: string | undefined,
  attributes: Readonly<Record<string, string>> | undefined,
): number {
  let bytes = data.length + (key?.length ?? 0);
  for (const name in attributes) bytes += name.length + attributes[name]!.length;
  return bytes;
}

/** Whether UTF-8 can express the text. It cannot express a surrogate alone, which an escape in JSON may name. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  let length = 0;
  for (const part of parts) length += part.length;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** A multiple of three, so that the pieces join without padding, and small enough for the arguments of one call. */
const BASE64_PIECE = 3 * 8_192;

export function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += BASE64_PIECE) {
    text += btoa(String.fromCharCode.apply(null, bytes.subarray(at, at + BASE64_PIECE) as unknown as number[]));
  }
  return text;
}

export function base64url(bytes: Uint8Array): string {
  return base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Undefined if the text is not base64url. */
export function fromBase64url(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return undefined;
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}

export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}
