// The messages of every load: 256 bytes, deterministic, different from one another, hard to compress.
//
// Invariants: each carries exactly one MARKER byte, which no server sends otherwise, nor the header of a WebSocket frame. So the markers in a reply or an event stream
// count its messages, however a server groups them.

export const MESSAGE_BYTES = 256;
export const MARKER = "|";
export const MARKER_BYTE = MARKER.charCodeAt(0);

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Text of the given length that looks random to a compressor. */
function noise(seed: number, length: number): string {
  let state = (seed + 1) * 2654435761;
  let text = "";
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    text += ALPHABET[state >>> 26];
  }
  return text;
}

/** One message of a stream that is not JSON. */
export function plainMessage(seed: number): string {
  return MARKER + noise(seed, MESSAGE_BYTES - 1);
}

/** One JSON value, 256 bytes as written; `stamp` replaces the noise at its start. */
export function jsonMessage(seed: number, stamp = ""): string {
  const frame = `{"m":"${MARKER}${stamp}"}`;
  return `{"m":"${MARKER}${stamp}${noise(seed, MESSAGE_BYTES - frame.length)}"}`;
}

/** A JSON array of that many messages, for one request. */
export function jsonBatch(seed: number, messages: number): string {
  return `[${Array.from({ length: messages }, (_, i) => jsonMessage(seed * messages + i)).join(",")}]`;
}

export function countMarkers(bytes: Buffer, length = bytes.length): number {
  let count = 0;
  for (let at = bytes.indexOf(MARKER_BYTE); at !== -1 && at < length; at = bytes.indexOf(MARKER_BYTE, at + 1)) count++;
  return count;
}
