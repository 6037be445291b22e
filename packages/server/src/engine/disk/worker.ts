/** The apply worker: opens the store and the journal, and applies the extents that it receives. `apply-thread.ts` starts it. */
import { parentPort, workerData } from "node:worker_threads";
import { Applier } from "./applier.ts";
import { InlineRunner } from "./apply-runner.ts";
import type { FromWorker, ToWorker, WorkerPlace } from "./apply-thread.ts";
import { DescriptorReserve } from "./descriptor-reserve.ts";
import { ExtentReader } from "./extent-reader.ts";
import { openLmdb } from "./lmdb-store.ts";
import { filesWith } from "./node-files.ts";
import { openGuarded } from "./open-store.ts";
import { toSend } from "./sent-error.ts";
import { engineErrorOf } from "./system-fault.ts";
import { giveWay, takingBreaks } from "./thread-priority.ts";

const port = parentPort!;
const place = workerData as WorkerPlace;
giveWay(place.limits.applyNice);
/** It reads one segment at a time. */
const reserve = new DescriptorReserve(1);
reserve.fill();
const store = place.proven === undefined ? openLmdb(place.storePath) : openGuarded(place.storePath, place.proven);
const runner = new InlineRunner(
  new Applier(store, place.limits, takingBreaks()),
  new ExtentReader(filesWith(reserve), place.journalDir, place.limits),
);
const tell = (message: FromWorker): void => port.postMessage(message);

port.on("message", async (message: ToWorker) => {
  if (message === "passed") {
    store.unchecked?.passed();
    return;
  }
  if (message === "close") {
    await runner.close();
    await store.close();
    reserve.release();
    port.close();
    return;
  }
  try {
    const hasGarbage = await runner.apply(message.extents, (applied) => tell({ kind: "applied", applied }));
    tell({ kind: "done", hasGarbage });
  } catch (fault) {
    tell({ kind: "failed", error: toSend(engineErrorOf(fault, "Applying the journal", place.journalDir)) });
  }
});

tell({ kind: "ready" });
