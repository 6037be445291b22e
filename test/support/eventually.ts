/** Waiting for what must come to hold, instead of for a time after which it should. */

/** Looks again until it holds; fails with the last reason when it does not in time. */
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
