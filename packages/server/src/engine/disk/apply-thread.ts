/**
 * The engine's side of the apply worker: starts it at the first extent, passes extents to it and its reports back. `open.ts`
 * makes it.
 *
 * Invariants: a worker that dies is a storage failure. It is not started again, because the cause of its death is unknown.
 */
import type { Worker } from "node:worker_threads";
import { EngineError } from "../contract.ts";
import type { Applied, ApplyRunner } from "./apply-runner.ts";
import type { Extent } from "./journal.ts";
import type { ApplyLimits } from "./limits.ts";
import { startThread } from "./start-thread.ts";
import type { Proven } from "./verify/path-guard.ts";

/** Messages from the engine's thread: extents, the end of the background check, or `close`. */
export type ToWorker = { readonly extents: readonly Extent[] } | "passed" | "close";

/** Messages from the worker. */
export type FromWorker =
  | { readonly kind: "applied"; readonly applied: Applied }
  | { readonly kind: "done"; readonly hasGarbage: boolean }
  | { readonly kind: "failed"; readonly code: EngineError["code"]; readonly message: string };

export interface WorkerPlace {
  readonly journalDir: string;
  readonly storePath: string;
  readonly limits: ApplyLimits;
  /** What the start has proven of a store whose check is not complete; undefined if nothing is left to check. */
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

  get isWorthDraining(): boolean {
    return this.worker !== undefined;
  }

  apply(extents: readonly Extent[], report: (applied: Applied) => void): Promise<boolean> {
    if (this.dead !== undefined) return Promise.reject(this.dead);
    return new Promise((resolve, reject) => {
      this.call = { report, resolve, reject };
      this.worker ??= this.start();
      // Only a working thread keeps the process alive.
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
