/**
 * Stands in for `engine/disk/start-thread.ts` in every test, by an alias in vitest.config.ts. Its threads run a bundle of the
 * same sources, because a thread that loads TypeScript by itself takes half a second of a processor, and every server on disk
 * starts two. vitest calls `setup`, which builds the bundle before the first test file runs.
 *
 * Invariants: the bundle holds the sources as they are when the run starts, also without a build.
 */
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { build } from "esbuild";
import { inject } from "vitest";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    threadsDir: string;
  }
}

const ROOT = resolve(import.meta.dirname, "../..");
const DISK = join(ROOT, "packages/server/src/engine/disk");

export function startThread(name: string, workerData: unknown): Worker {
  return new Worker(join(inject("threadsDir"), `${name}.mjs`), { workerData });
}

/** Called by vitest itself. */
export default async function setup(project: TestProject): Promise<() => void> {
  // Under node_modules, where the threads find lmdb.
  const outdir = join(ROOT, "node_modules/.cache", `sluice-threads-${process.pid}`);
  await build({
    entryPoints: [join(DISK, "worker.ts"), join(DISK, "check-worker.ts")],
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["lmdb"],
    alias: { "@sluice/protocol": join(ROOT, "packages/protocol/src/index.ts") },
    logLevel: "error",
  });
  project.provide("threadsDir", outdir);
  return () => rmSync(outdir, { recursive: true, force: true });
}
