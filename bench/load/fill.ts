// Creates streams and fills them before a measurement. The read, idle, restart and append scenarios use it on every server that
// speaks the streams protocol. The number of requests in flight is the number of connections; a reply other than 2xx ends the
// run.

import { HttpConnection } from "./http-connection.ts";
import { jsonBatch, MESSAGE_BYTES } from "./message.ts";

const DIFFERENT_BODIES = 16;

export function streamPath(name: string | number): string {
  return `/v1/stream/bench/${name}`;
}

export async function createStreams(
  url: URL,
  paths: readonly string[],
  contentType: string,
  connections = 32,
  headers: Record<string, string> = {},
): Promise<void> {
  const all = { "Content-Type": contentType, ...headers };
  await spread(url, connections, paths.length, async (connection, i) => {
    const reply = await connection.send({ method: "PUT", path: paths[i]!, headers: all });
    if (reply.status >= 300) throw new Error(`PUT ${paths[i]} answered ${reply.status}`);
  });
}

/** Appends JSON messages batch by batch, going round the streams, so that their data lies interleaved on disk. */
export async function fillRoundRobin(
  url: URL,
  paths: readonly string[],
  messagesPerStream: number,
  batch = 100,
  connections = 32,
): Promise<{ messages: number; bytes: number }> {
  const bodies = Array.from({ length: DIFFERENT_BODIES }, (_, i) => Buffer.from(jsonBatch(i, batch)));
  const batchesPerStream = Math.ceil(messagesPerStream / batch);
  await spread(url, connections, batchesPerStream * paths.length, async (connection, i) => {
    const path = paths[i % paths.length]!;
    const body = bodies[i % bodies.length]!;
    const reply = await connection.send({
      method: "POST",
      path,
      headers: { "Content-Type": "application/json" },
      body,
    });
    if (reply.status >= 300) throw new Error(`POST ${path} answered ${reply.status}`);
  });
  const messages = batchesPerStream * batch * paths.length;
  return { messages, bytes: messages * MESSAGE_BYTES };
}

/** Runs `count` jobs in order over that many connections, each connection with one job at a time. */
export async function spread(
  url: URL,
  connections: number,
  count: number,
  job: (connection: HttpConnection, index: number) => Promise<void>,
): Promise<void> {
  const open = await Promise.all(Array.from({ length: connections }, () => HttpConnection.open(url)));
  let next = 0;
  try {
    await Promise.all(
      open.map(async (connection) => {
        while (next < count) await job(connection, next++);
      }),
    );
  } finally {
    next = count;
    for (const connection of open) connection.close();
  }
}
