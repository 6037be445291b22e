/**
 * The composition root: options in, running server out. The one place that knows every part, and the outermost one that may
 * touch the clock, timers and randomness (through `realWorld`).
 */

import type { World } from "./core/world.ts";
import { HttpDoor } from "./doors/http/node-adapter.ts";
import { type Features, route } from "./doors/http/router.ts";
import { nodeEd25519 } from "./doors/webhook/node-ed25519.ts";
import { NodeWebhookSender } from "./doors/webhook/node-webhook.ts";
import type { Engine } from "./engine/contract.ts";
import { openDisk } from "./engine/disk/open.ts";
import { Keepers } from "./engine/keeper.ts";
import { openMemory } from "./engine/memory/memory.ts";
import { openRedis } from "./engine/redis/open.ts";
import type { RedisLimits } from "./engine/redis/options.ts";
import { Sweeper } from "./engine/sweeper.ts";
import { realWorld } from "./real-world.ts";
import { listStreams } from "./streams/listing.ts";
import { LiveRoutes } from "./streams/live-routes.ts";
import { parsePath } from "./streams/parse.ts";
import { StreamRoutes } from "./streams/routes.ts";
import { Streams } from "./streams/service.ts";
import { STREAM } from "./streams/state.ts";
import type { WebhookSender } from "./wakes/delivery.ts";
import { SigningKeys } from "./wakes/keys.ts";
import { WakeRoutes } from "./wakes/routes.ts";
import { Wakes } from "./wakes/service.ts";
import { WAKE } from "./wakes/state.ts";

export interface ServerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Where the data lives; undefined keeps everything in memory only. */
  readonly data?: string | undefined;
  /** Redis, a cluster or a single one, instead of a directory: any node of it, and how patiently it is used. */
  readonly redis?: RedisSettings | undefined;
  readonly longPollMs: number;
  readonly drainMs: number;
  readonly sseMs: number;
  readonly bodyBytes: number;
  readonly pageBytes: number;
  readonly liveReaders: number;
  readonly slowReaderBytes: number;
  readonly requestMs: number;
  /** Whether webhooks may be plain http to this machine, as in development. */
  readonly webhookLoopback: boolean;
  /** How old a key that signs webhooks gets, and how long it stays published afterwards. */
  readonly webhookKeyMs: number;
  readonly webhookKeyKeepMs: number;
  /** Scheme, host and port under which webhook receivers reach us; what the subscriber addressed, if undefined. */
  readonly publicUrl?: string | undefined;
  /** Faults that no client is told about. */
  readonly report: (what: string, fault: unknown) => void;
}

export interface RedisSettings extends Partial<RedisLimits> {
  readonly urls: readonly string[];
  /** What all keys start with, for services that share one Redis. */
  readonly prefix?: string | undefined;
}

export const DEFAULTS: ServerOptions = {
  host: "127.0.0.1",
  port: 4437,
  data: "./sluice-data",
  longPollMs: 20_000,
  drainMs: 10_000,
  sseMs: 60_000,
  bodyBytes: 8 * 1024 * 1024,
  pageBytes: 1024 * 1024,
  liveReaders: 50_000,
  slowReaderBytes: 1024 * 1024,
  requestMs: 60_000,
  webhookLoopback: true,
  webhookKeyMs: 30 * 24 * 3_600_000,
  webhookKeyKeepMs: 24 * 3_600_000,
  report: (what, fault) => console.error(what, fault),
};

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  /** Live readers and the streams they read; for tests and metrics. */
  readonly live: { readonly readers: number; readonly watchedStreams: number };
  /** Finishes what is in flight, sends live readers home, flushes. */
  close(): Promise<void>;
}

export async function createServer(options: Partial<ServerOptions> = {}): Promise<RunningServer> {
  const settings = { ...DEFAULTS, ...options };
  const world = realWorld();
  const engine = await openEngine(settings, world);
  try {
    return await serve(settings, world, engine);
  } catch (fault) {
    await engine.close();
    throw fault;
  }
}

async function openEngine({ redis, data }: ServerOptions, world: World): Promise<Engine> {
  if (redis !== undefined) return openRedis({ urls: redis.urls, prefix: redis.prefix, world, limits: redis });
  return data === undefined ? openMemory({ world }) : openDisk({ dir: data, world });
}

async function serve(settings: ServerOptions, world: World, engine: Engine): Promise<RunningServer> {
  const app = buildApp(settings, world, engine);
  const door = await HttpDoor.open({
    host: settings.host,
    port: settings.port,
    requestMs: settings.requestMs,
    handle: (request) => route(app.features, request),
    report: (fault) => settings.report("a request failed", fault),
  });
  app.start();
  const host = settings.host.includes(":") ? `[${settings.host}]` : settings.host;
  const url = `http://${host}:${door.port}`;
  const close = async () => {
    const cancel = world.after(settings.drainMs, () => door.cut());
    app.drain();
    await door.close();
    cancel();
    await app.stop();
    await engine.close();
  };
  let closing: Promise<void> | undefined;
  return { url, port: door.port, live: app.live, close: () => (closing ??= close()) };
}

/** Everything between an engine and a door; the simulator runs exactly this, with a sender of its own. */
export function buildApp(
  settings: ServerOptions,
  world: World,
  engine: Engine,
  sender: WebhookSender = new NodeWebhookSender({ world, allowLoopback: settings.webhookLoopback }),
) {
  const keepers = new Keepers(engine, (task) => world.soon(task));
  const streams = new Streams(engine, keepers, world);
  const live = new LiveRoutes(streams, world, { ...settings, readers: settings.liveReaders });
  const routes = new StreamRoutes(streams, live, settings);
  const sweeper = new Sweeper(engine, world, (e, fault) => settings.report(`sweeping ${e?.key ?? ""} failed`, fault));
  sweeper.handle(STREAM, (e) => streams.sweep(e.project, e.id));
  const keySettings = { keyMs: settings.webhookKeyMs, keyKeepMs: settings.webhookKeyKeepMs };
  const keys = new SigningKeys(engine, keepers, world, nodeEd25519, keySettings, settings.report);
  const wakes = new Wakes({ engine, keepers, streams, world, keys, sender, report: settings.report });
  const wakeRoutes = new WakeRoutes(wakes, keys, settings);
  sweeper.handle(WAKE, (e) => wakes.sweep(e.project, e.id));

  let draining = false;
  const features: Features = {
    stream: (project, encodedPath, request) => routes.handle(project, parsePath(encodedPath), request),
    listStreams: (project, request) => listStreams(streams, project, request),
    control: (project, rest, request) => wakeRoutes.handle(project, rest, request),
    notReady: () => (draining ? "the server is shutting down" : engine.health()?.message),
  };
  return {
    features,
    streams,
    live,
    wakes,
    keys,
    start: () => {
      sweeper.start();
      wakes.start();
    },
    drain: () => {
      draining = true;
      live.drain();
    },
    stop: async () => {
      await Promise.all([sweeper.stop(), wakes.stop()]);
    },
  };
}
