/**
 * Descriptors that the disk engine keeps for itself, so that it can open its next file while connections, webhooks and key sets
 * have all others. The engine's thread and the apply worker have one each; `node-files.ts` opens and closes through it.
 *
 * Invariants: a descriptor is given up and used in one synchronous step, so that no connection is accepted in between. The reserve
 * is filled again the same way, from the files that the engine closes.
 */
import * as fs from "node:fs";
import { devNull } from "node:os";
import { faultCode } from "./system-fault.ts";

const SHORT_OF_DESCRIPTORS: ReadonlySet<string> = new Set(["EMFILE", "ENFILE"]);

export class DescriptorReserve {
  private readonly kept: number[] = [];

  /** `size` is how many files the thread opens before it closes one. */
  constructor(private readonly size: number) {}

  /** Keeps as many descriptors as are to be had. */
  fill(): void {
    try {
      while (this.kept.length < this.size) this.kept.push(fs.openSync(devNull, "r"));
    } catch (fault) {
      if (!SHORT_OF_DESCRIPTORS.has(faultCode(fault))) throw fault;
    }
  }

  /** Opens a file that could not be opened for `fault`, in place of what is kept; throws the fault if that does not help. */
  openInstead(fault: unknown, path: string, flags: string | number, mode: number): number {
    let last = fault;
    while (SHORT_OF_DESCRIPTORS.has(faultCode(last)) && this.kept.length > 0) {
      fs.closeSync(this.kept.pop()!);
      try {
        return fs.openSync(path, flags, mode);
      } catch (again) {
        last = again;
      }
    }
    throw last;
  }

  /** Whether the next closed file should be closed by `closeInto`. */
  get isShort(): boolean {
    return this.kept.length < this.size;
  }

  /** Closes a file and keeps its descriptor. */
  closeInto(fd: number): void {
    fs.closeSync(fd);
    this.fill();
  }

  /** Gives all of them back. */
  release(): void {
    for (const fd of this.kept.splice(0)) fs.closeSync(fd);
  }
}
