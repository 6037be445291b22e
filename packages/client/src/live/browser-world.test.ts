import { afterEach, describe, expect, test, vi } from "vitest";
import { turn } from "../../../../test/support/live-client.ts";
import { PageExit } from "../page-exit.ts";
import { browserWorld } from "./browser-world.ts";

/** The Web Locks of one browser: each lock has one holder, and the others wait. */
class FakeLocks {
  private readonly queues = new Map<string, (() => void)[]>();

  async request(name: string, { signal }: { signal: AbortSignal }, granted: () => Promise<void>): Promise<void> {
    const queue = this.queues.get(name) ?? [];
    this.queues.set(name, queue);
    await new Promise<void>((resolve, reject) => {
      queue.push(resolve);
      if (queue.length === 1) resolve();
      signal.addEventListener("abort", () => {
        queue.splice(queue.indexOf(resolve), 1);
        reject(signal.reason);
      });
    });
    await granted();
    queue.shift();
    queue[0]?.();
  }
}

function page(visibilityState = "visible") {
  const document = Object.assign(new EventTarget(), { visibilityState });
  const scope = new EventTarget();
  vi.stubGlobal("document", document);
  vi.stubGlobal("addEventListener", scope.addEventListener.bind(scope));
  vi.stubGlobal("removeEventListener", scope.removeEventListener.bind(scope));
  return { document, scope };
}

describe("the world of a page", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });

  test("holds a lock until it is released; a page that asks meanwhile gets it in time, or is told that it is taken", async () => {
    vi.useFakeTimers();
    vi.stubGlobal("navigator", { locks: new FakeLocks() });
    const { hold } = browserWorld(new PageExit(), undefined).page;
    const first = await hold("a", 500);
    expect(first.kind).toBe("held");
    const duplicate = hold("a", 500);
    await vi.advanceTimersByTimeAsync(500);
    expect((await duplicate).kind).toBe("taken");
    const reloaded = hold("a", 500);
    await vi.advanceTimersByTimeAsync(499);
    if (first.kind === "held") first.release();
    expect((await reloaded).kind).toBe("held");
    expect(vi.getTimerCount()).toBe(0);
  });

  test("knows nothing of other pages where there are no locks, or where they fail", async () => {
    vi.stubGlobal("navigator", {});
    expect(await browserWorld(new PageExit(), undefined).page.hold("a", 500)).toEqual({ kind: "unknown" });
    vi.stubGlobal("navigator", { locks: { request: () => Promise.reject(new Error("insecure")) } });
    expect(await browserWorld(new PageExit(), undefined).page.hold("a", 500)).toEqual({ kind: "unknown" });
  });

  test("has a last word when it goes away and when it is hidden, and none after it was stopped", () => {
    const { document, scope } = page();
    const budgets: number[] = [];
    const stop = browserWorld(new PageExit(), undefined).page.onHide(({ bytes }) => void budgets.push(bytes));
    scope.dispatchEvent(new Event("pagehide"));
    document.dispatchEvent(new Event("visibilitychange"));
    expect(budgets.length).toBe(1);
    document.visibilityState = "hidden";
    document.dispatchEvent(new Event("visibilitychange"));
    expect(budgets.length).toBe(2);
    stop();
    scope.dispatchEvent(new Event("pagehide"));
    document.dispatchEvent(new Event("visibilitychange"));
    expect(budgets.length).toBe(2);
  });

  test("wakes when it is shown and when the network is back", () => {
    const { document, scope } = page();
    let wakes = 0;
    const stop = browserWorld(new PageExit(), undefined).page.onWake(() => void wakes++);
    scope.dispatchEvent(new Event("online"));
    scope.dispatchEvent(new Event("pageshow"));
    document.dispatchEvent(new Event("visibilitychange"));
    document.visibilityState = "hidden";
    document.dispatchEvent(new Event("visibilitychange"));
    expect(wakes).toBe(3);
    stop();
    scope.dispatchEvent(new Event("online"));
    expect(wakes).toBe(3);
  });

  test("hears that the network is lost", () => {
    const { scope } = page();
    let losses = 0;
    const stop = browserWorld(new PageExit(), undefined).page.onOffline(() => void losses++);
    scope.dispatchEvent(new Event("offline"));
    stop();
    scope.dispatchEvent(new Event("offline"));
    expect(losses).toBe(1);
  });

  test("stores in the page's storage, in the caller's, or nowhere, and survives one that refuses", () => {
    const items = new Map<string, string>();
    const storage = {
      getItem: (key: string) => items.get(key) ?? null,
      setItem: (k: string, v: string) => void items.set(k, v),
    };
    const worlds = [storage, false, undefined].map((one) =>
      browserWorld(new PageExit(), one as typeof storage | undefined),
    );
    for (const { page } of worlds) page.save("k", "v");
    expect(worlds.map(({ page }) => page.load("k"))).toEqual(["v", undefined, undefined]);
    const broken = () => {
      throw new Error("SecurityError");
    };
    const refusing = browserWorld(new PageExit(), { getItem: broken, setItem: broken }).page;
    refusing.save("k", "v");
    expect(refusing.load("k")).toBeUndefined();
  });

  test("shows errors as uncaught ones", async () => {
    const shown: unknown[] = [];
    vi.stubGlobal("reportError", (error: unknown) => shown.push(error));
    const error = new Error("x");
    browserWorld(new PageExit(), undefined).report(error as never);
    await turn();
    expect(shown).toEqual([error]);
  });
});
