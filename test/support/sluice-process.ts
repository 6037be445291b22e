/**
 * The real `sluice` command: run to its end in a thread or in a process of its own, or kept running as a server. The command,
 * crash and failover suites use it.
 *
 * Invariants: the environment has only the SLUICE_ variables that the test gives, and none of the developer's own contexts.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { onTestFinished } from "vitest";
import { temporaryDir } from "./disk.ts";
import { bundledBin } from "./server-bundle.ts";

export type Env = Readonly<Record<string, string>>;

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

const PATIENCE_MS = 25_000;

export function cleanEnv(more: Env = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(SLUICE_|XDG_CONFIG_HOME|NO_COLOR|FORCE_COLOR)/.test(name),
  );
  return {
    ...Object.fromEntries(kept),
    XDG_CONFIG_HOME: "/nonexistent/sluice-tests",
    SLUICE_GRPC_PORT: "off",
    ...more,
  };
}

export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** The output so far. */
  readonly said: { stdout: string; stderr: string };
}

interface Surroundings {
  readonly env?: Env | undefined;
  readonly cwd?: string | undefined;
  /** The limit of open files; the test's own if undefined. */
  readonly openFiles?: number | undefined;
  /** Registers the end of the process; by default the end of the test, or that of a suite. */
  readonly atEnd?: ((clean: () => void) => void) | undefined;
}

/** The process ends with the test, also when the test fails. */
export function start(
  args: readonly string[],
  { env, cwd, openFiles, atEnd = onTestFinished }: Surroundings = {},
): Running {
  const limit = openFiles === undefined ? [] : ["-c", `ulimit -n ${openFiles}; exec "$0" "$@"`, process.execPath];
  const command = openFiles === undefined ? process.execPath : "sh";
  const child = spawn(command, [...limit, bundledBin(), ...args], { env: cleanEnv(env), cwd, stdio: "pipe" });
  const said = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk) => {
    said.stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    said.stderr += chunk;
  });
  // A command that does not read its input may exit before it was given all of it.
  child.stdin.on("error", () => {});
  const ended = new Promise<Ended>((resolve) => {
    child.on("close", (code, signal) => resolve({ code, signal, ...said }));
  });
  atEnd(() => void child.kill("SIGKILL"));
  return { child, ended, said };
}

interface Given {
  readonly stdin?: string | Uint8Array;
  readonly env?: Env;
}

/** Runs a command to its end, in a process of its own. */
export async function sluiceProcess(
  args: readonly string[],
  { stdin = "", env, cwd }: Given & { cwd?: string } = {},
): Promise<Ended> {
  const { child, ended } = start(args, { env, cwd });
  child.stdin!.end(stdin);
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  const result = await ended;
  clearTimeout(timer);
  if (result.signal === "SIGKILL")
    throw new Error(`sluice ${args.join(" ")} did not end: ${result.stdout}${result.stderr}`);
  return result;
}

let thread: Worker | undefined;
let last: Promise<unknown> = Promise.resolve();

/** Runs a command to its end in the thread that all test files of a worker share, because loading it takes longest. */
export function sluice(args: readonly string[], given: Given = {}): Promise<Ended> {
  const result = last.then(() => inThread(args, given));
  last = result.catch(() => {});
  return result;
}

async function inThread(args: readonly string[], { stdin = "", env }: Given): Promise<Ended> {
  if (thread === undefined) {
    thread = new Worker(new URL("./sluice-thread.mjs", import.meta.url));
    thread.unref();
  }
  const worker = thread;
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(new Error("no end")), PATIENCE_MS);
  try {
    const answer = once(worker, "message", { signal: stop.signal });
    const death = once(worker, "exit", { signal: stop.signal }).then(() =>
      Promise.reject(new Error("the thread ended")),
    );
    worker.postMessage({ args, stdin, env: cleanEnv(env) });
    const [ended] = await Promise.race([answer, death]);
    return ended as Ended;
  } catch (cause) {
    thread = undefined;
    await worker.terminate();
    throw new Error(`sluice ${args.join(" ")} did not end`, { cause });
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}

export interface ServingProcess extends Running {
  readonly url: string;
}

/** Starts a server on a free loopback port. */
export async function serveInProcess(
  args: readonly string[] = ["--memory"],
  env: Env = {},
  atEnd?: Surroundings["atEnd"],
  openFiles?: number,
): Promise<ServingProcess> {
  const running = start(["serve", "--port", "0", ...args], { env, atEnd, openFiles });
  const url = await new Promise<string>((resolve, reject) => {
    running.child.stdout!.on("data", () => {
      const ready = /^sluice ready (\S+)$/m.exec(running.said.stdout);
      if (ready) resolve(ready[1]!);
    });
    running.ended.then(({ code, stderr }) => reject(new Error(`the server ended with ${code}: ${stderr}`)));
  });
  return { ...running, url };
}

/** A directory that is removed after the test. */
export function dirForTest(): string {
  const { dir, remove } = temporaryDir();
  onTestFinished(remove);
  return dir;
}
