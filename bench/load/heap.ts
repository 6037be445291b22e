// Asks a running server for its heap use, through the preloaded probe. The idle scenario calls it; the server must have been
// started with HEAP_PROBE_ARGS.

import { setTimeout as sleep } from "node:timers/promises";
import type { RunningServer } from "../child.ts";

export const HEAP_PROBE_ARGS = ["--expose-gc", "--import", new URL("heap-probe.mjs", import.meta.url).href];

const ANSWER_LIMIT_MS = 30_000;

export interface Memory {
  /** In use after a collection, over all threads. */
  readonly heapBytes: number;
  /** Held by objects outside the heap, mostly buffers. */
  readonly externalBytes: number;
  readonly rssBytes: number;
}

export async function measureMemory(server: RunningServer): Promise<Memory> {
  const seen = answers(server).length;
  process.kill(server.pid, "SIGUSR2");
  const deadline = performance.now() + ANSWER_LIMIT_MS;
  while (performance.now() < deadline) {
    await sleep(100);
    const latest = answers(server);
    if (latest.length > seen) return JSON.parse(latest.at(-1)![1]!) as Memory;
  }
  throw new Error(`the heap probe did not answer: ${server.stderr()}`);
}

function answers(server: RunningServer): RegExpExecArray[] {
  return [...server.stderr().matchAll(/^heap-probe (\{.*\})$/gm)];
}
