/**
 * One bash for the shell blocks of a page, with job control as in a terminal. Variables and jobs live from block to block.
 *
 * Invariants: the shell has a directory and a home of its own; its current context is the server of the page.
 */
import { spawn } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { temporaryDir } from "../support/disk.ts";
import { bundledBin } from "../support/server-bundle.ts";
import { cleanEnv } from "../support/sluice-process.ts";
import type { Block } from "./blocks.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const DONE = /^@done (\d+)$/m;

export class Shell {
  readonly #dir = temporaryDir();
  readonly #bash;
  readonly #url: string;
  #output = "";
  #heard: () => void = () => {};

  constructor(url: string, relay: string) {
    this.#url = url;
    const dir = this.#dir.dir;
    const home = join(dir, "home/sluice");
    mkdirSync(home, { recursive: true, mode: 0o700 });
    writeFileSync(
      join(home, "contexts.json"),
      JSON.stringify({ current: "page", contexts: { page: { url, project: "default" } } }),
      { mode: 0o600 },
    );
    copyFileSync(join(ROOT, "sluice.example.yaml"), join(dir, "sluice.example.yaml"));
    for (const program of ["bill", "send-mail"]) {
      writeFileSync(join(dir, program), "#!/bin/sh\ncat >/dev/null\n");
      chmodSync(join(dir, program), 0o755);
    }
    // Each answer begins a line, and the progress of curl stands nowhere within one.
    writeFileSync(join(dir, "home/.curlrc"), 'no-progress-meter\nwrite-out = "\\n"\n');
    const env = {
      ...cleanEnv({
        XDG_CONFIG_HOME: join(dir, "home"),
        CURL_HOME: join(dir, "home"),
        DOCS_SLUICE: bundledBin(),
        DOCS_RELAY: relay,
      }),
    };
    delete env.SLUICE_GRPC_PORT;
    this.#bash = spawn("bash", ["--norc", "-m"], { cwd: dir, env, stdio: "pipe" });
    for (const out of [this.#bash.stdout, this.#bash.stderr]) {
      out.setEncoding("utf8").on("data", (chunk: string) => {
        this.#output += chunk;
        this.#heard();
      });
    }
    this.#bash.on("close", () => this.#heard());
    this.#bash.stdin.on("error", () => {});
    this.#bash.stdin.write(`source ${join(ROOT, "test/docs/prelude.sh")}\n`);
  }

  /** What all blocks wrote. */
  get output(): string {
    return this.#output;
  }

  get directory(): string {
    return this.#dir.dir;
  }

  /** Runs a block and returns what it wrote, with what failed in lines that begin with `@failed`. */
  async run({ line, text }: Block): Promise<string> {
    const file = join(this.#dir.dir, `block-${line}.sh`);
    writeFileSync(file, this.#here(text));
    const from = this.#output.length;
    this.#bash.stdin.write(`source ${file} </dev/null\nprintf '\\n@done ${line}\\n'\n`);
    return new Promise((resolve, reject) => {
      this.#heard = () => {
        const output = this.#output.slice(from);
        if (DONE.exec(output)?.[1] === String(line)) resolve(output.replace(DONE, ""));
        else if (this.#bash.exitCode !== null) reject(new Error(`the shell ended: ${output}`));
      };
      this.#heard();
    });
  }

  /** The page names the default address and files beside it; the server of the page has another port, and its files a directory. */
  #here(text: string): string {
    const host = new URL(this.#url).host;
    return text
      .replaceAll(/(127\.0\.0\.1|localhost):4437/g, host)
      .replaceAll(/ (\.\/)?(?=sluice\.example\.yaml|sluice-data\b)/g, ` ${this.directory}/`);
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#bash.on("close", resolve));
    this.#bash.stdin.end("kill $(jobs -p) 2>/dev/null; exit\n");
    await closed;
    rmSync(this.#dir.dir, { recursive: true, force: true });
  }
}
