/** For commands that follow something until their user has had enough: Ctrl-C or a request to end is no fault. */

/** Runs `work` until it is done, or until its user ends it, which `signal` tells it. */
export async function untilEnded(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const ending = new AbortController();
  const end = () => ending.abort();
  process.once("SIGINT", end);
  process.once("SIGTERM", end);
  try {
    await work(ending.signal);
  } catch (fault) {
    if (!ending.signal.aborted) throw fault;
  } finally {
    // Whatever is left of a connection must not keep the process.
    ending.abort();
    process.off("SIGINT", end);
    process.off("SIGTERM", end);
  }
}
