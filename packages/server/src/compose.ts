/**
 * The composition root: options in, running server out. The one place that knows every part, and the outermost one that may
 * touch the clock, timers and randomness (through `realWorld`).
 */

import { type Authorize, CallbackGate } from "./auth/authorize.ts";
import { keysFetcher } from "./auth/fetch-keys.ts";
import { type Gate, TokenGate } from "./auth/gate.ts";
import type { KeysFetcher } from "./auth/key-set.ts";
import { hasKeys } from "./auth/options.ts";
import { limitsFor } from "./channels/limits.ts";
import { ChannelRoutes } from "./channels/routes.ts";
import { Channels } from "./channels/service.ts";
import { CHANNEL } from "./channels/state.ts";
import { settingsFrom } from "./config/load.ts";
import { ConfigError } from "./config/problem.ts";
import type { Settings, SettingsInput } from "./config/schema.ts";
import { exposureOf } from "./config/together.ts";
import { Audience } from "./core/audience.ts";
import type { World } from "./core/world.ts";
import { cookieOrigins, corsDecorator, preflightHeaders } from "./doors/http/cors.ts";
import { handlersOf } from "./doors/http/handlers.ts";
import { HttpDoor } from "./doors/http/node-adapter.ts";
import { type Features, route } from "./doors/http/router.ts";
import { nodeEd25519 } from "./doors/webhook/node-ed25519.ts";
import { NodeWebhookSender } from "./doors/webhook/node-webhook.ts";
import type { Engine, Entity } from "./engine/contract.ts";
import { openDisk } from "./engine/disk/open.ts";
import { Keepers } from "./engine/keeper.ts";
import { openMemory } from "./engine/memory/memory.ts";
import { openRedis } from "./engine/redis/open.ts";
import { Sweeper } from "./engine/sweeper.ts";
import { realWorld } from "./real-world.ts";
import { listStreams } from "./streams/listing.ts";
import { LiveRoutes } from "./streams/live-routes.ts";
import { StreamRoutes } from "./streams/routes.ts";
import { Streams } from "./streams/service.ts";
import { STREAM } from "./streams/state.ts";
import type { WebhookSender } from "./wakes/delivery.ts";
import { SigningKeys } from "./wakes/keys.ts";
import { WakeRoutes } from "./wakes/routes.ts";
import { Wakes } from "./wakes/service.ts";
import { WAKE } from "./wakes/state.ts";

/** What another program may ask for: any setting, and what only code can give. Anything unknown or malformed is refused. */
export interface ServerOptions extends SettingsInput {
  /** Decides who may do what, instead of tokens. */
  readonly authorize?: Authorize | undefined;
  /** Faults that no client is told about. */
  readonly report?: Report | undefined;
}

/** Everything decided. */
export interface ServerSettings extends Settings {
  readonly report: Report;
  readonly authorize: Authorize | undefined;
}

type Report = (what: string, fault: unknown) => void;

/** Fills in the defaults. Throws a ConfigError that names everything that is wrong. */
export function withDefaults({ report, authorize, ...options }: ServerOptions = {}): ServerSettings {
  return { ...settingsFrom(options), authorize, report: report ?? ((what, fault) => console.error(what, fault)) };
}

export const DEFAULTS: ServerSettings = withDefaults();

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  /** Live readers and the streams they read; for tests and metrics. */
  readonly live: { readonly readers: number; readonly watchedStreams: number };
  /** Finishes what is in flight, sends live readers home, flushes. */
  close(): Promise<void>;
}

export async function createServer(options: ServerOptions = {}): Promise<RunningServer> {
  const settings = withDefaults(options);
  const exposure = exposureOf(settings, settings.authorize !== undefined);
  if (exposure.kind === "refused") throw new ConfigError([exposure.why]);
  const world = realWorld();
  const engine = await openEngine(settings, world);
  try {
    return await serve(settings, world, engine);
  } catch (fault) {
    await engine.close();
    throw fault;
  }
}

function openEngine(settings: ServerSettings, world: World): Promise<Engine> | Engine {
  const { urls, prefix, ...limits } = settings.redis;
  if (urls.length > 0) return openRedis({ urls, prefix, world, limits });
  if (settings.memory) return openMemory({ world });
  return openDisk({ dir: settings.data, world, limits: settings.disk });
}

