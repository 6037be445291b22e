// Describes the machine and the versions behind a result. main.ts puts it at the head of every report.
//
// Invariants: nothing here identifies a host or a user.

import { execFileSync } from "node:child_process";
import { cpus, release, totalmem, type } from "node:os";
import { durableStreamsVersion } from "./peers/durable-streams.ts";

export interface Machine {
  readonly processor: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly system: string;
  readonly fileSystem: string;
  readonly versions: Record<string, string>;
}

export function describeMachine(directory: string): Machine {
  return {
    processor: cpus()[0]?.model.trim() ?? "unknown",
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`,
    fileSystem: said("findmnt", ["--noheadings", "--output", "FSTYPE", "--target", directory]) ?? "unknown",
    versions: {
      node: process.versions.node,
      "@durable-streams/server": durableStreamsVersion(),
      redis: said("redis-server", ["--version"], /v=(\S+)/) ?? "not installed",
      wrk: said("wrk", ["--version"], /(\d+\.\d+\.\d+)/) ?? "not installed",
    },
  };
}

/** A program's output, or the first group of the pattern in it; undefined if the program is missing. */
function said(command: string, args: string[], pattern?: RegExp): string | undefined {
  try {
    return firstGroup(execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }), pattern);
  } catch (error) {
    // wrk prints its version and then ends with 1.
    const { stdout } = error as { stdout?: string };
    return stdout ? firstGroup(stdout, pattern) : undefined;
  }
}

function firstGroup(text: string, pattern?: RegExp): string | undefined {
  return pattern ? pattern.exec(text)?.[1] : text.trim();
}

export function hasProgram(name: string): boolean {
  return said("which", [name]) !== undefined;
}
