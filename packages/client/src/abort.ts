/**
 * Listens to a caller's AbortSignal. Every wait of this package that a caller can abort goes through it.
 *
 * Invariants: a signal carries one listener of this package, for any number of reads and calls, and none after the last of
 * them has ended. So Node never warns of too many listeners.
 */
const waiting = new WeakMap<AbortSignal, { readonly runs: Set<() => void>; readonly listener: () => void }>();

/** Calls `run` when the signal aborts. Returns the function that stops listening. */
export function onAbort(signal: AbortSignal | undefined, run: () => void): () => void {
  if (signal === undefined) return () => {};
  let entry = waiting.get(signal);
  if (entry === undefined) {
    const runs = new Set<() => void>();
    const listener = () => {
      waiting.delete(signal);
      for (const one of [...runs]) one();
    };
    entry = { runs, listener };
    waiting.set(signal, entry);
    signal.addEventListener("abort", listener, { once: true });
  }
  const { runs, listener } = entry;
  runs.add(run);
  return () => {
    if (!runs.delete(run) || runs.size > 0 || waiting.get(signal)?.runs !== runs) return;
    waiting.delete(signal);
    signal.removeEventListener("abort", listener);
  };
}

/** The promise, or the signal's reason as soon as it aborts. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const stop = onAbort(signal, () => reject(signal.reason));
    if (signal.aborted) reject(signal.reason);
    promise.then(resolve, reject).finally(stop);
  });
}
