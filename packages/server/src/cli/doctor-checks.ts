/**
 * The work of `sluice doctor`: examines a data directory that no server uses, and reports what it finds.
 *
 * Invariants: it changes nothing, except that `--repair` cuts the unfinished frame at the journal's end, which a start
 * would skip. Any other damage needs a decision of the operator.
 */
import { existsSync, readdirSync } from "node:fs";
import { EngineError } from "../engine/contract.ts";
import { FORMAT_VERSION } from "../engine/disk/frame.ts";
import { cutTornTail, inspectFormat, inspectJournal, inspectStore, type StoreReport } from "../engine/disk/inspect.ts";
import { DirectoryInUse } from "../engine/disk/lock.ts";
import { nodeFiles } from "../engine/disk/node-files.ts";
import { segmentNumbers } from "../engine/disk/segments.ts";
import { CliError, EXIT } from "./exit.ts";
import { bytesText, green, line, red, yellow } from "./terminal.ts";

export async function examine(dir: string, { repair }: { repair?: boolean }): Promise<void> {
  const names = namesIn(dir);
  if (!names.includes("format") && !names.includes("store.mdb")) {
    throw new CliError(EXIT.notFound, `${dir} is not a data directory of Sluice: it has no file named format`);
  }
  const unlock = await lock(dir);
  try {
    const report = new Report();
    await report.ok("lock", "no server uses the directory");
    await new Examination(dir, report, repair === true).run();
    if (report.isBad) throw new CliError(EXIT.failure, `${dir} is damaged; ${report.advice}`);
  } finally {
    await unlock();
  }
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch (fault) {
    const { code, message } = fault as NodeJS.ErrnoException;
    if (code === "ENOENT") throw new CliError(EXIT.notFound, `there is no directory ${dir}`);
    if (code === "ENOTDIR") throw new CliError(EXIT.notFound, `${dir} is not a directory`);
    if (code === "EACCES") throw new CliError(EXIT.failure, `this user may not look into ${dir}`);
    throw new CliError(EXIT.failure, `${dir} cannot be read: ${message}`);
  }
}

async function lock(dir: string): Promise<() => Promise<void>> {
  try {
    return await nodeFiles.lock(dir);
  } catch (fault) {
    if (fault instanceof DirectoryInUse) throw new CliError(EXIT.conflict, `${fault.message} Stop it first.`);
    if (fault instanceof EngineError) throw new CliError(EXIT.failure, fault.explanation);
    throw fault;
  }
}

class Report {
  isBad = false;
  advice = "restore it from a copy, or ask before changing it";

  ok(part: string, text: string): Promise<void> {
    return line(`${green("ok  ")}  ${part.padEnd(8)} ${text}`);
  }

  note(part: string, text: string): Promise<void> {
    return line(`${yellow("note")}  ${part.padEnd(8)} ${text}`);
  }

  bad(part: string, text: string): Promise<void> {
    this.isBad = true;
    return line(`${red("bad ")}  ${part.padEnd(8)} ${text}`);
  }
}

class Examination {
  constructor(
    private readonly dir: string,
    private readonly report: Report,
    private readonly mayRepair: boolean,
  ) {}

  async run(): Promise<void> {
    const { report, dir } = this;
    if (!existsSync(`${dir}/format`)) {
      await report.bad("format", `${dir}/format is missing, but there is data`);
    } else if (await this.tried("format", () => inspectFormat(nodeFiles, dir))) {
      await report.ok("format", `format ${FORMAT_VERSION}`);
    }
    // The rest of a directory of another format cannot be read.
    if (report.isBad) return;
    const store = await this.store();
    if (store !== undefined && existsSync(`${dir}/journal`)) await this.journal(store.appliedThrough);
  }

  private async store(): Promise<Pick<StoreReport, "appliedThrough"> | undefined> {
    const { report, dir } = this;
    const wasUsed = existsSync(`${dir}/journal`) && (await segmentNumbers(nodeFiles, `${dir}/journal`)).length > 0;
    if (!existsSync(`${dir}/store.mdb`) && !wasUsed) {
      await report.note("store", "there is none yet");
      return { appliedThrough: 0 };
    }
    let found: StoreReport | undefined;
    await this.tried("store", async () => {
      found = await inspectStore(nodeFiles, `${dir}/store.mdb`, wasUsed);
    });
    if (found === undefined) return undefined;
    const { rows, bytes, appliedThrough, boots, damages } = found;
    for (const damage of damages) await report.bad("store", damage);
    const size = `${many(rows, "row")}, ${bytesText(bytes)}`;
    if (damages.length === 0) {
      await report.ok(
        "store",
        `${size}, every checksum right; has commits up to ${appliedThrough}; opened ${many(boots, "time")}`,
      );
    }
    // A store that was opened has a row with the number of starts. If the row is missing, it is part of the damage.
    return wasUsed && boots === 0 ? undefined : found;
  }

  private async journal(appliedThrough: number): Promise<void> {
    const { report, dir } = this;
    await this.tried("journal", async () => {
      const found = await inspectJournal(nodeFiles, `${dir}/journal`, appliedThrough);
      const { segments, frames, unapplied, torn, stored } = found;
      const waiting =
        unapplied === 0 ? "all of it is in the store" : `${many(unapplied, "commit")} not in the store yet`;
      const size = `${many(segments, "segment")}, ${many(frames, "frame")}`;
      if (stored.length === 0) await report.ok("journal", `${size}, every checksum right; ${waiting}`);
      else await this.damagedButStored(stored, `${size} whole; ${waiting}`);
      if (torn === undefined) return;
      const place = `${torn.path} at byte ${torn.from}`;
      if (!this.mayRepair) {
        await report.note(
          "journal",
          `an unfinished frame at the end, ${place} (${torn.to - torn.from} bytes): probably a write that a crash cut short, never acknowledged, but a last frame that the disk did not keep looks the same; a start passes over it, --repair cuts it`,
        );
        return;
      }
      await cutTornTail(nodeFiles, torn);
      await report.ok("journal", `cut the unfinished frame in ${place} (${torn.to - torn.from} bytes)`);
    });
  }

  /** No message is lost, but this disk does not keep what was written to it. */
  private async damagedButStored(places: readonly string[], rest: string): Promise<void> {
    const { report } = this;
    if (!report.isBad)
      report.advice = "nothing is lost, a server starts with it; look at its disk and keep a copy elsewhere";
    for (const place of places.slice(0, MAX_PLACES)) {
      await report.bad("journal", `damaged: ${place}; the store has what was there`);
    }
    await report.note("journal", `${many(places.length, "damaged place")}; ${rest}`);
  }

  /** False if it found damage, which is reported. */
  private async tried(part: string, look: () => Promise<void>): Promise<boolean> {
    try {
      await look();
      return true;
    } catch (fault) {
      const { code } = fault as NodeJS.ErrnoException;
      if (!(fault instanceof EngineError) && typeof code !== "string") throw fault;
      await this.report.bad(part, fault instanceof EngineError ? fault.explanation : (fault as Error).message);
      return false;
    }
  }
}

const MAX_PLACES = 20;

const many = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;
