/**
 * Reads a store from end to end in a process of its own, and prints the report as JSON: damage inside LMDB's pages can end the
 * process that meets it, and the doctor must live to tell. Started by doctor.ts with the path of the store.
 */
import { EngineError } from "../engine/contract.ts";
import { inspectStore } from "../engine/disk/inspect.ts";
import { openLmdb } from "../engine/disk/lmdb-store.ts";

async function look(path: string): Promise<object> {
  try {
    const store = openLmdb(path);
    try {
      return { report: inspectStore(store) };
    } finally {
      await store.close();
    }
  } catch (fault) {
    if (fault instanceof EngineError) return { damage: fault.message };
    throw fault;
  }
}

process.stdout.write(JSON.stringify(await look(process.argv[2]!)));
