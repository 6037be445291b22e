/**
 * The composition root: options in, running server out. The one place that knows every part, and the outermost one that may
 * touch the clock, timers and randomness (through `realWorld`).
 */

import { performance } from "node:perf_hooks";
import { type Authorize, CallbackGate } from "./auth/authorize.ts";
import { keysFetcher } from "./auth/fetch-keys.ts";
import { type Gate, TokenGate } from "./auth/gate.ts";
import type { KeysFetcher } from "./auth/key-set.ts";
import { hasKeys } from "./auth/options.ts";
import { limitsFor } from "./channels/limits.ts";
import { channelMetrics } from "./channels/metrics.ts";
import { ChannelRoutes } from "./channels/routes.ts";
import { Channels } from "./channels/service.ts";
import { CHANNEL } from "./channels/state.ts";
import { settingsFrom } from "./config/load.ts";
import { ConfigError } from "./config/problem.ts";
import type { Settings, SettingsInput } from "./config/schema.ts";
import { exposureOf } from "./config/together.ts";
import { Audience } from "./core/audience.ts";
import { Deadlines } from "./core/deadlines.ts";
import { gauge } from "./core/metric.ts";
import type { World } from "./core/world.ts";
import { cookieOrigins, corsDecorator, preflightHeaders } from "./doors/http/cors.ts";
import { handlersOf } from "./doors/http/handlers.ts";
import { HttpDoor } from "./doors/http/node-adapter.ts";
import { type Features, route } from "./doors/http/router.ts";
import { nodeEd25519 } from "./doors/webhook/node-ed25519.ts";
import { NodeWebhookSender } from "./doors/webhook/node-webhook.ts";
import type { Engine, Entity } from "./engine/contract.ts";
import { openDisk } from "./engine/disk/open.ts";
import { type Around, Keepers } from "./engine/keeper.ts";
import { openMemory } from "./engine/memory/memory.ts";
import { openRedis } from "./engine/redis/open.ts";
import { Sweeper } from "./engine/sweeper.ts";
import type { LogOptions } from "./observe/log.ts";
import type { TracerProvider } from "./observe/traces.ts";
import { Watch } from "./observe/watch.ts";
import { realWorld } from "./real-world.ts";
import { type CoreService, LocalCore } from "./sessions/core-service.ts";
import { FanoutMeter } from "./sessions/delivery.ts";
import { Events, type MetricSink } from "./sessions/events.ts";
import { Fanout } from "./sessions/fanout.ts";
import { sessionMetrics } from "./sessions/metrics.ts";
import { LocalQueue } from "./sessions/queue.ts";
import { SessionRoutes } from "./sessions/routes.ts";
import { Sessions } from "./sessions/service.ts";
import { FANOUT } from "./sessions/state.ts";
import { Census } from "./streams/census.ts";
import type { CensusLimits } from "./streams/limits.ts";
import { listStreams } from "./streams/listing.ts";
import { streamMetrics } from "./streams/metrics.ts";
import { StreamRoutes } from "./streams/routes.ts";
import { Streams } from "./streams/service.ts";
import { SESSION, STREAM } from "./streams/state.ts";
import { TailRoutes } from "./streams/tail-routes.ts";
import type { WebhookSender } from "./wakes/delivery.ts";
import { SigningKeys } from "./wakes/keys.ts";
import { WakeRoutes } from "./wakes/routes.ts";
import { Wakes } from "./wakes/service.ts";
import { WAKE } from "./wakes/state.ts";

/** What another program may ask for: any setting, and what only code can give. Anything unknown or malformed is refused. */
export interface ServerOptions extends Omit<SettingsInput, "log"> {
  /** Decides who may do what, instead of tokens. */
  readonly authorize?: Authorize | undefined;
  /** JSON lines on standard error, a logger of the program's own, or nothing. */
  readonly log?: LogOptions | false | undefined;
  /** Where spans go; when undefined, to the global provider, if there is one. */
  readonly tracing?: TracerProvider | false | undefined;
  /** Faults that no client is told about; they are logged when this is left out. */
  readonly report?: Report | undefined;
  /** Gets a data point for everything that happens to sessions. Must not throw. */
  readonly onSessionEvent?: MetricSink | undefined;
}

/** Everything decided. */
export interface ServerSettings extends Omit<Settings, "log"> {
  readonly log: LogOptions | false;
  readonly tracing?: TracerProvider | false | undefined;
  readonly report: Report;
  readonly authorize: Authorize | undefined;
  readonly onSessionEvent?: MetricSink | undefined;
}

type Report = (what: string, fault: unknown, requestId?: string) => void;

