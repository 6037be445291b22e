/** Waits for a condition instead of for a time after which it should hold. Tests of every suite use it. */

/** Between two checks: short at first, then longer, because a check that asks a whole cluster costs as much as what it waits for. */
const FIRST_PAUSE_MS = 5;
const LAST_PAUSE_MS = 100;

/** Repeats the check until it passes; fails with the last reason after `withinMs`. */
export async function eventually(check: () => void | Promise<void>, withinMs = 10_000): Promise<void> {
  const until = Date.now() + withinMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, LAST_PAUSE_MS)) {
    try {
      return await check();
    } catch (reason) {
      if (Date.now() > until) throw reason;
      await sleep(pauseMs);
    }
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
