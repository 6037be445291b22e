/** Reads all rows of a table of an entity, page by page. Features whose tables have no bound use it. */
import type { Engine, Entity } from "./contract.ts";
import type { Table } from "./table.ts";

export async function* rowsOf<T>(
  engine: Pick<Engine, "rows">,
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
