/**
 * The thread of the background check: takes steps as it is told, and knows nothing of LMDB. Started by `check-thread.ts`.
 *
 * Invariants: it reads synchronously, because the threads behind asynchronous reads are those that the journal writes with.
 */
import { fstatSync, openSync, readSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import type { CheckPlace, FromChecker, ToChecker } from "./check-thread.ts";
import { giveWay } from "./give-way.ts";
import type { ReadableFile } from "./verify/page-file.ts";
import { StoreCheck } from "./verify/store-check.ts";

const { path, nice } = workerData as CheckPlace;
giveWay(nice);
const fd = openSync(path, "r");

const file: ReadableFile = {
  size: async () => fstatSync(fd).size,
  async read(into, at) {
    let count = 0;
    while (count < into.length) {
      const got = readSync(fd, into, count, into.length - count, at + count);
      if (got === 0) break;
      count += got;
    }
    return count;
  },
};

const check = new StoreCheck(path, file);
parentPort!.on("message", async ({ from, maxBytes }: ToChecker) => {
  let answer: FromChecker;
  try {
    answer = await check.step(from, maxBytes);
  } catch (fault) {
    answer = { kind: "failed", message: fault instanceof Error ? fault.message : String(fault) };
  }
  parentPort!.postMessage(answer);
});
