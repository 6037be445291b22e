// Preloaded into our server by the idle scenario (`node --expose-gc --import`): on SIGUSR2 it collects garbage and
// prints the heap in use, of the main thread and of every worker, as one line on stderr. The server knows nothing of it.

import { BroadcastChannel, isMainThread } from "node:worker_threads";

const WORKERS_ANSWER_WITHIN_MS = 500;
const channel = new BroadcastChannel("heap-probe");
let workersHeapBytes = 0;

function heapBytes() {
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
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
      const { rss } = process.memoryUsage();
      process.stderr.write(`heap-probe ${JSON.stringify({ heapBytes: heapBytes() + workersHeapBytes, rss })}\n`);
    }, WORKERS_ANSWER_WITHIN_MS);
  });
}
