/**
 * Standard error as the outlet for log lines. All servers of a process share one outlet, one listener for its faults
 * and one for the exit. The log opens it.
 *
 * Invariants: nothing here blocks the event loop or throws, whether the other end reads slowly, not at all, or is gone.
 * Writes to a pipe or a socket are queued without blocking; a thread of the pool writes to a file or a terminal.
 */
import { fstatSync, write, writeSync } from "node:fs";
import { isatty } from "node:tty";
import type { LineBuffer, Outlet } from "./line-buffer.ts";

const STDERR = 2;

/** Buffers to flush when the process exits. */
const users = new Set<LineBuffer>();
let outlet: Outlet | undefined;

export function stderrOutlet(): Outlet {
  outlet ??= isStream(STDERR) ? new StreamOutlet() : new FileOutlet(STDERR);
  return outlet;
}

/** Whether standard error is a terminal, and whether that shows colors; https://no-color.org is respected. */
export function stderrTerminal(): { readonly isTerminal: boolean; readonly hasColors: boolean } {
  const isTerminal = isatty(STDERR);
  const { NO_COLOR, TERM } = process.env;
  return { isTerminal, hasColors: isTerminal && (NO_COLOR ?? "") === "" && TERM !== "dumb" };
}

function isStream(fd: number): boolean {
  try {
    const stat = fstatSync(fd);
    return stat.isFIFO() || stat.isSocket();
  } catch {
    return false;
  }
}

/** Flushes the buffer when the process exits, until `forgetAtExit`. */
export function flushAtExit(buffer: LineBuffer): void {
  if (users.size === 0) process.on("exit", flushAll);
  users.add(buffer);
}

export function forgetAtExit(buffer: LineBuffer): void {
  if (users.delete(buffer) && users.size === 0) process.off("exit", flushAll);
}

function flushAll(): void {
  for (const buffer of users) buffer.flushNow();
}

class StreamOutlet implements Outlet {
  constructor() {
    // The listener is never removed, because a write may fail after its server has closed. The writer gets the fault
    // through `done`.
    process.stderr.on("error", () => {});
  }

  write(bytes: Uint8Array, done: (fault?: unknown) => void): void {
    process.stderr.write(bytes, done);
  }

  writeNow(bytes: Uint8Array): void {
    process.stderr.write(bytes);
  }
}

class FileOutlet implements Outlet {
  constructor(private readonly fd: number) {}

  write(bytes: Uint8Array, done: (fault?: unknown) => void): void {
    write(this.fd, bytes, (fault, count) => {
      if (fault || count === bytes.length) done(fault);
      else this.write(bytes.subarray(count), done);
    });
  }

  writeNow(bytes: Uint8Array): void {
    try {
      writeSync(this.fd, bytes);
    } catch {
      // No outlet is left to report this fault to.
    }
  }
}
