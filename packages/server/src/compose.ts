/**
 * The composition root: options in, running server out. The command line and embedding programs call `createServer`;
 * the simulator calls `buildApp`.
 *
 * Invariants: this is the only place that knows every part, and the outermost one that touches the clock, timers and
 * randomness (through `realWorld`).
 */

import { CallbackIdentity } from "./auth/callback-identity.ts";
import { keysFetcher } from "./auth/fetch-keys.ts";
import { type Identity, OpenIdentity, TokenIdentity } from "./auth/identity.ts";
import type { KeysFetcher } from "./auth/key-set.ts";
import { hasKeys } from "./auth/options.ts";
import { SessionTokenIdentity } from "./auth/session-tokens.ts";
import type { ProjectLimits } from "./channels/defaults.ts";
import { channelsFeature } from "./channels/feature.ts";
import { exposureOf, isLocal as isLocalServer } from "./config/cross-checks.ts";
import { ConfigError } from "./config/problem.ts";
import { type Limits, limitsOf } from "./config/schema.ts";
import { Audience } from "./core/audience.ts";
import { Deadlines } from "./core/deadlines.ts";
import { Feeds } from "./core/feed.ts";
import { gauge } from "./core/metric.ts";
import type { World } from "./core/world.ts";
import { ConnectionRoom } from "./doors/connection-room.ts";
import { openGrpc } from "./doors/grpc/grpc-door.ts";
import { cookieOrigins, corsDecorator, preflightHeaders } from "./doors/http/cors.ts";
import { HttpDoor } from "./doors/http/http-door.ts";
import { connectionsWithin, openFiles } from "./doors/http/node-connection-cap.ts";
import type { Mounted } from "./doors/http/node-mount.ts";
import { headersOnTheWire } from "./doors/http/openapi.ts";
import { pageRuleOf } from "./doors/http/page-rule.ts";
import { Router } from "./doors/http/router.ts";
import { serverFeature } from "./doors/http/server-routes.ts";
import { Certificate } from "./doors/tls/certificate.ts";
import { nodeEd25519 } from "./doors/webhook/node-ed25519.ts";
import { NodeWebhookSender } from "./doors/webhook/node-webhook.ts";
import { EmbeddedProjects, type EmbeddedStreams } from "./embed/embedded-streams.ts";
import type { Engine, Entity } from "./engine/contract.ts";
import { type Around, Keepers } from "./engine/keeper.ts";
import { Sweeper } from "./engine/sweeper.ts";
import type { Feature, Kernel } from "./feature.ts";
import { groupsFeature } from "./groups/feature.ts";
import { liveFeature } from "./live/feature.ts";
import { Watch } from "./observe/watch.ts";
import { pullFeature } from "./pull/feature.ts";
import { hmacSha256, realWorld } from "./real-world.ts";
import { type ServerOptions, type ServerSettings, withDefaults } from "./server-options.ts";
import { sessionsFeature } from "./sessions/feature.ts";
import type { StreamPort } from "./sessions/stream-port.ts";
import { streamsFeature } from "./streams/feature.ts";
import type { StreamPage } from "./streams/reading.ts";
import { wakesFeature } from "./wakes/feature.ts";
import type { WebhookSender } from "./wakes/webhook-delivery.ts";

export interface RunningServer extends Mounted {
  /** The address that it listens on; empty, with port 0, if it was told not to listen. */
  readonly url: string;
  readonly port: number;
  /**
   * Serves below a prefix of another server of `node:http`, as `handler` and `upgrade` do without one. The prefix starts with a
   * slash. Throws a ConfigError for a server without keys, because another server may be open to other machines.
   */
  mount(prefix?: string): Mounted;
  /** The streams of the project `default`, in this process. */
  readonly streams: EmbeddedStreams;
  streamsOf(project: string): EmbeddedStreams;
  /** Undefined while no port for gRPC is open. */
  readonly grpcPort: number | undefined;
  /** Clients that wait at the tail of a stream, and the streams they read; for tests and metrics. */
  readonly tail: { readonly readers: number; readonly watchedStreams: number };
  /** The body of `GET /metrics`. */
  metrics(): Promise<string>;
  /** Logs the fault that ends the process, and returns when it is written. */
  lastWords(what: string, fault: unknown): void;
  /** Completes the requests in flight, disconnects live readers, and flushes. */
  close(): Promise<void>;
}

