/**
 * The world of a live session in a browser, and in Node as far as it goes: without storage, locks and page events a session
 * works the same and does not survive a reload. `Sluice.session` makes one.
 *
 * Invariants: a platform that refuses its storage, as a browser may do for a frame, is one without storage.
 */
import { MAX_DELAY_MS } from "../backoff.ts";
import { LAST_BYTES, type LastWords, type PageExit } from "../page-exit.ts";
import type { Cancel, Hold, LivePage, LiveWorld } from "./world.ts";

/** The part of the Storage interface that a session uses. */
export interface SessionStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

interface Locks {
  request(name: string, options: { signal: AbortSignal }, granted: () => Promise<void>): Promise<unknown>;
}

interface Scope extends Partial<Pick<EventTarget, "addEventListener" | "removeEventListener">> {
  readonly document?: EventTarget & { readonly visibilityState?: string };
  readonly navigator?: { readonly locks?: Locks };
  readonly sessionStorage?: SessionStorage;
  readonly reportError?: (error: unknown) => void;
}

export function browserWorld(exit: PageExit, storage: SessionStorage | false | undefined): LiveWorld {
  const scope = globalThis as unknown as Scope;
  return {
    now: () => Date.now(),
    random: () => Math.random(),
    after,
    report: (error) => (scope.reportError ?? console.error)(error),
    page: pageOf(scope, exit, storage),
  };
}

function after(ms: number, task: () => void): Cancel {
  const timer = setTimeout(task, Math.min(ms, MAX_DELAY_MS));
  return () => clearTimeout(timer);
}

function pageOf(scope: Scope, exit: PageExit, storage: SessionStorage | false | undefined): LivePage {
  const stored = () => (storage === false ? undefined : (storage ?? scope.sessionStorage));
  return {
    load: (key) => quietly(() => stored()?.getItem(key) ?? undefined),
    save: (key, value) => quietly(() => stored()?.setItem(key, value)),
    hold: (name, waitMs) => hold(scope.navigator?.locks, name, waitMs),
    onHide(words: LastWords) {
      exit.add(words);
      // A phone may end a hidden page without `pagehide`.
      const stop = listen(scope.document, "visibilitychange", () => {
        if (scope.document?.visibilityState === "hidden") words({ bytes: LAST_BYTES });
      });
      return () => {
        exit.delete(words);
        stop();
      };
    },
    onOffline: (task) => listen(scope.document && scope, "offline", task),
    onWake(task) {
      const shown = () => {
        if (scope.document?.visibilityState === "visible") task();
      };
      const page = scope.document && scope;
      const stops = [
        listen(page, "online", task),
        listen(page, "pageshow", task),
        listen(scope.document, "visibilitychange", shown),
      ];
      return () => {
        for (const stop of stops) stop();
      };
    },
  };
}

function listen(target: Scope | EventTarget | undefined, type: string, task: () => void): Cancel {
  target?.addEventListener?.(type, task);
  return () => target?.removeEventListener?.(type, task);
}

function quietly<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch {
    return undefined;
  }
}

/** A page that was reloaded gives up its lock a moment after the new page asks; a page beside it does not. */
function hold(locks: Locks | undefined, name: string, waitMs: number): Promise<Hold> {
  if (locks === undefined) return Promise.resolve({ kind: "unknown" });
  return new Promise((resolve) => {
    const patience = new AbortController();
    const cancel = after(waitMs, () => patience.abort());
    const granted = () =>
      new Promise<void>((release) => {
        cancel();
        resolve({ kind: "held", release });
      });
    locks.request(name, { signal: patience.signal }, granted).catch(() => {
      cancel();
      resolve({ kind: patience.signal.aborted ? "taken" : "unknown" });
    });
  });
}
