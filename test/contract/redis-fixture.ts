/** Engines and Redis servers that end with their test, for the tests of the Redis engine alone. */
import { onTestFinished } from "vitest";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import type { RedisLimits } from "../../packages/server/src/engine/redis/options.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { type RedisServer, startSingleRedis } from "../support/redis.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";
import { stream } from "./suite/fixture.ts";

export const a = stream("a");
const open: Engine[] = [];
const servers: { close(): Promise<void> }[] = [];

export async function opened(
  place: { urls: readonly string[]; prefix?: string },
  limits: Partial<RedisLimits> = {},
): Promise<Engine> {
  const engine = await openRedis({ ...place, world: realWorld(), limits });
  open.push(engine);
  onTestFinished(endAll);
  return engine;
}

export async function single(): Promise<RedisServer> {
  const started = await startSingleRedis();
  servers.push(started);
  onTestFinished(endAll);
  return started.server;
}

export async function proxied(server: RedisServer, delayMs = 0): Promise<TcpProxy> {
  const proxy = await TcpProxy.open(0, server.port, delayMs);
  servers.push(proxy);
  onTestFinished(endAll);
  return proxy;
}

/** A log on a Redis of its own, and an engine that reaches it through a proxy that can disturb the connection. */
export async function overProxy(limits: Partial<RedisLimits>) {
  const server = await single();
  const proxy = await proxied(server);
  const near = await opened({ urls: [server.url] });
  const { nextGeneration: generation } = await near.load(a, []);
  const begun = await near.commit(a, { rev: 0 }, [{ op: "begin", generation, at: { generation, seq: 0 } }]);
  if (begun.kind !== "done") throw new Error(begun.kind);
  const far = await opened({ urls: [`redis://127.0.0.1:${proxy.port}`] }, limits);
  return { server, proxy, near, far };
}

export async function closeEngines(): Promise<void> {
  await Promise.all(open.splice(0).map((engine) => engine.close()));
}

/**
 * Each test registers this itself, because files share a process and a hook registered at load time would run for the first file
 * alone.
 */
async function endAll(): Promise<void> {
  await closeEngines();
  await Promise.all(servers.splice(0).map((server) => server.close()));
}
