/**
 * The end of a page: a writer with unsent requests gets a last chance, within what a browser lets a page send on its way
 * out. Elsewhere than in a page nothing happens.
 *
 * Invariants: a listener exists only while something is unsent; the limit is shared by all of a client.
 */

/** Browsers let a page have 64 KiB on its way after its end; some of it goes to headers. */
export const LAST_BYTES = 60 * 1024;

export interface LastBudget {
  bytes: number;
}

export type LastWords = (budget: LastBudget) => void;

interface PageEvents {
  addEventListener?(type: "pagehide", listener: () => void): void;
  removeEventListener?(type: "pagehide", listener: () => void): void;
}

export class PageExit {
  private readonly unsent = new Set<LastWords>();
  private readonly page: PageEvents | undefined;

  constructor(scope: object = globalThis) {
    this.page = "document" in scope ? (scope as PageEvents) : undefined;
  }

  add(words: LastWords): void {
    if (this.page === undefined) return;
    if (this.unsent.size === 0) this.page.addEventListener?.("pagehide", this.onPageHide);
    this.unsent.add(words);
  }

  delete(words: LastWords): void {
    if (this.unsent.delete(words) && this.unsent.size === 0) {
      this.page?.removeEventListener?.("pagehide", this.onPageHide);
    }
  }

  private readonly onPageHide = (): void => {
    const budget: LastBudget = { bytes: LAST_BYTES };
    for (const words of this.unsent) words(budget);
  };
}
