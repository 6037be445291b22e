/**
 * Live: full messages to the tabs that are connected, and for all others a pointer from which they read on. Compose calls it;
 * README.md explains why no message is missed.
 */
import type { Feeds } from "../core/feed.ts";
import { READING, route } from "../core/route.ts";
import { type Feature, type Kernel, kindOf } from "../feature.ts";
import type { StreamPage } from "../streams/reading.ts";
import type { Streams } from "../streams/service.ts";
import type { LiveLimits } from "./defaults.ts";
import { describeLive as describe } from "./describe.ts";
import { Hub } from "./hub.ts";
import { LiveMeter } from "./meter.ts";
import { liveMetrics } from "./metrics.ts";
import { Presence } from "./presence.ts";
import { PRESENCE } from "./presence-rules.ts";
import { Rolls } from "./rolls.ts";
import {
  HEARTBEAT_ADDRESS,
  LIVE_ADDRESS,
  LiveRoutes,
  OFFSETS_ADDRESS,
  PRESENCE_ADDRESS,
  SESSIONS_ADDRESS,
  SUBSCRIPTIONS_ADDRESS,
} from "./routes.ts";
import { CONNECT, HEARTBEAT, Live, MINT, OFFSETS, PRESENT, SUBSCRIBE, UNSUBSCRIBE } from "./service.ts";
import type { SessionPort } from "./session-port.ts";
import { LIVE_FOLLOWER, ROLL } from "./state.ts";
import type { Mac } from "./token.ts";
import { Tokens } from "./tokens.ts";

export interface LiveFeatureParts {
  readonly streams: Streams;
  readonly sessions: SessionPort;
  /** Shared with the other readers of streams. */
  readonly feeds: Feeds<StreamPage>;
  readonly mac: Mac;
}

export interface LiveFeatureSettings {
  readonly live: LiveLimits;
  /** The most bytes that are read of a log at a time. */
  readonly pageBytes: number;
}

/** The route of a permission: name, need, and that the token of the session suffices. */
const by = ({ action: name, need, bySession }: typeof MINT) => ({ name, need, bySession });

export function liveFeature(kernel: Kernel, settings: LiveFeatureSettings, parts: LiveFeatureParts) {
  const { engine, keepers, world, audience, report } = kernel;
  const { streams, sessions, feeds, mac } = parts;
  const { live: limits, pageBytes } = settings;
  const meter = new LiveMeter();
  const tokens = new Tokens({ engine, keepers, world, sessions, mac, limits });
  const rolls = new Rolls({ engine, keepers, world, streams, sessions, limits, meter, report });
  const service = new Live({ engine, world, streams, sessions, tokens, rolls, limits, meter });
  const presence = new Presence({ engine, keepers, world, limits, report });
  const reading = { engine, streams, feeds, pageBytes };
  const hub = new Hub({ ...reading, world, audience, sessions, rolls, presence, limits, meter, report });
  const routes = new LiveRoutes({ live: service, hub, audience, streams, presence, limits, report });
  sessions.onEnding((project, session, incarnation) => service.sessionEnding(project, session, incarnation));
  streams.onEvent(({ kind, project, path, follows }) => {
    if (kind !== "deleted" || follows?.[LIVE_FOLLOWER] === undefined) return;
    rolls.streamEnded(project, path).catch((fault) => {
      report(`removing the live subscriptions to ${path} failed; the sweep repeats it`, fault);
    });
  });
  return {
    title: "Live",
    kinds: [kindOf(ROLL, (e) => rolls.sweep(e)), kindOf(PRESENCE, (e) => presence.sweep(e))],
    routes: [
      route({
        ...by(MINT),
        methods: ["POST"],
        address: SESSIONS_ADDRESS,
        handle: (call, request) => routes.mint(call, request),
        describe: describe.mint,
      }),
      route({
        ...by(SUBSCRIBE),
        methods: ["POST"],
        address: SUBSCRIPTIONS_ADDRESS,
        handle: (call, request) => routes.subscribe(call, request),
        describe: describe.subscribe,
      }),
      route({
        ...by(UNSUBSCRIBE),
        methods: ["DELETE"],
        address: SUBSCRIPTIONS_ADDRESS,
        handle: (call, request) => routes.unsubscribe(call, request),
        describe: describe.unsubscribe,
      }),
      route({
        ...by(HEARTBEAT),
        methods: ["POST"],
        address: HEARTBEAT_ADDRESS,
        handle: (call, request) => routes.heartbeat(call, request),
        describe: describe.heartbeat,
      }),
      route({
        ...by(OFFSETS),
        methods: READING,
        address: OFFSETS_ADDRESS,
        handle: (call) => routes.offsets(call),
        describe: describe.offsets,
      }),
      route({
        ...by(PRESENT),
        methods: READING,
        address: PRESENCE_ADDRESS,
        handle: (call) => routes.presence(call),
        describe: describe.presence,
      }),
      route({
        ...by(CONNECT),
        methods: ["GET"],
        address: LIVE_ADDRESS,
        handle: (call, request) => routes.connect(call, request),
        staysOpen: () => true,
        describe: describe.connect,
      }),
    ],
    metrics: liveMetrics(meter, hub, rolls, presence),
    stop: () => {
      presence.stop();
      return rolls.stop();
    },
    service,
    hub,
    tokens,
    rolls,
    presence,
  } satisfies Feature & Record<string, unknown>;
}
