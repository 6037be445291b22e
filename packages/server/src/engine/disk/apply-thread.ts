/**
 * The apply worker seen from the engine's thread: starts it when there is something to apply, hands extents over, passes its
 * reports on. A worker that dies is a storage failure; it is not started again, because what killed it is not known.
 */
import type { Worker } from "node:worker_threads";
import { EngineError } from "../contract.ts";
import type { Applied, ApplyRunner } from "./apply-runner.ts";
import type { Extent } from "./journal.ts";
import type { ApplyLimits } from "./limits.ts";
import { startThread } from "./start-thread.ts";
import type { Proven } from "./verify/path-guard.ts";

/** What the engine's thread sends: extents, that all of the store was checked, or `close`. */
export type ToWorker = { readonly extents: readonly Extent[] } | "passed" | "close";

/** What the worker answers. */
export type FromWorker =
  | { readonly kind: "applied"; readonly applied: Applied }
  | { readonly kind: "done"; readonly hasGarbage: boolean }
  | { readonly kind: "failed"; readonly code: EngineError["code"]; readonly message: string };

export interface WorkerPlace {
  readonly journalDir: string;
  readonly storePath: string;
  readonly limits: ApplyLimits;
  /** What was proven of a store that is still being checked; undefined when nothing is left to check. */
  readonly proven?: Proven | undefined;
}

interface Call {
  report(applied: Applied): void;
  resolve(hasGarbage: boolean): void;
  reject(error: EngineError): void;
}

export class ApplyThread implements ApplyRunner {
  private worker: Worker | undefined;
  private call: Call | undefined;
  private dead: EngineError | undefined;
  private exited: Promise<void> = Promise.resolve();
  private isPassed = false;

  constructor(private readonly place: WorkerPlace) {}

  get worthDraining(): boolean {
    return this.worker !== undefined;
  }

  apply(extents: readonly Extent[], report: (applied: Applied) => void): Promise<boolean> {
    if (this.dead !== undefined) return Promise.reject(this.dead);
    return new Promise((resolve, reject) => {
      this.call = { report, resolve, reject };
      this.worker ??= this.start();
      // Only while it works does the thread keep the process alive.
      this.worker.ref();
      this.worker.postMessage({ extents } satisfies ToWorker);
    });
  }

  passed(): void {
    this.isPassed = true;
    if (this.dead === undefined) this.worker?.postMessage("passed" satisfies ToWorker);
  }

  private start(): Worker {
    const { place, isPassed } = this;
    const worker = startThread("worker", isPassed ? { ...place, proven: undefined } : place);
    worker.on("message", (message: FromWorker) => this.hear(message));
    worker.on("error", (fault) => this.die(`The apply worker failed: ${fault.message}`));
    this.exited = new Promise((resolve) => {
      worker.on("exit", () => {
        this.die("The apply worker ended.");
        resolve();
      });
    });
    return worker;
  }

  private hear(message: FromWorker): void {
    const { call } = this;
    if (message.kind === "applied") {
      call?.report(message.applied);
      return;
    }
    this.call = undefined;
    this.worker?.unref();
    if (message.kind === "done") call?.resolve(message.hasGarbage);
    else call?.reject(new EngineError(message.code, message.message));
  }

  private die(message: string): void {
    this.dead ??= new EngineError("storage-failed", message);
    this.call?.reject(this.dead);
    this.call = undefined;
  }

  async close(): Promise<void> {
    if (this.dead === undefined) {
      this.worker?.ref();
      this.worker?.postMessage("close" satisfies ToWorker);
    }
    await this.exited;
  }
}
