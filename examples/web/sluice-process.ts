/**
 * The Sluice server of an example, as a process of its own that a visitor may kill. The server of each example starts one.
 *
 * Invariants: a server that ends without being asked to is started again, on the same port and the same data directory. No
 * process is left after `close`, nor after the end of this one.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { type Answer, HOST } from "./page-server.ts";

const COMMAND = fileURLToPath(new URL("../../packages/server/bin/sluice.js", import.meta.url));
const END_WITH_PARENT = new URL("end-with-parent.mjs", import.meta.url).href;

export interface SluiceOptions {
  /** 0 takes a free port, and keeps it. */
  readonly port: number;
  /** The directory of the server's data. */
  readonly data: string;
  /** Further arguments of `sluice serve`. */
  readonly args?: readonly string[] | undefined;
}

export class SluiceProcess {
  private child: ChildProcess | undefined;
  private port: number;
  private isClosing = false;
  private ready: Promise<void>;

  private constructor(private readonly options: SluiceOptions) {
    this.port = options.port;
    this.ready = this.serve();
  }

  static async start(options: SluiceOptions): Promise<SluiceProcess> {
    await mkdir(options.data, { recursive: true });
    const server = new SluiceProcess(options);
    await server.ready;
    return server;
  }

  get url(): string {
    return `http://${HOST}:${this.port}`;
  }

  get pid(): number | undefined {
    return this.child?.pid;
  }

  /** Ends the process as a power cut does, without a chance to save anything; resolves when the next one is ready. */
  async kill(): Promise<void> {
    const { child } = this;
    await this.ready;
    if (child === undefined || child !== this.child) return this.ready;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    await this.ready;
  }

  /** The action behind the button "Kill the server". */
  readonly onKill = async (): Promise<Answer> => {
    const { pid: killed } = this;
    const startedAt = performance.now();
    await this.kill();
    return { status: 200, body: { killed, pid: this.pid, downMs: Math.round(performance.now() - startedAt) } };
  };

  async close(): Promise<void> {
    this.isClosing = true;
    const { child } = this;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  }

  /** Resolves when the server is ready; rejects when it ends before that. */
  private serve(): Promise<void> {
    const { data, args = [] } = this.options;
    const place = ["--port", String(this.port), "--grpc-port", "off", "--data", data];
    const serve = ["serve", ...place, "--log-level", "warn", ...args];
    const child = spawn(process.execPath, ["--import", END_WITH_PARENT, COMMAND, ...serve], {
      env: ownEnvironment(),
      stdio: ["pipe", "pipe", "inherit"],
      // In a process group of its own: Ctrl-C reaches the example alone, which needs the server until it has ended.
      detached: true,
    });
    this.child = child;
    return new Promise((resolve, reject) => {
      let said = "";
      let isReady = false;
      child.stdout.on("data", (chunk) => {
        if (isReady) return;
        said += chunk;
        const [, port] = /^sluice ready \S+:(\d+)$/m.exec(said) ?? [];
        if (port === undefined) return;
        this.port = Number(port);
        isReady = true;
        resolve();
      });
      child.on("exit", (code, signal) => {
        if (!isReady) return reject(new Error(`Sluice did not start (${code ?? signal})`));
        if (this.isClosing) return;
        this.ready = this.serve();
        this.ready.catch((error: Error) => console.error(error.message));
      });
    });
  }
}

/** Settings of the developer's own server must not reach this one. */
function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SLUICE_")));
}
