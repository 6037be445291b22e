// Redis with its append-only file synced before every reply, and redis-benchmark as its load. The append scenarios compare with
// it. Snapshots and rewrites of the file are off, which favors Redis. Redis cannot choose its own port, so the harness checks the
// pid of the answering process before it measures.

import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { keepTail, type RunningServer, runningServer, runToEnd, spawnOwned } from "../child.ts";
import { plainMessage } from "../load/message.ts";

export const REDIS = "Redis XADD, appendfsync always";

const CONNECTIONS = 64;
const READY_TIMEOUT_MS = 10_000;
const CALIBRATION_REQUESTS = 5_000;

export async function startRedis(dataDirectory: string): Promise<RunningServer> {
  mkdirSync(dataDirectory, { recursive: true });
  const port = await freePort();
  const startedAt = performance.now();
  const child = spawnOwned("redis-server", [
    ...["--port", String(port), "--bind", "127.0.0.1", "--dir", dataDirectory, "--save", ""],
    ...["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"],
  ]);
  child.stdout!.resume();
  const server = runningServer(
    child,
    new URL(`http://127.0.0.1:${port}`),
    performance.now() - startedAt,
    keepTail(child),
  );
  const deadline = performance.now() + READY_TIMEOUT_MS;
  for (;;) {
    const pid = await answeringPid(port).catch(() => undefined);
    if (pid === server.pid) return server;
    if (pid !== undefined) throw new Error(`another Redis (pid ${pid}) answers on port ${port}`);
    if (performance.now() > deadline) throw new Error(`redis-server did not answer: ${server.stderr()}`);
    await sleep(50);
  }
}

/** Requests per second of XADD with 256-byte messages over that many streams, without pipelining. */
export async function benchmarkXadd(server: RunningServer, streams: number, seconds: number): Promise<number> {
  const warm = await xadd(server, streams, CALIBRATION_REQUESTS, 60);
  return xadd(server, streams, Math.max(CALIBRATION_REQUESTS, Math.round(warm * seconds)), seconds * 10 + 60);
}

async function xadd(server: RunningServer, streams: number, requests: number, limitSeconds: number): Promise<number> {
  const key = streams === 1 ? ["stream"] : ["-r", String(streams), "stream:__rand_int__"];
  const options = key.slice(0, -1);
  const output = await runToEnd(
    "redis-benchmark",
    [
      ...["-h", "127.0.0.1", "-p", server.url.port, "-c", String(CONNECTIONS), "-P", "1", "-n", String(requests)],
      ...[...options, "--csv", "XADD", key.at(-1)!, "*", "m", plainMessage(1)],
    ],
    limitSeconds * 1000,
  );
  const rate = /^"XADD [^\n]*?","([0-9.]+)"/m.exec(output);
  if (!rate) throw new Error(`redis-benchmark printed no rate: ${output}`);
  return Number(rate[1]);
}

/** The pid that the Redis on that port reports. */
async function answeringPid(port: number): Promise<number | undefined> {
  const socket = connect({ host: "127.0.0.1", port });
  try {
    await once(socket, "connect");
    socket.write("INFO server\r\n");
    const [reply] = (await once(socket, "data", { signal: AbortSignal.timeout(2000) })) as [Buffer];
    const pid = /process_id:(\d+)/.exec(reply.toString());
    return pid ? Number(pid[1]) : undefined;
  } finally {
    socket.destroy();
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  if (address === null || typeof address === "string") throw new Error("no free port");
  return address.port;
}
