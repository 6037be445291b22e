// The state of the machine just before a scenario begins: busy processors, and the duration of a sync. main.ts takes it for every
// scenario and the report shows it. A peer that syncs once per message slows down with the disk by any factor. A ratio to it then
// measures the machine's other work.

import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { percentile } from "./statistics.ts";

export interface Conditions {
  /** Share of the processors in use while the benchmark is idle, from 0 to 1. */
  readonly busyShare: number;
  /** One 256-byte append to a growing file with fdatasync. */
  readonly syncP50Ms: number;
  readonly syncP99Ms: number;
}

const PROBE_MS = 1000;
const RECORD = Buffer.alloc(256, "s");

export async function observeConditions(directory: string): Promise<Conditions> {
  const busyShare = await measureBusyShare();
  const syncs = timeSyncs(join(directory, "sync-probe"));
  return { busyShare, syncP50Ms: percentile(syncs, 50), syncP99Ms: percentile(syncs, 99) };
}

function timeSyncs(path: string): Float64Array {
  const file = openSync(path, "w");
  const taken: number[] = [];
  const endsAt = performance.now() + PROBE_MS;
  while (performance.now() < endsAt) {
    const startedAt = performance.now();
    writeSync(file, RECORD);
    fdatasyncSync(file);
    taken.push(performance.now() - startedAt);
  }
  closeSync(file);
  rmSync(path);
  return Float64Array.from(taken).sort();
}

async function measureBusyShare(): Promise<number> {
  const before = processorTimes();
  await sleep(PROBE_MS);
  const after = processorTimes();
  const total = after.total - before.total;
  return total === 0 ? 0 : 1 - (after.idle - before.idle) / total;
}

function processorTimes(): { idle: number; total: number } {
  let idle = 0;
  let total = 0;
  for (const { times } of cpus()) {
    idle += times.idle;
    total += times.user + times.nice + times.sys + times.idle + times.irq;
  }
  return { idle, total };
}
