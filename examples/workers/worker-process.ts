/**
 * A worker as a process that the page starts, stops and kills. `server.ts` has one per name.
 *
 * Invariants: no process is left after `close`, nor after the end of this one.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { WorkerState } from "./shop.ts";

const PROGRAM = fileURLToPath(new URL("worker.ts", import.meta.url));
const END_WITH_PARENT = new URL("../web/end-with-parent.mjs", import.meta.url).href;

export class WorkerProcess {
  private child: ChildProcess | undefined;
  private isLeaving = false;

  constructor(
    readonly id: string,
    private readonly url: string,
    private readonly packMs: number,
  ) {}

  get state(): WorkerState {
    const { id, child } = this;
    if (child === undefined) return { id, state: "gone" };
    return { id, state: this.isLeaving ? "leaving" : "working", pid: child.pid };
  }

  start(): void {
    if (this.child !== undefined) return;
    const args = ["--import", "tsx", "--import", END_WITH_PARENT, PROGRAM, this.url, this.id, String(this.packMs)];
    // In a process group of its own: Ctrl-C reaches the example alone, which lets its workers finish.
    const child = spawn(process.execPath, args, { stdio: ["pipe", "ignore", "inherit"], detached: true });
    this.child = child;
    this.isLeaving = false;
    child.on("exit", () => {
      if (this.child === child) this.child = undefined;
    });
  }

  /** Ends the process as a power cut does. */
  kill(): void {
    this.child?.kill("SIGKILL");
  }

  /** Lets the worker finish what it has in hand. */
  stop(): void {
    this.isLeaving = true;
    this.child?.kill("SIGTERM");
  }

  async close(): Promise<void> {
    const { child } = this;
    if (child === undefined) return;
    const ended = once(child, "exit");
    this.stop();
    await ended;
  }
}
