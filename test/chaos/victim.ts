/**
 * A real server on disk that the run kills. It comes back on the same port and directory. Some kills hit it while it starts.
 *
 * Invariants: it dies by SIGKILL alone, so it never has time to prepare. A start that is refused or does not end is a finding.
 */
import { createServer as createListener } from "node:net";
import type { Random } from "../sim/random.ts";
import { sleep } from "../support/eventually.ts";
import { type Running, serveInProcess, start } from "../support/sluice-process.ts";

/** Limits so small that segments, trims, sweeps and repetitions happen within seconds. */
const SETTINGS = ["internal.disk.segmentBytes=262144", "channel.rate=1000000", "channel.messages=1000000"];

export class Victim {
  kills = 0;
  killsDuringStart = 0;
  private running: Running | undefined;

  private constructor(
    readonly url: string,
    private readonly args: readonly string[],
    private readonly atEnd: (clean: () => void) => void,
  ) {}

  static async open(dir: string, atEnd: (clean: () => void) => void): Promise<Victim> {
    const port = await freePort();
    const args = ["--data", dir, "--port", String(port), "--log-level", "error"];
    for (const setting of SETTINGS) args.push("--set", setting);
    const victim = new Victim(`http://127.0.0.1:${port}`, args, atEnd);
    await victim.start();
    return victim;
  }

  /** Kills the server, at times its successors too while they start, and waits until one is ready. */
  async kill(random: Random): Promise<void> {
    await this.end();
    this.kills++;
    while (random.chance(0.4)) {
      this.running = start(["serve", ...this.args], { atEnd: this.atEnd });
      // Loading the program takes most of the start; recovery comes after it.
      await sleep(random.between(200, 1_500));
      await this.end();
      this.killsDuringStart++;
    }
    await this.start();
  }

  private async start(): Promise<void> {
    this.running = await serveInProcess(this.args, {}, this.atEnd);
  }

  private async end(): Promise<void> {
    const { child, ended } = this.running!;
    child.kill("SIGKILL");
    const { signal, code, stderr } = await ended;
    if (signal !== "SIGKILL") throw new Error(`the server ended by itself with ${code}: ${stderr}`);
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const listener = createListener().listen(0, "127.0.0.1", () => {
      const { port } = listener.address() as { port: number };
      listener.close(() => resolve(port));
    });
  });
}
