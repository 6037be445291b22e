// What the SSE and Live scenarios measure of readers of one stream: deliveries per second while publishers never pause, and the p99
// from a message's due time to its arrival. A delivery is one message that reaches one reader, also if messages share a write.
//
// Invariants: after a run every reader must have every acknowledged message; otherwise the outcome records trouble.

import { setTimeout as sleep } from "node:timers/promises";
import type { RunningServer } from "../child.ts";
import { formatNumber } from "../rounds.ts";
import { type Bench, type Outcome, recordTrouble } from "../scenario.ts";
import { percentile } from "../statistics.ts";
import { publishPaced, publishSaturated } from "./publish.ts";
import type { Readers } from "./readers.ts";

const CATCH_UP_LIMIT_MS = 30_000;

/** Readers that have received one message, and the outcome that trouble goes into. */
export interface Run {
  readonly bench: Bench;
  readonly name: string;
  readonly server: RunningServer;
  readonly path: string;
  readonly readers: Readers;
  readonly outcome: Outcome;
}

/** Deliveries per second. */
export async function saturate({ bench, name, server, path, readers, outcome }: Run): Promise<number> {
  const { delivery } = readers;
  let rate = 0;
  const clock = async () => {
    await sleep(bench.options.quick ? 500 : 2000);
    const before = delivery.deliveries;
    const startedAt = performance.now();
    await sleep(bench.options.seconds * 1000);
    rate = (delivery.deliveries - before) / ((performance.now() - startedAt) / 1000);
  };
  const published = 1 + (await publishSaturated(server.url, path, readers, clock()));
  await settled(readers, published);
  const expected = published * delivery.perReader.length;
  if (delivery.deliveries !== expected || delivery.cutOff > 0) {
    const off = `${formatNumber(delivery.deliveries)} of ${formatNumber(expected)} deliveries`;
    recordTrouble(outcome, name, `${off}, ${delivery.cutOff} readers cut off in one round.`);
  }
  return rate;
}

export class Latency {
  private readonly latenciesMs: number[] = [];
  private counting = false;

  /** For the readers. */
  readonly onStamp = (stampMicros: number): void => {
    if (this.counting) this.latenciesMs.push(performance.now() - stampMicros / 1000);
  };

  /** In milliseconds, with a message every `everyMs`. */
  async p99({ bench, name, server, path, readers, outcome }: Run, everyMs: number): Promise<number> {
    const warmed = await publishPaced(server.url, path, everyMs, bench.options.quick ? 0.5 : 2);
    await settled(readers, 1 + warmed);
    this.counting = true;
    const published = await publishPaced(server.url, path, everyMs, bench.options.seconds);
    await settled(readers, 1 + warmed + published);
    const expected = published * readers.delivery.perReader.length;
    if (this.latenciesMs.length !== expected) {
      recordTrouble(outcome, name, `${this.latenciesMs.length} of ${expected} deliveries in one round.`);
    }
    const sorted = Float64Array.from(this.latenciesMs).sort();
    bench.log(`  p50 ${percentile(sorted, 50).toFixed(2)} ms, highest ${percentile(sorted, 100).toFixed(2)} ms`);
    return percentile(sorted, 99);
  }
}

/** Waits until every reader has that many messages, up to a generous limit. */
export async function settled(readers: Readers, messages: number): Promise<void> {
  const deadline = performance.now() + CATCH_UP_LIMIT_MS;
  while (readers.slowest() < messages && performance.now() < deadline) await sleep(20);
}
