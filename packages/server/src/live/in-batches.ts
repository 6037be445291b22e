/** Runs the work on all items, at most `batch` at a time, and returns the results in order. */
export async function inBatches<T, R>(items: readonly T[], batch: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let i = 0; i < items.length; i += batch) {
    results.push(...(await Promise.all(items.slice(i, i + batch).map(work))));
  }
  return results;
}
