/**
 * Builds a child script and the engine's threads into plain JavaScript, so that a child starts in a moment instead of loading
 * TypeScript first. The files lie under node_modules, where the child finds lmdb.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { build } from "esbuild";

const ROOT = resolve(import.meta.dirname, "../..");

/** Removes what `bundle` built. */
export const removeBundle = (script: string): void => rmSync(dirname(script), { recursive: true, force: true });

/** The path of the built script. */
export async function bundle(script: string): Promise<string> {
  const outdir = join(ROOT, "node_modules/.cache/sluice-crash", `${script}-${process.pid}`);
  mkdirSync(outdir, { recursive: true });
  writeFileSync(join(outdir, "package.json"), `{"type":"module"}`);
  await build({
    entryPoints: {
      child: join(ROOT, "test/crash", `${script}.ts`),
      worker: join(ROOT, "packages/server/src/engine/disk/worker.ts"),
      "check-worker": join(ROOT, "packages/server/src/engine/disk/check-worker.ts"),
    },
    outdir,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["lmdb"],
    alias: { "@sluice/protocol": join(ROOT, "packages/protocol/src/index.ts") },
    logLevel: "error",
  });
  return join(outdir, "child.js");
}