/** Fills in the defaults. Throws a ConfigError that names everything that is wrong. */
export function withDefaults(given: ServerOptions = {}): ServerSettings {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new ConfigError(["the options must be an object, like { port: 8080 }"]);
  }
  const { report, authorize, log, tracing, onSessionEvent, ...options } = given;
  const { logger, ...lines } = log || {};
  const settings = settingsFrom({ ...options, log: lines });
  return {
    ...settings,
    authorize,
    log: log === false ? false : { ...settings.log, ...(logger && { logger }) },
    ...(tracing !== undefined && { tracing }),
    ...(onSessionEvent !== undefined && { onSessionEvent }),
    report: report ?? ((what, fault) => console.error(what, fault)),
  };
}

export const DEFAULTS: ServerSettings = withDefaults();

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  /** Clients that wait at the tail of a log, and the streams among those; for tests and metrics. */
  readonly tail: { readonly readers: number; readonly watchedStreams: number };
  /** What `GET /metrics` answers. */
  metrics(): Promise<string>;
  /** Logs what ends the process, and returns when that is written. */
  lastWords(what: string, fault: unknown): void;
  /** Finishes what is in flight, sends live readers home, flushes. */
  close(): Promise<void>;
}

/** Only tests give an `outside`. */
export async function createServer(options: ServerOptions = {}, outside: TestOutside = {}): Promise<RunningServer> {
  const asked = withDefaults(options);
  const exposure = exposureOf(asked, asked.authorize !== undefined);
  if (exposure.kind === "refused") throw new ConfigError([exposure.why]);
  const world = realWorld();
  const clock = () => performance.now();
  const { log, tracing, metrics: limits } = asked;
  const watch = new Watch({ log, tracing, report: options.report, world, clock, engine: engineOf(asked), limits });
  const settings = { ...asked, report: watch.report };
  try {
    const engine = await openEngine(settings, world, clock, watch);
    try {
      return await serve(settings, world, engine, watch, outside);
    } catch (fault) {
      await engine.close();
      throw fault;
    }
  } catch (fault) {
    await watch.close();
    throw fault;
  }
}

function engineOf({ redis, memory }: ServerSettings): string {
  return redis.urls.length > 0 ? "redis" : memory ? "memory" : "disk";
}

function openEngine(
  settings: ServerSettings,
  world: World,
  clock: () => number,
  { log }: Pick<Watch, "log">,
): Promise<Engine> | Engine {
  const { engine: bounds } = settings;
  const { urls, prefix, ...redis } = settings.redis;
  const limits = { ...redis, pageMessages: bounds.pageMessages };
  const warn = (what: string, details: object = {}) => log.warn(what, details);
  if (urls.length > 0) return openRedis({ urls, prefix, world, limits, clock, warn });
  if (settings.memory) return openMemory({ world, bounds });
  return openDisk({ dir: settings.data, world, limits: { ...settings.disk, ...bounds }, clock, warn });
}

