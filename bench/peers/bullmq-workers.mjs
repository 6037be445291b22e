// Adds jobs to a queue of BullMQ and lets workers process them, each a function that returns at once. Prints the seconds from the start of
// the workers to the completion of the last job. Arguments: port of Redis, jobs, workers, jobs that a worker has at a time.

import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const [port, jobs, workers, concurrency] = process.argv.slice(2).map(Number);
const open = () => new Redis(port, "127.0.0.1", { maxRetriesPerRequest: null });
const BATCH = 1_000;

const queue = new Queue("bench", { connection: open() });
const payload = { m: "x".repeat(246) };
for (let i = 0; i < jobs; i += BATCH) {
  const count = Math.min(BATCH, jobs - i);
  await queue.addBulk(
    Array.from({ length: count }, () => ({ name: "job", data: payload, opts: { removeOnComplete: true } })),
  );
}

let completed = 0;
const startedAt = performance.now();
await new Promise((resolve, reject) => {
  for (let i = 0; i < workers; i++) {
    const worker = new Worker("bench", async () => {}, { connection: open(), concurrency });
    worker.on("completed", () => {
      if (++completed === jobs) resolve();
    });
    worker.on("error", reject);
  }
});
console.log(`seconds ${(performance.now() - startedAt) / 1_000}`);
process.exit(0);
