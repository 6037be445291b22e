// A Node program that consumes Redis streams in a consumer group: XREADGROUP COUNT 100, then XACK of what it got. Each consumer has a
// connection and its own part of the streams. The group scenarios compare with it.

import { Redis } from "ioredis";
import { plainMessage } from "../load/message.ts";

export const XREADGROUP = "XREADGROUP COUNT 100 + XACK";

const GROUP = "bench";
const BATCH = 100;

/** Fills the streams and returns the seconds that the consumers take for all of it. */
export async function consumeStreams(
  port: number,
  streams: number,
  perStream: number,
  members: number,
): Promise<number> {
  const admin = new Redis(port, "127.0.0.1");
  const names = Array.from({ length: streams }, (_, i) => `s${i}`);
  const clients = Array.from({ length: members }, () => new Redis(port, "127.0.0.1"));
  try {
    await fill(admin, names, perStream);
    await Promise.all(clients.map((client) => client.ping()));
    const startedAt = performance.now();
    await Promise.all(
      clients.map((client, i) => {
        const own = names.filter((_, stream) => stream % members === i);
        return consume(client, `c${i}`, own, own.length * perStream);
      }),
    );
    return (performance.now() - startedAt) / 1000;
  } finally {
    for (const client of [admin, ...clients]) client.disconnect();
  }
}

async function fill(admin: Redis, names: readonly string[], perStream: number): Promise<void> {
  for (const name of names) {
    await admin.xgroup("CREATE", name, GROUP, "0", "MKSTREAM");
    for (let i = 0; i < perStream; i += BATCH) {
      const pipeline = admin.pipeline();
      for (let j = i; j < Math.min(perStream, i + BATCH); j++) pipeline.xadd(name, "*", "m", plainMessage(j));
      await pipeline.exec();
    }
  }
}

type Entries = readonly (readonly [id: string, fields: readonly string[]])[];

async function consume(client: Redis, name: string, streams: readonly string[], messages: number): Promise<void> {
  const ids = streams.map(() => ">");
  for (let got = 0; got < messages; ) {
    const args = ["GROUP", GROUP, name, "COUNT", String(BATCH), "STREAMS", ...streams, ...ids];
    // Names and entries in turn.
    const reply = ((await client.call("XREADGROUP", ...args)) ?? []) as readonly (string | Entries)[];
    const acks: Promise<number>[] = [];
    for (let i = 0; i < reply.length; i += 2) {
      const entries = reply[i + 1] as Entries;
      got += entries.length;
      acks.push(client.xack(reply[i] as string, GROUP, ...entries.map(([id]) => id)));
    }
    await Promise.all(acks);
  }
}
