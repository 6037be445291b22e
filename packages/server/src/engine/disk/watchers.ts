/** The watchers of each entity. Wakes come in a turn of their own, so a watcher may call the engine. */
import type { Unwatch } from "../contract.ts";

interface Watcher {
  readonly wake: () => void;
}

export class Watchers {
  private readonly byKey = new Map<string, Set<Watcher>>();
  private noted: Set<Watcher>[] = [];

  watch(key: string, wake: () => void): Unwatch {
    const watcher = { wake };
    const watchers = this.byKey.get(key) ?? new Set();
    this.byKey.set(key, watchers.add(watcher));
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.byKey.get(key) === watchers) this.byKey.delete(key);
    };
  }

  note(key: string): void {
    if (this.byKey.size === 0) return;
    const watchers = this.byKey.get(key);
    if (watchers !== undefined) this.noted.push(watchers);
  }

  wakeNoted(): void {
    if (this.noted.length === 0) return;
    const noted = this.noted;
    this.noted = [];
    queueMicrotask(() => {
      for (const watchers of noted) {
        for (const watcher of [...watchers]) if (watchers.has(watcher)) watcher.wake();
      }
    });
  }
}
