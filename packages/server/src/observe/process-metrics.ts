/**
 * The metrics of the process: memory, processor time, file descriptors, event loop delay, and the build. Watch lists
 * them; all are read at a scrape. Several servers in one process show the same values.
 */
import { readFileSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { counters, gauge, type Metric } from "../core/metric.ts";
import type { World } from "../core/world.ts";

const QUANTILES = [0.5, 0.9, 0.99, 1] as const;
const FDS = "/proc/self/fd";

export interface ProcessMetrics {
  readonly metrics: readonly Metric[];
  close(): void;
}

/** `resolutionMs`: the resolution of the event loop delay. */
export function processMetrics(engine: string, world: Pick<World, "now">, resolutionMs: number): ProcessMetrics {
  const startedAt = world.now() / 1_000 - process.uptime();
  const delay = monitorEventLoopDelay({ resolution: resolutionMs });
  delay.enable();
  const info = { version: VERSION, node: process.versions.node, engine };
  const metrics: Metric[] = [
    {
      kind: "gauge",
      name: "sluice_build_info",
      help: "Always 1; the labels state the version, the engine and Node's version.",
      read: (observe) => observe(1, info),
    },
    gauge("sluice_process_start_time_seconds", "When the process started, in seconds since 1970.", () => {
      return startedAt;
    }),
    {
      kind: "gauge",
      name: "sluice_process_memory_bytes",
      help: "Memory of the process: resident, heap_used, heap_total, external (buffers included).",
      read(observe) {
        const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
        const kinds = { resident: rss, heap_used: heapUsed, heap_total: heapTotal, external };
        for (const [kind, bytes] of Object.entries(kinds)) observe(bytes, { kind });
      },
    },
    counters("sluice_process_cpu_seconds_total", "Processor time of all threads, by mode.", "mode", () => {
      const { user, system } = process.cpuUsage();
      return { user: user / 1e6, system: system / 1e6 };
    }),
    counters("sluice_event_loop_seconds_total", "How long the event loop worked and waited.", "state", () => {
      const { active, idle } = performance.eventLoopUtilization();
      return { active: active / 1_000, idle: idle / 1_000 };
    }),
    {
      kind: "gauge",
      name: "sluice_event_loop_delay_seconds",
      help: "How late timers ran since the last scrape, by quantile; 1 is the worst.",
      read(observe) {
        for (const quantile of QUANTILES) {
          // A timer that is on time shows as its own interval.
          const ms = delay.percentile(quantile * 100) / 1e6 - resolutionMs;
          observe(Math.max(0, ms) / 1_000, { quantile: String(quantile) });
        }
        delay.reset();
      },
    },
    {
      kind: "gauge",
      name: "sluice_process_fds",
      help: "File descriptors: open ones, and how many the process may open. Linux only.",
      async read(observe) {
        const [open, max] = await Promise.all([openFds(), maxFds()]);
        if (open !== undefined) observe(open, { kind: "open" });
        if (max !== undefined) observe(max, { kind: "max" });
      },
    },
  ];
  return { metrics, close: () => void delay.disable() };
}

/** Newer kernels report the count as the size of the directory, which is cheap with many connections. */
async function openFds(): Promise<number | undefined> {
  try {
    const { size } = await stat(FDS);
    return size > 0 ? size : (await readdir(FDS)).length;
  } catch {
    return undefined;
  }
}

async function maxFds(): Promise<number | undefined> {
  const limits = await readFile("/proc/self/limits", "latin1").catch(() => "");
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? undefined : Number(soft);
}

const VERSION = (() => {
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
})();
