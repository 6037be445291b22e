/**
 * How deep the arrays and objects of a JSON text are nested, found out before it is parsed. Whatever parses JSON from clients asks
 * here first, because the parser takes seconds for megabytes of opening brackets, in which the server does nothing else.
 *
 * Invariants: a text with at most `JSON_DEPTH` bytes is never scanned. The text need not be valid JSON.
 */

/** Written documents have tens of levels; several parsers that readers may use accept no more than this. */
export const JSON_DEPTH = 1_000;

export const TOO_DEEP = `arrays and objects may be nested at most ${JSON_DEPTH} levels deep`;

const QUOTE = 0x22;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export function isTooDeep(json: Uint8Array): boolean {
  const { length } = json;
  let depth = 0;
  // Ends where the rest of the text is too short to open as many levels as are missing.
  for (let i = 0; length - i > JSON_DEPTH - depth; i++) {
    const byte = json[i];
    if (byte === QUOTE) {
      i++;
      while (i < length && json[i] !== QUOTE) i += json[i] === BACKSLASH ? 2 : 1;
    } else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) {
      if (++depth > JSON_DEPTH) return true;
    } else if (byte === CLOSE_BRACKET || byte === CLOSE_BRACE) depth--;
  }
  return false;
}
