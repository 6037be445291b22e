/**
 * The callers of the last requests by the text of their Authorization header. A look takes a comparison of two texts, where the
 * table of remembered tokens has to cut the token out and hash all of it; requests of one client come one after another, so most
 * of them end here. A project's keys own one and empty it when keys change.
 *
 * What must stay true: the whole text is compared; the slot, made of a few letters, only says where to look.
 */
import type { Caller } from "./caller.ts";

interface Entry {
  readonly authorization: string;
  readonly caller: Caller;
}

/** Fixed, and small: beyond it callers take each other's place and are found in the table of tokens. */
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

/** A signature differs in its last letters as much as anywhere. */
function slotOf(text: string): number {
  const { length } = text;
  if (length < 4) return 0;
  return (text.charCodeAt(length - 2) * 61 + text.charCodeAt(length - 3) * 7 + text.charCodeAt(length - 4)) % SLOTS;
}
