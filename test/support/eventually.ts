/** Waits for a condition instead of for a time after which it should hold. Tests of every suite use it. */

/** Repeats the check until it passes; fails with the last reason after `withinMs`. */
export async function eventually(check: () => void | Promise<void>, withinMs = 10_000): Promise<void> {
  const until = Date.now() + withinMs;
  for (;;) {
    try {
      return await check();
    } catch (reason) {
      if (Date.now() > until) throw reason;
      await sleep(10);
    }
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
