/**
 * The engine's side of the apply worker: starts it with the engine, passes extents to it and its reports back. `open.ts` makes
 * it.
 *
 * Invariants: the thread starts before the first connection, because later the process may lack the descriptors for it. A worker
 * that dies is a storage failure. It is not started again, because the cause of its death is unknown.
 */
import type { Worker } from "node:worker_threads";
import type { EngineError } from "../contract.ts";
import type { Applied, ApplyRunner } from "./apply-runner.ts";
import type { ApplyLimits } from "./defaults.ts";
import type { Extent } from "./journal.ts";
import { type SentError, toEngineError } from "./sent-error.ts";
import { startThread } from "./start-thread.ts";
import { failureOf } from "./system-fault.ts";
import type { Proven } from "./verify/path-guard.ts";

/** Messages from the engine's thread: extents, the end of the background check, or `close`. */
export type ToWorker = { readonly extents: readonly Extent[] } | "passed" | "close";

/** Messages from the worker. */
export type FromWorker =
  | { readonly kind: "ready" }
  | { readonly kind: "applied"; readonly applied: Applied }
  | { readonly kind: "done"; readonly hasGarbage: boolean }
  | { readonly kind: "failed"; readonly error: SentError };

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
  readonly started: Promise<void>;
  private readonly worker: Worker;
  private readonly exited: Promise<void>;
  private call: Call | undefined;
  private dead: EngineError | undefined;
  private ready: () => void = () => undefined;
  private refuse: (error: EngineError) => void = () => undefined;

  constructor(private readonly place: WorkerPlace) {
    this.started = new Promise((resolve, reject) => {
      this.ready = resolve;
      this.refuse = reject;
    });
    this.worker = startThread("worker", place);
    this.worker.on("message", (message: FromWorker) => this.hear(message));
    this.worker.on("error", (fault) => this.die(fault));
    this.exited = new Promise((resolve) => {
      this.worker.on("exit", () => {
        this.die(new Error("the thread ended"));
        resolve();
      });
    });
  }

  apply(extents: readonly Extent[], report: (applied: Applied) => void): Promise<boolean> {
    if (this.dead !== undefined) return Promise.reject(this.dead);
    return new Promise((resolve, reject) => {
      this.call = { report, resolve, reject };
      // Only a working thread keeps the process alive.
      this.worker.ref();
      this.worker.postMessage({ extents } satisfies ToWorker);
    });
  }

  passed(): void {
    if (this.dead === undefined) this.worker.postMessage("passed" satisfies ToWorker);
  }

  private hear(message: FromWorker): void {
    const { call } = this;
    if (message.kind === "applied") {
      call?.report(message.applied);
      return;
    }
    this.worker.unref();
    if (message.kind === "ready") {
      this.ready();
      return;
    }
    this.call = undefined;
    if (message.kind === "done") call?.resolve(message.hasGarbage);
    else call?.reject(toEngineError(message.error));
  }

  /** Whatever ended the thread, the engine cannot go on without it. */
  private die(fault: unknown): void {
    this.dead ??= failureOf(fault, "The apply thread", this.place.storePath);
    this.refuse(this.dead);
    this.call?.reject(this.dead);
    this.call = undefined;
  }

  async close(): Promise<void> {
    if (this.dead === undefined) {
      this.worker.ref();
      this.worker.postMessage("close" satisfies ToWorker);
    }
    await this.exited;
  }
}
