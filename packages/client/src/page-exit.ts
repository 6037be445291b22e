/**
 * The end of a page: a writer with unsent requests gets a last chance to send, within what a browser allows. Outside of a
 * page nothing happens. Made by the client; appenders and publishers register.
 *
 * Invariants: a listener exists only while a request is unsent; all writers of a client share the limit.
 */

/** Browsers allow 64 KiB in flight after the end of a page; headers take a part of it. */
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
