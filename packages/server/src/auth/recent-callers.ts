/**
 * The callers of recent requests by the text of their Authorization header. A hit costs one string comparison; the
 * table of remembered tokens must cut out the token and hash it. Requests of one client follow each other, so most of
 * them hit. `ProjectKeys` owns one and clears it when keys change.
 *
 * Invariants: the whole text is compared. The slot comes from a few characters and only says where to look.
 */
import type { Caller } from "./caller.ts";

interface Entry {
  readonly authorization: string;
  readonly caller: Caller;
}

/** Fixed and small. Beyond it callers overwrite each other and are found in the table of tokens. */
const SLOTS = 256;

export class RecentCallers {
  private entries: (Entry | undefined)[] = new Array<undefined>(SLOTS).fill(undefined);

  get(authorization: string): Caller | undefined {
    const entry = this.entries[slotOf(authorization)];
    return entry !== undefined && entry.authorization === authorization ? entry.caller : undefined;
  }

  set(authorization: string, caller: Caller): void {
    this.entries[slotOf(authorization)] = { authorization, caller };
  }

  clear(): void {
    this.entries.fill(undefined);
  }
}

/** The last characters of a signature vary as much as its first ones. */
function slotOf(text: string): number {
  const { length } = text;
  if (length < 4) return 0;
  return (text.charCodeAt(length - 2) * 61 + text.charCodeAt(length - 3) * 7 + text.charCodeAt(length - 4)) % SLOTS;
}
