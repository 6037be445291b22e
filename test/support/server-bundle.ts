/**
 * The `sluice` command in one file, built before the first test file runs. Suites that start many processes use it, because
 * loading some hundred modules takes a process longer than most tests. vitest calls `setup`.
 *
 * Invariants: the bundle holds the code that `npm run build` has made. `npm start`, the packed image and the signal tests start
 * the command as it ships.
 */
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { inject } from "vitest";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    sluiceBin: string;
  }
}

const SERVER = resolve(import.meta.dirname, "../../packages/server");

/** The path of the bundled command. */
export const bundledBin = (): string => inject("sluiceBin");

/** Called by vitest itself. */
export default async function setup(project: TestProject): Promise<() => void> {
  // Under node_modules, so that it finds lmdb. The command looks for its package.json two folders up.
  const folder = resolve(SERVER, "../../node_modules/.cache", `sluice-server-${process.pid}`);
  const outdir = join(folder, "dist/cli");
  mkdirSync(outdir, { recursive: true });
  copyFileSync(join(SERVER, "package.json"), join(folder, "package.json"));
  await build({
    entryPoints: {
      sluice: join(SERVER, "bin/sluice.js"),
      worker: join(SERVER, "dist/engine/disk/worker.js"),
      "check-worker": join(SERVER, "dist/engine/disk/check-worker.js"),
    },
    outdir,
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["lmdb", "protobufjs"],
    // Packages in CommonJS ask for the modules of Node with `require`.
    banner: {
      js: `import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);`,
    },
    logLevel: "error",
  });
  project.provide("sluiceBin", join(outdir, "sluice.js"));
  return () => rmSync(folder, { recursive: true, force: true });
}
