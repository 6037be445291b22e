// Starts and ends the processes that a benchmark measures. Peers and scenarios go through startServer.
//
// Invariants: every process is known by its own handle: its address comes from its own ready line, and it is ended by its own
// pid. The exit of the benchmark kills every process that is still alive.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fstatSync, mkdtempSync, openSync, readSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const READY_LINE = /ready (http:\/\/\S+)/;
const OUTPUT_KEPT_BYTES = 8192;

export interface RunningServer {
  readonly pid: number;
  readonly url: URL;
  /** From spawn to the ready line. */
  readonly readyMs: number;
  /** The last few kilobytes of stderr. */
  readonly stderr: () => string;
  /** SIGTERM, then waits for the end; resolves to the milliseconds it took. */
  stop(): Promise<number>;
  /** SIGKILL, then waits for the end. */
  kill(): Promise<void>;
}

const living = new Set<ChildProcess>();

process.on("exit", killLiving);

/** Ends the processes that a failed scenario has left running. */
export function killLiving(): void {
  for (const child of living) child.kill("SIGKILL");
}

/** Spawns a process that ends with the benchmark at the latest. */
export function spawnOwned(command: string, args: readonly string[], stderr: "pipe" | number = "pipe"): ChildProcess {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", stderr] });
  living.add(child);
  child.once("exit", () => living.delete(child));
  return child;
}

/** Runs a program to its end and returns its stdout; an error carries its stderr. */
export async function runToEnd(command: string, args: readonly string[], timeoutMs: number): Promise<string> {
  const child = spawnOwned(command, args);
  let stdout = "";
  child.stdout!.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  const stderr = keepTail(child);
  const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  try {
    const [code, signal] = await once(child, "close");
    if (code === 0) return stdout;
    throw new Error(`${command} ended with ${signal ?? code}: ${stderr()}${stdout.slice(-500)}`);
  } finally {
    clearTimeout(timer);
  }
}

/** Starts a server and waits until it prints `… ready http://HOST:PORT` on stdout. */
export async function startServer(
  command: string,
  args: readonly string[],
  timeoutMs = 120_000,
): Promise<RunningServer> {
  const startedAt = performance.now();
  const log = openLog();
  const child = spawnOwned(command, args, log);
  const stderr = () => tailOf(log);
  const url = await readyUrl(child, `${command} ${args.join(" ")}`, stderr, timeoutMs);
  return runningServer(child, url, performance.now() - startedAt, stderr);
}

export function runningServer(child: ChildProcess, url: URL, readyMs: number, stderr: () => string): RunningServer {
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(
        `the server (pid ${child.pid}) had ended by itself (${child.signalCode ?? child.exitCode}): ${stderr()}`,
      );
    }
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  };
  return {
    pid: child.pid!,
    url,
    readyMs,
    stderr,
    async stop() {
      const askedAt = performance.now();
      await end("SIGTERM");
      return performance.now() - askedAt;
    },
    kill: () => end("SIGKILL"),
  };
}

/** An unlinked file for a server's log. The harness does not read it, because a line per request would compete with the load. */
function openLog(): number {
  const directory = mkdtempSync(join(tmpdir(), "sluice-bench-log-"));
  const file = openSync(join(directory, "stderr"), "w+");
  rmSync(directory, { recursive: true });
  return file;
}

function tailOf(file: number): string {
  const { size } = fstatSync(file);
  const bytes = Buffer.alloc(Math.min(size, OUTPUT_KEPT_BYTES));
  readSync(file, bytes, 0, bytes.length, size - bytes.length);
  return bytes.toString();
}

/** Keeps the last of stderr, for error messages, within a bound on memory. */
export function keepTail(child: ChildProcess): () => string {
  let tail = "";
  child.stderr!.setEncoding("utf8").on("data", (text: string) => {
    tail = (tail + text).slice(-OUTPUT_KEPT_BYTES);
  });
  return () => tail;
}

async function readyUrl(child: ChildProcess, what: string, stderr: () => string, timeoutMs: number): Promise<URL> {
  const found = new Promise<URL>((resolve, reject) => {
    let text = "";
    child.stdout!.setEncoding("utf8").on("data", (more: string) => {
      text = (text + more).slice(-OUTPUT_KEPT_BYTES);
      const match = READY_LINE.exec(text);
      if (match) resolve(new URL(match[1]!));
    });
    child.once("error", reject);
    child.once("exit", (code, signal) => reject(new Error(`${what} ended with ${signal ?? code}: ${stderr()}`)));
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} was not ready after ${timeoutMs} ms: ${stderr()}`)), timeoutMs);
  });
  try {
    return await Promise.race([found, late]);
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
