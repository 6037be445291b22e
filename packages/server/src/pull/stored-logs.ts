/** What is stored of the logs of a subscription or a snapshot: floors and acknowledgements. Snapshots and backlogs read it. */
import type { Engine, Entity } from "../engine/contract.ts";
import { rowsOf } from "../engine/table-rows.ts";
import type { Block } from "../leases/block-row.ts";
import { blockOfKey, blockTable } from "../leases/block-table.ts";
import type { LogState } from "./rules.ts";
import { logPaths, logTable, type TopicRef } from "./state.ts";

/** A log's state as it is stored: no block is missing. */
export interface StoredLog extends LogState {
  readonly blocks: ReadonlyMap<number, Block>;
}

/** By path. Floors come first: what is acknowledged while this reads may count as acknowledged or not. */
export async function storedLogs(
  engine: Engine,
  e: Entity,
  topic: TopicRef,
  edition: number,
  pageRows: number,
): Promise<Map<string, StoredLog>> {
  const paths = logPaths(topic);
  const { rows } = await engine.load(
    e,
    paths.map((path) => logTable.at(path)),
  );
  const blocks = new Map<string, Map<number, Block>>(paths.map((path) => [path, new Map()]));
  for await (const { key, value } of rowsOf(engine, e, blockTable, pageRows)) {
    const block = blockOfKey(key);
    if (block.edition === edition) blocks.get(block.path)?.set(block.number, value);
  }
  return new Map(
    paths.map((path, i) => {
      const row = rows[i] && logTable.decode(rows[i]);
      if (row === undefined) throw new Error(`${e.key} has no row of ${path}`);
      return [path, { at: row.at, marked: row.marked, blocks: blocks.get(path)! }];
    }),
  );
}
