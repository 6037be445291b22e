/**
 * The `sluice` command in one file with V8's code cache, built before the first test file runs. Suites that start many processes
 * use it, because loading and compiling some hundred modules takes a process longer than most tests. vitest calls `setup`.
 *
 * Invariants: the bundle holds the code that `npm run build` has made. `npm start`, the packed image and one of the signal tests
 * start the command as it ships.
 */
import { spawn } from "node:child_process";
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
const COMMON = { bundle: true, platform: "node", target: "node20", logLevel: "error" } as const;

/** The path of the bundled command. */
export const bundledBin = (): string => inject("sluiceBin");

/** Called by vitest itself. */
export default async function setup(project: TestProject): Promise<() => void> {
  // Under node_modules, so that it finds lmdb. The command looks for its package.json two folders up.
  const folder = resolve(SERVER, "../../node_modules/.cache", `sluice-server-${process.pid}`);
  const outdir = join(folder, "dist/cli");
  mkdirSync(outdir, { recursive: true });
  copyFileSync(join(SERVER, "package.json"), join(folder, "package.json"));
  const bin = join(outdir, "sluice.cjs");
  copyFileSync(join(import.meta.dirname, "sluice-from-cache.cjs"), bin);
  await Promise.all([bundleCommand(outdir), bundleThreads(outdir)]);
  await writeCodeCache(bin, join(folder, "data"));
  project.provide("sluiceBin", bin);
  return () => rmSync(folder, { recursive: true, force: true });
}

/** As CommonJS, because V8's code cache is for scripts. */
async function bundleCommand(outdir: string): Promise<void> {
  await build({
    ...COMMON,
    stdin: {
      contents: `import { main } from "./dist/cli/main.js"; void main(process.argv.slice(2));`,
      resolveDir: SERVER,
    },
    outfile: join(outdir, "bundle.cjs"),
    format: "cjs",
    external: ["lmdb", "protobufjs"],
    define: { "import.meta.url": "moduleUrl" },
    banner: { js: `const moduleUrl = require("node:url").pathToFileURL(__filename).href;` },
  });
}

async function bundleThreads(outdir: string): Promise<void> {
  const disk = join(SERVER, "dist/engine/disk");
  const entryPoints = [join(disk, "worker.js"), join(disk, "check-worker.js")];
  await build({ ...COMMON, entryPoints, outdir, format: "esm", external: ["lmdb"] });
}

/** Starts a server on disk and ends it, so that the cache has what every start and end needs. */
async function writeCodeCache(bin: string, data: string): Promise<void> {
  const args = [bin, "serve", "--port", "0", "--data", data, "--log-level", "error"];
  const env = { PATH: process.env.PATH, SLUICE_GRPC_PORT: "off", WRITE_CODE_CACHE: "1" };
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "ignore"] });
  child.stdout.once("data", () => child.kill("SIGTERM"));
  const code = await new Promise((done) => child.once("exit", done));
  if (code !== 0) throw new Error(`the bundled server ended with ${code}`);
}
