/**
 * The listeners of a live session, and calls of the user's functions. Everything that calls user code goes through here.
 *
 * Invariants: an error of a user's function is reported as `handler-failed` and stops nothing else. An error without a listener
 * reaches the platform's own report of uncaught errors.
 */
import { describeCause, SluiceError } from "../error.ts";

export type Report = (error: SluiceError) => void;

/** Calls a user's function. Returns a promise only if the function does; neither ever throws. */
export function callUser(
  report: Report,
  what: string,
  run: () => unknown,
  offset?: string,
): Promise<unknown> | undefined {
  const failed = (cause: unknown) =>
    report(new SluiceError("handler-failed", `${what} failed: ${describeCause(cause)}`, { cause, offset }));
  try {
    const result = run();
    if (isPromise(result)) return Promise.resolve(result).catch(failed);
  } catch (cause) {
    failed(cause);
  }
  return undefined;
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === "function";
}

export class Listeners<Events extends { error: SluiceError }> {
  private readonly byType = new Map<keyof Events, Set<(value: never) => unknown>>();

  constructor(private readonly unheard: Report) {}

  on<T extends keyof Events>(type: T, listener: (value: Events[T]) => unknown): () => void {
    if (typeof listener !== "function") throw new TypeError(`the listener of ${String(type)} must be a function`);
    // Wrapped, so that a function that is added twice is called twice and removed once.
    const own = (value: Events[T]) => listener(value);
    const listeners = this.byType.get(type) ?? new Set();
    this.byType.set(type, listeners.add(own));
    return () => void listeners.delete(own);
  }

  emit<T extends keyof Events>(type: T, value: Events[T]): void {
    for (const listener of [...(this.byType.get(type) ?? [])] as ((value: Events[T]) => unknown)[]) {
      // An error of an error's listener would come back to that listener.
      void callUser(type === "error" ? this.unheard : this.report, `a listener of ${String(type)}`, () =>
        listener(value),
      );
    }
  }

  readonly report: Report = (error) => {
    if ((this.byType.get("error")?.size ?? 0) > 0) this.emit("error", error as Events["error"]);
    else this.unheard(error);
  };
}
