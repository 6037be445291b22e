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
  await fill(admin, names, perStream);
  const clients = Array.from({ length: members }, () => new Redis(port, "127.0.0.1"));
  await Promise.all(clients.map((client) => client.ping()));
  const startedAt = performance.now();
  await Promise.all(
    clients.map((client, i) => {
      const own = names.filter((_, stream) => stream % members === i);
      return consume(client, `c${i}`, own, own.length * perStream);
    }),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  for (const client of [admin, ...clients]) client.disconnect();
  return seconds;
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

type Reply = readonly (readonly [string, readonly (readonly [string, readonly string[]])[]])[] | null;

async function consume(client: Redis, name: string, streams: readonly string[], messages: number): Promise<void> {
  const ids = streams.map(() => ">");
  for (let got = 0; got < messages; ) {
    const args = ["GROUP", GROUP, name, "COUNT", String(BATCH), "STREAMS", ...streams, ...ids];
    const reply = (await client.call("XREADGROUP", ...args)) as Reply;
    await Promise.all(
      (reply ?? []).map(([stream, entries]) => {
        got += entries.length;
        return client.xack(stream, GROUP, ...entries.map(([id]) => id));
      }),
    );
  }
}