async function serve(
  settings: ServerSettings,
  world: World,
  engine: Engine,
  watch: Watch,
  outside: TestOutside,
): Promise<RunningServer> {
  const app = buildApp(settings, outside.world ?? world, engine, { ...outside, watching: watch });
  const door = await HttpDoor.open({
    ...settings.http,
    host: settings.host,
    port: settings.port,
    handle: (request) => route(app.features, request),
    decorate: corsDecorator(settings.cors),
    observer: watch.observer,
    deadlines: engine.deadline && new Deadlines(world, engine.deadline.ms),
    report: (fault, request) => watch.reportRequest(fault, request),
  });
  watch.add(app.metrics);
  watch.addDoor(door);
  watch.followHealth(() => engine.health());
  app.start();
  const host = settings.host.includes(":") ? `[${settings.host}]` : settings.host;
  const url = `http://${host}:${door.port}`;
  watch.log.info("listening", { url, engine: engineOf(settings), pid: process.pid, node: process.versions.node });
  const close = async () => {
    const askedAt = world.now();
    watch.log.info("draining", { readers: app.tail.readers, drainMs: settings.drainMs });
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
    tail: app.tail,
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

/** What an app reaches outside of its engine, and who looks at it. */
export interface Outside {
  /** Stands between fan-out and the streams it copies into. */
  readonly coreOf?: (local: CoreService) => CoreService;
  readonly sender?: WebhookSender;
  readonly fetchKeys?: KeysFetcher;
  readonly watching?: Watching;
}

/** What stands in for that in a test of a whole server, and the clock that its app goes by; the engine keeps to the real one. */
export interface TestOutside extends Omit<Outside, "watching"> {
  readonly world?: World;
}

const UNWATCHED: Watching = { metrics: async () => "" };

/** Everything between an engine and a door; the simulator runs exactly this, with an outside of its own. */
export function buildApp(
  settings: ServerSettings,
  world: World,
  engine: Engine,
  {
    sender = new NodeWebhookSender({ ...settings.webhook, world }),
    fetchKeys = keysFetcher(world, settings.auth.jwksBytes),
    watching = UNWATCHED,
    coreOf = (local) => local,
  }: Outside = {},
) {
  const { report, stream: streamLimits, longPollMs, publicUrl, webhook, wake: wakeLimits } = settings;
  const soon = (task: () => void) => world.soon(task);
  const keepers = new Keepers(engine, soon, settings.keeper.kept, settings.keeper, watching.around);
  const streams = new Streams(engine, keepers, world, streamLimits);
  const audience = new Audience(settings.tail.readers);
  const readerLimits = { ...settings.tail, longPollMs, pageBytes: streamLimits.pageBytes };
  const tail = new TailRoutes(streams, world, readerLimits, audience);
  const routes = new StreamRoutes(streams, tail, streamLimits);
  const failed = (e: Entity | undefined, fault: unknown) => report(`sweeping ${e?.key ?? ""} failed`, fault);
  const sweeper = new Sweeper(engine, world, failed, settings.sweep);
  sweeper.handle(STREAM, (e) => streams.sweep(e.project, e.id));
  const keys = new SigningKeys(engine, keepers, world, nodeEd25519, webhook, report);
  const wakes = new Wakes({ engine, keepers, streams, world, keys, sender, report, limits: wakeLimits });
  const { allowLoopback } = webhook;
  const wakeRoutes = new WakeRoutes(wakes, keys, { allowLoopback, publicUrl, limits: wakeLimits });
  sweeper.handle(WAKE, (e) => wakes.sweep(e.project, e.id));
  const sessions = buildSessions(settings, world, engine, keepers, streams, routes, coreOf);
  sweeper.handleTogether(SESSION, settings.session.cleanupSessions, (es) => sessions.service.sweep(es));
  sweeper.handle(FANOUT, (e) => sessions.fanout.sweep(e));
  const channels = new Channels(engine, keepers, channelLimits(settings));
  const channelRoutes = new ChannelRoutes(channels, world, audience, readerLimits);
  sweeper.handle(CHANNEL, async (e) => void (await channels.sweep(e.project, e.id)));

  const census = new Census(engine, streams.meter, world, censusLimits(settings));

  let draining = false;
  const notReady = () => (draining ? "the server is shutting down" : engine.health()?.message);
  const features: Features = {
    gate: gateOf(settings, world, fetchKeys),
    handlers: handlersOf({
      streams: routes,
      listStreams: (project, request) => listStreams(streams, project, request, settings.list),
      wakes: wakeRoutes,
      sessions: sessions.routes,
      channels: channelRoutes,
      notReady,
      metrics: () => watching.metrics(),
      limits: { wake: wakeLimits, list: settings.list, channel: settings.channel },
    }),
    preflight: preflightHeaders(settings.cors),
  };
  return {
    features,
    streams,
    tail,
    wakes,
    keys,
    sessions,
    channels,
    channelRoutes,
    metrics: [
      gauge("sluice_ready", "1 while the server takes requests, else 0.", () => (notReady() === undefined ? 1 : 0)),
      ...streamMetrics(streams.meter, tail, census),
      ...wakes.metrics,
      ...sessions.metrics,
      ...channelMetrics(channels, channelRoutes),
      ...keepers.meter.metrics(keepers),
      ...(engine.metrics?.() ?? []),
    ],
    /** One pass over everything that is due, as it happens by itself once started. */
    sweep: () => sweeper.sweepAll(),
    start: () => {
      sweeper.start();
      wakes.start();
      sessions.fanout.start();
    },
    drain: () => {
      draining = true;
      audience.drain();
    },
    stop: async () => {
      census.stop();
      await Promise.all([sweeper.stop(), wakes.stop(), sessions.fanout.stop()]);
    },
  };
}

function buildSessions(
  settings: ServerSettings,
  world: World,
  engine: Engine,
  keepers: Keepers,
  streams: Streams,
  streamRoutes: StreamRoutes,
  coreOf: (local: CoreService) => CoreService,
) {
  const { report } = settings;
  const limits = { ...settings.session, ttlSeconds: settings.sessionTtlSeconds };
  const events = new Events(settings.onSessionEvent);
  const core = coreOf(new LocalCore(streams, keepers, limits));
  const copying = { engine, core, world, limits: settings.fanout, meter: new FanoutMeter() };
  const queue = new LocalQueue({ ...copying, appends: () => streams.meter.appends.appended });
  const fanout = new Fanout({ ...copying, keepers, streams, queue, events, report });
  const service = new Sessions({ engine, keepers, streams, core, fanout, world, limits, events, report });
  const routes = new SessionRoutes({ sessions: service, fanout, streams: streamRoutes, events, world, limits });
  return { service, fanout, events, routes, metrics: sessionMetrics(events, fanout, queue) };
}

function censusLimits({ metrics }: ServerSettings): CensusLimits {
  const { countPage, countPauseMs, countKeepMs, countKeepFactor } = metrics;
  return { page: countPage, pauseMs: countPauseMs, keepMs: countKeepMs, keepFactor: countKeepFactor };
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
