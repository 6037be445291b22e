/**
 * Opens the disk engine for tests. The contract, crash and disk suites use it.
 *
 * Invariants: each call of `temporaryDir` makes a new directory; the test removes it.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Applier } from "../../packages/server/src/engine/disk/applier.ts";
import { InlineRunner } from "../../packages/server/src/engine/disk/apply-runner.ts";
import { InlineCheck } from "../../packages/server/src/engine/disk/check-runner.ts";
import { ExtentReader } from "../../packages/server/src/engine/disk/extent-reader.ts";
import type { Files } from "../../packages/server/src/engine/disk/files.ts";
import { nodeFiles } from "../../packages/server/src/engine/disk/node-files.ts";
import type { DiskPorts } from "../../packages/server/src/engine/disk/open.ts";
import { openVerified } from "../../packages/server/src/engine/disk/open-store.ts";

/** Real files and LMDB, with applier and check on the same thread: no thread to start, and the same order every time. */
export function inlinePorts(files: Files = nodeFiles): DiskPorts {
  return {
    files,
    openStore: (place) => openVerified(nodeFiles, place),
    startApply: ({ journalDir }, store) => new InlineRunner(new Applier(store), new ExtentReader(files, journalDir)),
    startCheck: ({ path }) => new InlineCheck(nodeFiles, path),
  };
}

export function temporaryDir(): { readonly dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), "sluice-"));
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
}
