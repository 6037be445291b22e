/**
 * Values that may be at hand already. The paths that run for every request use them, because a promise per step costs more than
 * most of these steps.
 */
export type Awaitable<T> = T | Promise<T>;

/** Calls `next` with the value, at once if it is at hand. */
export function andThen<T, R>(value: Awaitable<T>, next: (value: T) => Awaitable<R>): Awaitable<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}
