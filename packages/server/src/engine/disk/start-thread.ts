/** Starts a thread of the disk engine: `apply-thread.ts` the applier's, `check-thread.ts` that of the check in the background. */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";

/** `name` is that of the script beside this file, without its ending. */
export function startThread(name: string, workerData: unknown): Worker {
  if (!import.meta.url.endsWith(".ts")) return new Worker(new URL(`./${name}.js`, import.meta.url), { workerData });
  // Run from source, the thread has to load TypeScript by itself.
  const loader = createRequire(import.meta.url)
    .resolve("tsx/esm/api")
    .replace(/\.cjs$/, ".mjs");
  const entry = new URL(`./${name}.ts`, import.meta.url).href;
  const script = `import(${JSON.stringify(loader)}).then(({ register }) => (register(), import(${JSON.stringify(entry)})))`;
  return new Worker(script, { eval: true, workerData, execArgv: [] });
}
