// Publishers for the SSE and Live scenarios, in the readers' process so that both use one clock. Saturated: 64 connections post one
// message each as fast as the readers keep up. A window stops publishing before the server would cut off a slow reader. Paced:
// one message at fixed times, whatever became of the one before, so that a slow server cannot hide its delay.

import { setTimeout as sleep } from "node:timers/promises";
import { HttpConnection } from "./http-connection.ts";
import { jsonMessage } from "./message.ts";
import { type Readers, STAMP_DIGITS } from "./readers.ts";

const PUBLISHERS = 64;
const WINDOW_MESSAGES = 1024;
const PACED_CONNECTIONS = 16;
const DIFFERENT_BODIES = 64;
const HEADERS = { "Content-Type": "application/json" };

export async function publishOne(url: URL, path: string): Promise<void> {
  const connection = await HttpConnection.open(url);
  await post(connection, path, jsonMessage(0, stampNow()));
  connection.close();
}

/** Publishes until `until` is fulfilled; returns the number of acknowledged messages. */
export async function publishSaturated(
  url: URL,
  path: string,
  readers: Readers,
  until: Promise<void>,
): Promise<number> {
  const connections = await Promise.all(Array.from({ length: PUBLISHERS }, () => HttpConnection.open(url)));
  const bodies = Array.from({ length: DIFFERENT_BODIES }, (_, i) => jsonMessage(i));
  const readerCount = readers.delivery.perReader.length;
  const deliveredBefore = readers.delivery.deliveries;
  let sent = 0;
  let stopped = false;
  let waiting: (() => void)[] = [];
  const hasRoom = () =>
    sent * readerCount - (readers.delivery.deliveries - deliveredBefore) < WINDOW_MESSAGES * readerCount;
  const wakeAll = () => {
    const woken = waiting;
    waiting = [];
    for (const wake of woken) wake();
  };
  readers.onProgress = () => {
    if (waiting.length > 0 && hasRoom()) wakeAll();
  };
  void until.then(() => {
    stopped = true;
    wakeAll();
  });
  await Promise.all(
    connections.map(async (connection) => {
      while (!stopped) {
        if (hasRoom()) await post(connection, path, bodies[sent++ % bodies.length]!);
        else await new Promise<void>((resolve) => waiting.push(resolve));
      }
      connection.close();
    }),
  );
  return sent;
}

/** Publishes a stamped message every `everyMs` for the given time; the stamp is its due time. */
export async function publishPaced(url: URL, path: string, everyMs: number, seconds: number): Promise<number> {
  const free = await Promise.all(Array.from({ length: PACED_CONNECTIONS }, () => HttpConnection.open(url)));
  const underway = new Set<Promise<void>>();
  const startedAt = performance.now();
  const total = Math.floor((seconds * 1000) / everyMs);
  for (let i = 0; i < total; i++) {
    const dueAt = startedAt + i * everyMs;
    const wait = dueAt - performance.now();
    if (wait > 0) await sleep(wait);
    while (free.length === 0) await Promise.race(underway);
    const connection = free.pop()!;
    const done = post(connection, path, jsonMessage(i, stamp(dueAt))).then(() => {
      free.push(connection);
      underway.delete(done);
    });
    underway.add(done);
  }
  await Promise.all(underway);
  for (const connection of free) connection.close();
  return total;
}

function stampNow(): string {
  return stamp(performance.now());
}

function stamp(milliseconds: number): string {
  return String(Math.round(milliseconds * 1000)).padStart(STAMP_DIGITS, "0");
}

async function post(connection: HttpConnection, path: string, body: string): Promise<void> {
  const reply = await connection.send({ method: "POST", path, headers: HEADERS, body });
  if (reply.status >= 300) throw new Error(`POST ${path} answered ${reply.status}`);
}
