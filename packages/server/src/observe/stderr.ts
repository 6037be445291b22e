/**
 * The process's standard error as an outlet for log lines. There is one for the whole process, however many servers log to
 * it, because there is one standard error: one listener for its faults, and one for the exit.
 *
 * What must stay true: nothing here blocks the event loop or throws, whether the other end reads slowly, not at all, or has
 * gone. A pipe or a socket takes writes without blocking and queues them; a file or a terminal is written by another thread.
 */
import { fstatSync, write, writeSync } from "node:fs";
import type { LineBuffer, Outlet } from "./line-buffer.ts";

const STDERR = 2;

/** The buffers that write to it, to be flushed when the process exits. */
const users = new Set<LineBuffer>();
let outlet: Outlet | undefined;

export function stderrOutlet(): Outlet {
  outlet ??= isStream(STDERR) ? new StreamOutlet() : new FileOutlet(STDERR);
  return outlet;
}

function isStream(fd: number): boolean {
  try {
    const stat = fstatSync(fd);
    return stat.isFIFO() || stat.isSocket();
  } catch {
    return false;
  }
}

/** From now on the buffer is flushed when the process exits. */
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
    // It stays for good: a write may fail after the server that made it has gone. Whoever writes hears of it by `done`.
    process.stderr.on("error", () => {});
  }

  write(text: string, done: (fault?: unknown) => void): void {
    process.stderr.write(text, done);
  }

  writeNow(text: string): void {
    process.stderr.write(text);
  }
}

class FileOutlet implements Outlet {
  constructor(private readonly fd: number) {}

  write(text: string, done: (fault?: unknown) => void): void {
    this.writeAll(Buffer.from(text), done);
  }

  private writeAll(bytes: Buffer, done: (fault?: unknown) => void): void {
    write(this.fd, bytes, (fault, count) => {
      if (fault || count === bytes.length) done(fault);
      else this.writeAll(bytes.subarray(count), done);
    });
  }

  writeNow(text: string): void {
    try {
      writeSync(this.fd, text);
    } catch {
      // There is nowhere left to say so.
    }
  }
}
