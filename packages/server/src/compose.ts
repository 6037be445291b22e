/**
 * The composition root: options in, running server out. The one place that knows every part, and the outermost one that may
 * touch the clock, timers and randomness (through `realWorld`).
 */

import { performance } from "node:perf_hooks";
import { gauge } from "./core/metric.ts";
import type { World } from "./core/world.ts";
import { HttpDoor } from "./doors/http/node-adapter.ts";
import { type Features, route } from "./doors/http/router.ts";
import { nodeEd25519 } from "./doors/webhook/node-ed25519.ts";
import { NodeWebhookSender } from "./doors/webhook/node-webhook.ts";
import type { Engine } from "./engine/contract.ts";
import { openDisk } from "./engine/disk/open.ts";
import { type Around, Keepers } from "./engine/keeper.ts";
import { openMemory } from "./engine/memory/memory.ts";
import { openRedis } from "./engine/redis/open.ts";
import type { RedisLimits } from "./engine/redis/options.ts";
import { Sweeper } from "./engine/sweeper.ts";
import type { LogOptions } from "./observe/log.ts";
import type { TracerProvider } from "./observe/traces.ts";
import { Watch } from "./observe/watch.ts";
import { realWorld } from "./real-world.ts";
import { Census } from "./streams/census.ts";
import { listStreams } from "./streams/listing.ts";
import { LiveRoutes } from "./streams/live-routes.ts";
import { streamMetrics } from "./streams/metrics.ts";
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
  /** JSON lines on standard error, another logger, or none. */
  readonly log: LogOptions | false;
  /** Where spans go; the global provider's way, if there is one, when undefined. */
  readonly tracing?: TracerProvider | false | undefined;
  /** Faults that no client is told about; they are logged when this is left out. */
  readonly report: (what: string, fault: unknown, requestId?: string) => void;
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
  log: { level: "info", requests: true },
  report: (what, fault) => console.error(what, fault),
};

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  /** Live readers and the streams they read; for tests and metrics. */
  readonly live: { readonly readers: number; readonly watchedStreams: number };
  /** What `GET /metrics` answers. */
  metrics(): Promise<string>;
  /** Logs what ends the process, and returns when that is written. */
  lastWords(what: string, fault: unknown): void;
  /** Finishes what is in flight, sends live readers home, flushes. */
  close(): Promise<void>;
}

export async function createServer(options: Partial<ServerOptions> = {}): Promise<RunningServer> {
  const world = realWorld();
  const clock = () => performance.now();
  const { log, tracing, data, redis } = { ...DEFAULTS, ...options };
  const kind = redis ? "redis" : data === undefined ? "memory" : "disk";
  const watch = new Watch({ log, tracing, report: options.report, world, clock, engine: kind });
  const settings = { ...DEFAULTS, ...options, report: watch.report };
  try {
    const engine = await openEngine(settings, world, clock);
    try {
      return await serve(settings, world, engine, watch);
    } catch (fault) {
      await engine.close();
      throw fault;
    }
  } catch (fault) {
    await watch.close();
    throw fault;
  }
}

async function openEngine({ redis, data }: ServerOptions, world: World, clock: () => number): Promise<Engine> {
  if (redis !== undefined) return openRedis({ urls: redis.urls, prefix: redis.prefix, world, limits: redis });
  return data === undefined ? openMemory({ world }) : openDisk({ dir: data, world, clock });
}

async function serve(settings: ServerOptions, world: World, engine: Engine, watch: Watch): Promise<RunningServer> {
  const app = buildApp(settings, world, engine, undefined, watch);
  const door = await HttpDoor.open({
    host: settings.host,
    port: settings.port,
    requestMs: settings.requestMs,
    handle: (request) => route(app.features, request),
    observer: watch.observer,
    report: (fault, request) => watch.reportRequest(fault, request),
  });
  watch.add(app.metrics);
  watch.addDoor(door);
  watch.followHealth(() => engine.health());
  app.start();
  const host = settings.host.includes(":") ? `[${settings.host}]` : settings.host;
  const url = `http://${host}:${door.port}`;
  watch.log.info("listening", { url, data: settings.data, pid: process.pid, node: process.versions.node });
  const close = async () => {
    const askedAt = world.now();
    watch.log.info("draining", { readers: app.live.readers, drainMs: settings.drainMs });
    const cancel = world.after(settings.drainMs, () => {
      watch.log.warn("the time to drain is up", { connections: door.connections });
      door.cut();
    });
    app.drain();
    await door.close();
    cancel();
    await app.stop();
    watch.stop();
    await engine.close();
    watch.log.info("stopped", { ms: world.now() - askedAt });
    await watch.close();
  };
  let closing: Promise<void> | undefined;
  return {
    url,
    port: door.port,
    live: app.live,
    metrics: () => watch.metrics(),
    lastWords: (what, fault) => watch.log.lastWords(what, fault),
    close: () => (closing ??= close()),
  };
}

/** What watches an app from outside, where somebody does. */
interface Watching {
  readonly around?: Around | undefined;
  metrics(): Promise<string>;
}

const UNWATCHED: Watching = { metrics: async () => "" };

/** Everything between an engine and a door; the simulator runs exactly this, with a sender of its own. */
export function buildApp(
  settings: ServerOptions,
  world: World,
  engine: Engine,
  sender: WebhookSender = new NodeWebhookSender({ world, allowLoopback: settings.webhookLoopback }),
  watching: Watching = UNWATCHED,
) {
  const keepers = new Keepers(engine, (task) => world.soon(task), undefined, undefined, watching.around);
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

  const census = new Census(engine, streams.meter, world);

  let draining = false;
  const notReady = () => (draining ? "the server is shutting down" : engine.health()?.message);
  const features: Features = {
    stream: (project, encodedPath, request) => routes.handle(project, parsePath(encodedPath), request),
    listStreams: (project, request) => listStreams(streams, project, request),
    control: (project, rest, request) => wakeRoutes.handle(project, rest, request),
    notReady,
    metrics: () => watching.metrics(),
  };
  return {
    features,
    streams,
    live,
    wakes,
    keys,
    metrics: [
      gauge("sluice_ready", "1 while the server takes requests, else 0.", () => (notReady() === undefined ? 1 : 0)),
      ...streamMetrics(streams.meter, live, census),
      ...wakes.metrics,
      ...keepers.meter.metrics(keepers),
      ...(engine.metrics?.() ?? []),
    ],
    start: () => {
      sweeper.start();
      wakes.start();
    },
    drain: () => {
      draining = true;
      live.drain();
    },
    stop: async () => {
      census.stop();
      await Promise.all([sweeper.stop(), wakes.stop()]);
    },
  };
}
