/** Reads all rows of a table, page by page. The service, the hub and the rolls use it. */
import type { Engine, Entity } from "../engine/contract.ts";
import type { Table } from "../engine/table.ts";

export async function* rowsOf<T>(
  engine: Engine,
  e: Entity,
  table: Table<T>,
  pageRows: number,
): AsyncGenerator<{ readonly key: string; readonly value: T }> {
  for (let after = ""; ; ) {
    const page = await engine.rows(e, table.name, after, pageRows);
    for (const { key, value } of page) yield { key, value: table.decode(value) };
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) return;
    after = last.key;
  }
}

/** Runs the work on all items, at most `batch` at a time, and returns the results in order. */
export async function inBatches<T, R>(items: readonly T[], batch: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let i = 0; i < items.length; i += batch) {
    results.push(...(await Promise.all(items.slice(i, i + batch).map(work))));
  }
  return results;
}
