/**
 * Messages between nodes as features tell them: JSON objects whose first entry names the part that reads them. The carriers, hints
 * and inquiries of groups and the carrier of pull all hear every message of their node.
 *
 * Invariants: a part parses only what is meant for it. A message that cannot be read is dropped.
 */
const decoder = new TextDecoder();

/** `first` is the first entry as JSON. Undefined if the message is for another part, or cannot be read. */
export function readTold<T>(bytes: Uint8Array, first: string): T | undefined {
  if (!beginsWith(bytes, `{${first}`)) return undefined;
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch {
    return undefined;
  }
}

function beginsWith(bytes: Uint8Array, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (bytes[i] !== text.charCodeAt(i)) return false;
  return true;
}
