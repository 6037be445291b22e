// Publishers of channels, each on a connection of its own like a real one, all in this process. The channel scenarios use it.
//
// Invariants: every publish is due at a fixed time and its latency counts from there, so a stalled server cannot hide the
// publishes that it delayed. A channel's publishes go out in order, one at a time.

import { setTimeout as sleep } from "node:timers/promises";
import { HttpConnection } from "./http-connection.ts";

const CONNECTING_AT_ONCE = 64;
const TICK_MS = 2;
const HEADERS = { "Content-Type": "application/json" };
/** A handful of words, as a model writes them in a tenth of a second. */
const TOKENS = "and so the answer goes on, word by word";

export interface Published {
  /** From the due time of a publish to its answer. */
  readonly latenciesMs: Float64Array;
  readonly accepted: number;
  readonly serverErrors: number;
  /** Answers that are neither a success nor a server error: the status and its count. */
  readonly others: ReadonlyMap<number, number>;
}

interface Publisher {
  readonly connection: HttpConnection;
  readonly path: string;
  sequence: number;
  /** Resolves when all due publishes are answered. */
  last: Promise<void>;
}

export function publishPath(channel: string): string {
  return `/v1/default/channels/${channel}/publish`;
}

export function messageBody(phase: "START" | "DELTA" | "END", sequence: number, payload: string): string {
  return JSON.stringify({ phase, sequence, payload });
}

export class ChannelPublishers {
  private constructor(private readonly publishers: readonly Publisher[]) {}

  /** Connects and starts `count` channels. */
  static async open(url: URL, label: string, count: number): Promise<ChannelPublishers> {
    const publishers: Publisher[] = [];
    const openOne = async (index: number) => {
      const connection = await HttpConnection.open(url);
      const path = publishPath(`${label}-${index}`);
      const { status } = await connection.send({
        method: "POST",
        path,
        headers: HEADERS,
        body: messageBody("START", 0, ""),
      });
      if (status !== 202) throw new Error(`START answered ${status}`);
      publishers.push({ connection, path, sequence: 1, last: Promise.resolve() });
    };
    for (let first = 0; first < count; first += CONNECTING_AT_ONCE) {
      const last = Math.min(count, first + CONNECTING_AT_ONCE);
      await Promise.all(Array.from({ length: last - first }, (_, i) => openOne(first + i)));
    }
    return new ChannelPublishers(publishers);
  }

  close(): void {
    for (const { connection } of this.publishers) connection.close();
  }

  /** Every channel publishes `perSecond` times a second, the channels evenly spread over that time. */
  async run(perSecond: number, seconds: number): Promise<Published> {
    const { publishers } = this;
    const total = Math.floor(publishers.length * perSecond * seconds);
    const everyMs = 1000 / (publishers.length * perSecond);
    const latenciesMs = new Float64Array(total);
    const others = new Map<number, number>();
    let accepted = 0;
    let serverErrors = 0;
    const publish = async (publisher: Publisher, index: number, dueAt: number) => {
      const body = messageBody("DELTA", publisher.sequence++, TOKENS);
      const { status } = await publisher.connection.send({
        method: "POST",
        path: publisher.path,
        headers: HEADERS,
        body,
      });
      latenciesMs[index] = performance.now() - dueAt;
      if (status === 202) accepted++;
      else if (status >= 500) serverErrors++;
      else others.set(status, (others.get(status) ?? 0) + 1);
    };
    const startedAt = performance.now();
    for (let index = 0; index < total; ) {
      const now = performance.now();
      for (; index < total && startedAt + index * everyMs <= now; index++) {
        const publisher = publishers[index % publishers.length]!;
        const [mine, dueAt] = [index, startedAt + index * everyMs];
        publisher.last = publisher.last.then(() => publish(publisher, mine, dueAt));
      }
      await sleep(TICK_MS);
    }
    await Promise.all(publishers.map(({ last }) => last));
    return { latenciesMs, accepted, serverErrors, others };
  }
}
