/**
 * The thread of the background check: runs one step per message, without LMDB. `check-thread.ts` starts it.
 *
 * Invariants: it reads synchronously, because asynchronous reads would use the threads that write the journal.
 */
import { fstatSync, openSync, readSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import type { CheckPlace, FromChecker, ToChecker } from "./check-thread.ts";
import { toSend } from "./sent-error.ts";
import { engineErrorOf } from "./system-fault.ts";
import { giveWay } from "./thread-priority.ts";
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
    answer = { kind: "failed", error: toSend(engineErrorOf(fault, "Reading the store", path)) };
  }
  parentPort!.postMessage(answer);
});