/** Only tests pass an `outside`. */
export async function createServer(options: ServerOptions = {}, outside: TestOutside = {}): Promise<RunningServer> {
  const asked = withDefaults(options);
  const exposure = exposureOf(asked, asked.authorize !== undefined, "options");
  if (exposure.kind === "refused") throw new ConfigError([exposure.why]);
  const certificate = certificateOf(asked);
  const world = realWorld();
  const clock = () => world.monotonicMs();
  const { log, tracing } = asked;
  const { metrics: limits } = limitsOf(asked);
  const watch = new Watch({ log, tracing, report: options.report, world, clock, engine: engineOf(asked), limits });
  const settings = { ...asked, report: watch.report };
  try {
    const engine = await openEngine(settings, world, watch);
    try {
      return await serve(settings, world, engine, watch, certificate, outside);
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

function certificateOf(settings: ServerSettings): Certificate | undefined {
  const { cert, key, ...limits } = limitsOf(settings).tls;
  if (cert === undefined || key === undefined) return undefined;
  try {
    return Certificate.read({ cert, key }, limits);
  } catch (fault) {
    throw new ConfigError([(fault as Error).message]);
  }
}

/** Loads only the engine that is asked for, because loading all three doubles the time of a start. */
async function openEngine(settings: ServerSettings, world: World, { log }: Pick<Watch, "log">): Promise<Engine> {
  const { engine: bounds, disk, redis: onRedis } = limitsOf(settings);
  const { urls, prefix, ...redis } = onRedis;
  const limits = { ...redis, pageMessages: bounds.pageMessages };
  const warn = (what: string, details: object = {}) => log.warn(what, details);
  if (urls.length > 0) {
    const { openRedis } = await import("./engine/redis/open.ts");
    return openRedis({ urls, prefix, world, limits, warn });
  }
  if (settings.memory) {
    const { openMemory } = await import("./engine/memory/memory.ts");
    return openMemory({ world, bounds });
  }
  const { openDisk } = await import("./engine/disk/open.ts");
  const info = (what: string, details: object) => log.info(what, details);
  return openDisk({ dir: settings.data, world, limits: { ...disk, ...bounds }, warn, info });
}

async function serve(
  settings: ServerSettings,
  world: World,
  engine: Engine,
  watch: Watch,
  certificate: Certificate | undefined,
  outside: TestOutside,
): Promise<RunningServer> {
  const app = buildApp(settings, outside.world ?? world, engine, { ...outside, watching: watch });
  const { http, grpc: grpcLimits } = limitsOf(settings);
  const warn = (what: string, details: object) => watch.log.warn(what, details);
  const room = new ConnectionRoom(connectionsWithin(http.connections, openFiles(), warn));
  const door = await HttpDoor.open({
    ...http,
    room,
    secure: certificate?.secure("http/1.1"),
    host: settings.host,
    port: settings.listen === false ? undefined : settings.port,
    handle: (request) => app.router.route(request),
    owns: (path) => app.router.owns(path),
    staysOpen: (path, search) => app.router.staysOpen(path, search),
    decorate: app.decorate,
    observer: watch.observer,
    deadlines: engine.deadline && new Deadlines(world, engine.deadline.ms),
    report: (fault, request) => watch.reportRequest(fault, request),
  });
  const grpc = await openGrpc(
    settings.grpcPort,
    {
      ...app,
      host: settings.host,
      service: app.pull.service,
      engine,
      limits: grpcLimits,
      // Half of all connections stay for HTTP.
      room: room.part(Math.min(grpcLimits.connections, Math.ceil(room.most / 2))),
      secure: certificate?.secure("h2"),
      memory: door.memory,
      observer: watch.grpcObserver,
      report: watch.report,
    },
    warn,
  ).catch(async (fault) => {
    await door.close();
    throw fault;
  });
  watch.add(app.metrics);
  watch.addDoor(door);
  if (grpc !== undefined) watch.addGrpcDoor(grpc);
  certificate?.follow(world, {
    renewed: (until) => watch.log.info("the renewed certificate is in use", { until }),
    refused: (why) => watch.log.warn("the certificate's files changed and cannot be used; the old one stays", { why }),
  });
  watch.followHealth(() => engine.health());
  app.start();
  const host = settings.host.includes(":") ? `[${settings.host}]` : settings.host;
  const scheme = certificate === undefined ? "http" : "https";
  const url = settings.listen === false ? "" : `${scheme}://${host}:${door.port}`;
  const grpcPort = grpc?.port;
  const mount = (prefix = "") => {
    const exposure = exposureOf(settings, settings.authorize !== undefined, "options");
    if (exposure.kind === "local") throw new ConfigError([MOUNTED_WITHOUT_KEYS]);
    return door.mount(prefix);
  };
  // Not before it is used, because a server without keys must not be mounted.
  let mountedAtRoot: Mounted | undefined;
  const atRoot = () => (mountedAtRoot ??= mount());
  const embedded = new EmbeddedProjects(app.streams);
  watch.log.info(url === "" ? "ready" : "listening", {
    url,
    grpcPort,
    engine: engineOf(settings),
    pid: process.pid,
    node: process.versions.node,
  });
  const close = async () => {
    const askedAt = world.monotonicMs();
    watch.log.info("draining", { readers: app.tail.readers, drainMs: settings.drainMs });
    const cancel = world.after(settings.drainMs, () => {
      const connections = door.connections + (grpc?.connections ?? 0);
      watch.log.warn("the time to drain is up; open connections are cut", { connections });
      door.cut();
      grpc?.cut();
    });
    embedded.close();
    app.drain();
    await Promise.all([door.close(), grpc?.close()]);
    cancel();
    certificate?.stop();
    await app.stop();
    watch.stop();
    await engine.close();
    watch.log.info("stopped", { ms: Math.round(world.monotonicMs() - askedAt) });
    await watch.close();
  };
  let closing: Promise<void> | undefined;
  return {
    url,
    port: door.port,
    grpcPort,
    mount,
    handler: (...request) => atRoot().handler(...request),
    upgrade: (...request) => atRoot().upgrade(...request),
    streams: embedded.of("default"),
    streamsOf: (project) => embedded.of(project),
    tail: app.tail,
    metrics: () => watch.metrics(),
    lastWords: (what, fault) => watch.log.lastWords(what, fault),
    close: () => (closing ??= close()),
  };
}

const MOUNTED_WITHOUT_KEYS =
  "no keys are configured, and the server that this one is mounted in may be open to other machines: give a project a secret (projects.default.secrets), or authorize, or set auth.off to true if that is meant";

/** What watches an app from outside, if anything does. */
interface Watching {
  readonly around?: Around | undefined;
  metrics(): Promise<string>;
}

/** What an app reaches outside of its engine, and what watches it. */
export interface Outside {
  /** Wraps the port through which fan-out commits to streams and inboxes; tests inject faults here. */
  readonly streamPortOf?: (local: StreamPort) => StreamPort;
  readonly sender?: WebhookSender;
  readonly fetchKeys?: KeysFetcher;
  readonly watching?: Watching;
}

/** The replacements in a test of a whole server, and the clock of its app. The engine keeps the real clock. */
export interface TestOutside extends Omit<Outside, "watching"> {
  readonly world?: World;
}

const UNWATCHED: Watching = { metrics: async () => "" };

/** Everything between an engine and a door. The simulator runs exactly this, with an outside of its own. */
export function buildApp(given: ServerSettings, world: World, engine: Engine, outside: Outside = {}) {
  const settings = limitsOf(given);
  const { report } = settings;
  const {
    sender = new NodeWebhookSender({ ...settings.webhook, world }),
    fetchKeys = keysFetcher(world, settings.auth.jwksBytes),
    watching = UNWATCHED,
    streamPortOf = (local) => local,
  } = outside;
  const keepers = new Keepers(
    engine,
    (task) => world.soon(task),
    settings.keeper.kept,
    settings.keeper,
    watching.around,
  );
  const audience = new Audience(settings.tail.readers, settings.projectSharePercent);
  const kernel: Kernel = { engine, keepers, world, audience, report };

  const feeds = new Feeds<StreamPage>();
  const streamSettings = {
    stream: settings.stream,
    list: settings.list,
    tail: { ...settings.tail, longPollMs: settings.longPollMs },
    census: settings.census,
  };
  const streams = streamsFeature(kernel, streamSettings, feeds);
  const wakes = wakesFeature(kernel, settings, { streams: streams.service, sender, ed25519: nodeEd25519 });
  const sessions = sessionsFeature(
    kernel,
    { ...settings, session: { ...settings.session, ttlSeconds: settings.sessionTtlSeconds } },
    { streams: streams.service, streamPortOf, onEvent: settings.onSessionEvent },
  );
  const channels = channelsFeature(kernel, {
    channel: settings.channel,
    projects: ownChannelLimits(settings),
    readers: { ...settings.tail, pageBytes: settings.stream.pageBytes },
  });

  const live = liveFeature(
    kernel,
    { live: settings.live, pageBytes: settings.stream.pageBytes },
    { streams: streams.service, sessions: sessions.service, feeds, mac: hmacSha256 },
  );

  const groups = groupsFeature(kernel, settings.group, { streams: streams.service });
  const pull = pullFeature(kernel, settings.pull, { streams: streams.service });

  let draining = false;
  const notReady = () => (draining ? "the server is shutting down" : engine.health()?.message);
  const server = serverFeature({ notReady, metrics: () => watching.metrics(), features: () => features });
  const features: readonly Feature[] = [streams, wakes, sessions, channels, live, groups, pull, server];
  const wire = headersOnTheWire(features);

  const failed = (e: Entity | undefined, fault: unknown) => report(`sweeping ${e?.key ?? ""} failed`, fault);
  const sweeper = new Sweeper(engine, world, failed, settings.sweep);
  for (const kind of features.flatMap(({ kinds = [] }) => kinds)) sweeper.handle(kind);

  const identity = identityOf(settings, world, fetchKeys);
  const isLocal = isLocalServer(settings, settings.authorize !== undefined);
  const withSessionTokens = new SessionTokenIdentity(identity, live.tokens, () => engine.now());
  return {
    router: new Router({
      features,
      identity: withSessionTokens,
      cookieOrigins: cookieOrigins(settings.cors, settings.publicUrl),
      preflight: preflightHeaders(settings.cors, wire.asked),
      pages: pageRuleOf({ ...settings, isLocal }),
    }),
    decorate: corsDecorator(settings.cors, wire.told, isLocal),
    features,
    world,
    audience,
    identity,
    // For tests and the simulator.
    streams: streams.service,
    tail: streams.tail,
    wakes: wakes.service,
    keys: wakes.keys,
    sessions,
    channels: channels.service,
    channelRoutes: channels.readers,
    live,
    groups,
    pull,
    metrics: [
      gauge("sluice_ready", "1 while the server takes requests, else 0.", () => (notReady() === undefined ? 1 : 0)),
      ...features.flatMap(({ metrics = [] }) => metrics),
      ...keepers.meter.metrics(keepers),
      ...(engine.metrics?.() ?? []),
    ],
    /** One pass over every due entity, as the started sweeper does periodically. */
    sweep: () => sweeper.sweepAll(),
    start: () => {
      sweeper.start();
      for (const feature of features) feature.start?.();
    },
    drain: () => {
      draining = true;
      audience.drain();
      for (const feature of features) feature.drain?.();
    },
    stop: async () => {
      await Promise.all([sweeper.stop(), ...features.map((feature) => feature.stop?.())]);
    },
  };
}

function ownChannelLimits({ projects }: Pick<ServerSettings, "projects">): ReadonlyMap<string, ProjectLimits> {
  return new Map(
    Object.entries(projects).flatMap(([name, { channel }]) => (channel ? [[name, channel] as const] : [])),
  );
}

function identityOf(
  settings: Omit<ServerSettings, keyof Limits> & Limits,
  world: World,
  fetchKeys: KeysFetcher,
): Identity {
  if (settings.authorize !== undefined) return new CallbackIdentity(settings.authorize);
  const auth = { ...settings.auth, projects: settings.projects };
  if (auth.off || !Object.values(auth.projects).some(hasKeys)) return new OpenIdentity();
  return new TokenIdentity({ settings: auth, world, fetchKeys, report: settings.report });
}
