/**
 * The composition root: options in, running server out. The one place that knows every part, and the outermost one that may
 * touch the clock, timers and randomness (through `realWorld`).
 */
import { parsePath } from "./streams/parse.ts";
import type { World } from "./core/world.ts";
import { HttpDoor } from "./doors/http/node-adapter.ts";
import { type Features, route } from "./doors/http/router.ts";
import type { Engine, Entity } from "./engine/contract.ts";
import { openDisk } from "./engine/disk/open.ts";
import { Keepers } from "./engine/keeper.ts";
import { openMemory } from "./engine/memory/memory.ts";
import { Sweeper } from "./engine/sweeper.ts";
import { realWorld } from "./real-world.ts";
import { listStreams } from "./streams/listing.ts";
import { LiveRoutes } from "./streams/live-routes.ts";
import { StreamRoutes } from "./streams/routes.ts";
import { Streams } from "./streams/service.ts";
import { STREAM } from "./streams/state.ts";

export interface ServerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Where the data lives; undefined keeps everything in memory only. */
  readonly data?: string | undefined;
  readonly longPollMs: number;
  readonly drainMs: number;
  readonly sseMs: number;
  readonly bodyBytes: number;
  readonly pageBytes: number;
  readonly liveReaders: number;
  readonly slowReaderBytes: number;
  readonly requestMs: number;
  /** Faults that no client is told about. */
  readonly report: (what: string, fault: unknown) => void;
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
  const engine = settings.data === undefined ? await openMemory({ world }) : await openDisk({ dir: settings.data, world });
  try {
    return await serve(settings, world, engine);
  } catch (fault) {
    await engine.close();
    throw fault;
  }
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

/** Everything between an engine and a door; the simulator runs exactly this. */
export function buildApp(settings: ServerOptions, world: World, engine: Engine) {
  const keepers = new Keepers(engine, (task) => world.soon(task));
  const streams = new Streams(engine, keepers, world);
  const live = new LiveRoutes(streams, world, { ...settings, readers: settings.liveReaders });
  const routes = new StreamRoutes(streams, live, settings);
  const sweeper = new Sweeper(engine, world, (e: Entity, fault) => settings.report(`sweeping ${e.key} failed`, fault));
  sweeper.handle(STREAM, (e) => streams.sweep(e.project, e.id));

  let draining = false;
  const features: Features = {
    stream: async (project, encodedPath, request) => routes.handle(project, parsePath(encodedPath), request),
    listStreams: (project, request) => listStreams(streams, project, request),
    notReady: () => (draining ? "the server is shutting down" : engine.health()?.message),
  };
  return {
    features,
    streams,
    live,
    start: () => sweeper.start(),
    drain: () => {
      draining = true;
      live.drain();
    },
    stop: () => sweeper.stop(),
  };
}