async function serve(settings: ServerSettings, world: World, engine: Engine): Promise<RunningServer> {
  const app = buildApp(settings, world, engine);
  const door = await HttpDoor.open({
    ...settings.http,
    host: settings.host,
    port: settings.port,
    handle: (request) => route(app.features, request),
    decorate: corsDecorator(settings.cors),
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

/** Everything between an engine and a door; the simulator runs exactly this, with senders of its own. */
export function buildApp(
  settings: ServerSettings,
  world: World,
  engine: Engine,
  sender: WebhookSender = new NodeWebhookSender({ ...settings.webhook, world }),
  fetchKeys: KeysFetcher = keysFetcher(world),
) {
  const { report, stream: streamLimits, longPollMs, publicUrl, webhook, wake: wakeLimits } = settings;
  const keepers = new Keepers(engine, (task) => world.soon(task), settings.keeper.kept, settings.keeper);
  const streams = new Streams(engine, keepers, world, streamLimits);
  const audience = new Audience(settings.live.readers);
  const readerLimits = { ...settings.live, longPollMs, pageBytes: streamLimits.pageBytes };
  const live = new LiveRoutes(streams, world, readerLimits, audience);
  const routes = new StreamRoutes(streams, live, streamLimits);
  const failed = (e: Entity | undefined, fault: unknown) => report(`sweeping ${e?.key ?? ""} failed`, fault);
  const sweeper = new Sweeper(engine, world, failed, settings.sweep);
  sweeper.handle(STREAM, (e) => streams.sweep(e.project, e.id));
  const keys = new SigningKeys(engine, keepers, world, nodeEd25519, webhook, report);
  const wakes = new Wakes({ engine, keepers, streams, world, keys, sender, report, limits: wakeLimits });
  const { allowLoopback } = webhook;
  const wakeRoutes = new WakeRoutes(wakes, keys, { allowLoopback, publicUrl, limits: wakeLimits });
  sweeper.handle(WAKE, (e) => wakes.sweep(e.project, e.id));
  const channels = new Channels(engine, keepers, channelLimits(settings));
  const channelRoutes = new ChannelRoutes(channels, world, audience, readerLimits);
  sweeper.handle(CHANNEL, async (e) => void (await channels.sweep(e.project, e.id)));

  let draining = false;
  const features: Features = {
    gate: gateOf(settings, world, fetchKeys),
    handlers: handlersOf({
      streams: routes,
      listStreams: (project, request) => listStreams(streams, project, request, settings.list),
      wakes: wakeRoutes,
      channels: channelRoutes,
      notReady: () => (draining ? "the server is shutting down" : engine.health()?.message),
      limits: { wake: wakeLimits, list: settings.list, channel: settings.channel },
    }),
    preflight: preflightHeaders(settings.cors),
  };
  return {
    features,
    streams,
    live,
    wakes,
    keys,
    channels,
    channelRoutes,
    start: () => {
      sweeper.start();
      wakes.start();
    },
    drain: () => {
      draining = true;
      audience.drain();
    },
    stop: async () => {
      await Promise.all([sweeper.stop(), wakes.stop()]);
    },
  };
}

/** What projects have of their own goes before what holds for all. */
function channelLimits({ channel, projects }: ServerSettings) {
  const own = Object.entries(projects).flatMap(([name, { channel: limits }]) =>
    limits ? [[name, limits] as const] : [],
  );
  return limitsFor(channel, new Map(own));
}

/** Undefined when everybody may do everything. */
function gateOf(settings: ServerSettings, world: World, fetchKeys: KeysFetcher): Gate | undefined {
  if (settings.authorize !== undefined) return new CallbackGate(settings.authorize);
  const auth = { ...settings.auth, projects: settings.projects };
  if (auth.off || !Object.values(auth.projects).some(hasKeys)) return undefined;
  return new TokenGate({
    settings: auth,
    world,
    fetchKeys,
    cookieOrigins: cookieOrigins(settings.cors, settings.publicUrl),
    report: settings.report,
  });
}
