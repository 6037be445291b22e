/**
 * The engine's side of the background check's thread, which starts with the first step and ends with the last. `open.ts` makes
 * it; `background-check.ts` uses it.
 *
 * Invariants: a thread that fails is dropped, so that a later step can start another. It writes nothing, so that loses nothing.
 */
import type { Worker } from "node:worker_threads";
import type { CheckRunner } from "./check-runner.ts";
import { type SentError, toEngineError } from "./sent-error.ts";
import { startThread } from "./start-thread.ts";
import { engineErrorOf } from "./system-fault.ts";
import type { Checked, FoundDamage } from "./verify/store-check.ts";

export interface CheckPlace {
  readonly path: string;
  /** The thread's niceness, relative to the process. */
  readonly nice: number;
}

export interface ToChecker {
  readonly from: Uint8Array;
  readonly maxBytes: number;
}

export type FromChecker = Checked | FoundDamage | { readonly kind: "failed"; readonly error: SentError };

export class CheckThread implements CheckRunner {
  readonly startAfterMs = 1_000;
  private worker: Worker | undefined;

  constructor(private readonly place: CheckPlace) {}

  step(from: Uint8Array, maxBytes: number): Promise<Checked | FoundDamage> {
    const worker = this.worker ?? this.start();
    return new Promise((resolve, reject) => {
      const fail = (fault: unknown) => {
        this.worker = undefined;
        reject(engineErrorOf(fault, "The check of the store", this.place.path));
      };
      worker.removeAllListeners();
      // Only a working thread keeps the process alive.
      worker.ref();
      worker.once("error", fail);
      worker.once("exit", () => fail(new Error("the thread ended")));
      worker.once("message", (answer: FromChecker) => {
        worker.unref();
        if (answer.kind === "failed") reject(toEngineError(answer.error));
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
