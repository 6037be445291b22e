/** Starts a thread of the disk engine: the applier's for `apply-thread.ts`, the background check's for `check-thread.ts`. */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";

/** `name` is the script beside this file, without its extension. */
export function startThread(name: string, workerData: unknown): Worker {
  if (!import.meta.url.endsWith(".ts")) return new Worker(new URL(`./${name}.js`, import.meta.url), { workerData });
  // A thread that runs from source must load TypeScript by itself.
  const loader = createRequire(import.meta.url)
    .resolve("tsx/esm/api")
    .replace(/\.cjs$/, ".mjs");
  const entry = new URL(`./${name}.ts`, import.meta.url).href;
  const script = `import(${JSON.stringify(loader)}).then(({ register }) => (register(), import(${JSON.stringify(entry)})))`;
  return new Worker(script, { eval: true, workerData, execArgv: [] });
}
