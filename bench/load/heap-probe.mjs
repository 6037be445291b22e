// The idle scenario preloads this into the Sluice server (`node --expose-gc --import`). On SIGUSR2 it collects garbage and prints
// one line on stderr: the heap in use, summed over the main thread and every worker, and the memory that belongs to no thread.
// Only the heap is summed, because several threads may see the same buffer. The server does not know the probe.

import { BroadcastChannel, isMainThread } from "node:worker_threads";

const WORKERS_ANSWER_WITHIN_MS = 500;
const channel = new BroadcastChannel("heap-probe");
let workersHeapBytes = 0;

function heapBytes() {
  globalThis.gc();
  return process.memoryUsage().heapUsed;
}

channel.onmessage = ({ data }) => {
  if (isMainThread) workersHeapBytes += data.heapBytes ?? 0;
  else if (data.ask) channel.postMessage({ heapBytes: heapBytes() });
};
channel.unref();

if (isMainThread) {
  process.on("SIGUSR2", () => {
    workersHeapBytes = 0;
    channel.postMessage({ ask: true });
    setTimeout(() => {
      const total = heapBytes() + workersHeapBytes;
      const { rss, external } = process.memoryUsage();
      process.stderr.write(
        `heap-probe ${JSON.stringify({ heapBytes: total, externalBytes: external, rssBytes: rss })}\n`,
      );
    }, WORKERS_ANSWER_WITHIN_MS);
  });
}
