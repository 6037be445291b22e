/** One reader who goes through a page, block by block. `docs.test.ts` makes one for each page. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createServer, type RunningServer } from "@sluice/server";
import { loadSettings } from "../../packages/server/src/config/load.ts";
import { temporaryDir } from "../support/disk.ts";
import { type Block, place } from "./blocks.ts";
import { isProgram, type Program } from "./programs.ts";
import type { Relay } from "./relay.ts";
import { Shell } from "./shell.ts";
import { beginPage, endPage } from "./stage.ts";
import { replay } from "./transcript.ts";

const PATIENCE_MS = 60_000;

export class Walk {
  /** What the shell wrote. */
  output = "";
  readonly #server: RunningServer;
  readonly #relay: Relay;
  readonly #module: string | undefined;
  #files: ReturnType<typeof temporaryDir> | undefined;
  #shell: Shell | undefined;
  #program: ReturnType<Program> | undefined;

  /** `module`: the path of the page's programs, if it has any. */
  constructor(server: RunningServer, relay: Relay, module: string | undefined) {
    this.#server = server;
    this.#relay = relay;
    this.#module = module;
    beginPage(server.url);
  }

  async run(block: Block): Promise<void> {
    if (block.language === "sh") await this.#paste(block);
    else if (block.language === "yaml") this.#configure(block);
    else if (block.language === "json") parseAll(block);
    else if (block.language === "console") await inTime(replay(block.text, this.#server.url), block);
    else if (isProgram(block)) await this.#step(block);
  }

  async #paste(block: Block): Promise<void> {
    this.#shell ??= new Shell(this.#server.url, this.#relay.url);
    const shell = this.#shell;
    if (block.text.includes("sluice doctor")) await this.#leaveData(shell);
    const output = await inTime(shell.run(block), block, () => shell.output);
    this.output += output;
    const failed = output.match(/^@failed .*$/gm) ?? [];
    // A refusal is fine where the block tells the reader of its status.
    const refused = [...output.matchAll(/^HTTP\/1\.1 ([45]\d\d)|"status":([45]\d\d)/gm)]
      .map(([, line, body]) => (line ?? body)!)
      .filter((status) => !new RegExp(`\\b${status}\\b`).test(block.text));
    if (failed.length + refused.length > 0) throw new Error(`${place(block)} failed:\n${output}`);
  }

  /** `sluice doctor` looks at the directory of a stopped server. */
  async #leaveData(shell: Shell): Promise<void> {
    const stopped = await createServer({ port: 0, log: false, data: join(shell.directory, "sluice-data") });
    await stopped.close();
  }

  #configure(block: Block): void {
    this.#files ??= temporaryDir();
    const configFile = join(this.#files.dir, `${block.line}.yaml`);
    writeFileSync(configFile, block.text);
    try {
      loadSettings({ flags: [], env: {}, configFile }, []);
    } catch (cause) {
      throw new Error(`${place(block)} is refused: ${(cause as Error).message}`, { cause });
    }
  }

  async #step(block: Block): Promise<void> {
    if (this.#program === undefined) {
      const { program } = (await import(this.#module!)) as { program: Program };
      this.#program = program();
      await this.#program.next();
    }
    try {
      await inTime(this.#program.next(), block);
    } catch (cause) {
      throw new Error(`${place(block)} failed: ${(cause as Error).stack}`, { cause });
    }
  }

  async end(): Promise<void> {
    await endPage();
    await this.#shell?.close();
    this.#files?.remove();
  }
}

function parseAll({ text, file, line }: Block): void {
  try {
    JSON.parse(text);
  } catch {
    for (const [at, value] of text.trim().split("\n").entries()) {
      try {
        JSON.parse(value);
      } catch (cause) {
        throw new Error(`${file}:${line + 1 + at} is no JSON: ${value}`, { cause });
      }
    }
  }
}

async function inTime<T>(work: Promise<T>, block: Block, soFar: () => string = () => ""): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${place(block)} does not end: ${soFar()}`)), PATIENCE_MS);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
