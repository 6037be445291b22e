/**
 * The background check's thread seen from the engine's: started with the first step, ended with the last. `open.ts` makes it,
 * `background-check.ts` uses it.
 */
import type { Worker } from "node:worker_threads";
import { EngineError } from "../contract.ts";
import type { CheckRunner } from "./check-runner.ts";
import { startThread } from "./start-thread.ts";
import type { Checked, FoundDamage } from "./verify/store-check.ts";

export interface CheckPlace {
  readonly path: string;
  /** By how much the thread is nicer than the others. */
  readonly nice: number;
}

export interface ToChecker {
  readonly from: Uint8Array;
  readonly maxBytes: number;
}

export type FromChecker = Checked | FoundDamage | { readonly kind: "failed"; readonly message: string };

export class CheckThread implements CheckRunner {
  readonly startAfterMs = 1_000;
  private worker: Worker | undefined;

  constructor(private readonly place: CheckPlace) {}

  step(from: Uint8Array, maxBytes: number): Promise<Checked | FoundDamage> {
    const worker = this.worker ?? this.start();
    return new Promise((resolve, reject) => {
      const fail = (what: string) => reject(new EngineError("storage-failed", what));
      worker.removeAllListeners();
      // Only while it works does the thread keep the process alive.
      worker.ref();
      worker.once("error", (fault) => fail(`The thread that checks the store failed: ${fault.message}`));
      worker.once("exit", () => fail("The thread that checks the store ended."));
      worker.once("message", (answer: FromChecker) => {
        worker.unref();
        if (answer.kind === "failed") fail(`The store ${this.place.path} cannot be read: ${answer.message}.`);
        else resolve(answer);
      });
      worker.postMessage({ from, maxBytes } satisfies ToChecker);
    });
  }

  private start(): Worker {
    this.worker = startThread("check-worker", this.place);
    return this.worker;
  }

  async close(): Promise<void> {
    this.worker?.removeAllListeners();
    await this.worker?.terminate();
  }
}
