/**
 * Sessions: an inbox per tab or device, which receives one copy of every message of the streams it subscribes to.
 * Compose calls it; fanout.ts explains how copies are made.
 */
import { type AddressName, READING, route } from "../core/route.ts";
import { type Feature, type Kernel, kindOf } from "../feature.ts";
import type { StreamLimits } from "../streams/defaults.ts";
import type { Streams } from "../streams/service.ts";
import { SESSION } from "../streams/state.ts";
import type { FanoutLimits, SessionLimits } from "./defaults.ts";
import { FanoutMeter } from "./delivery.ts";
import { describeSessions as describe } from "./describe.ts";
import { Events, type MetricSink } from "./events.ts";
import { Fanout } from "./fanout.ts";
import { sessionMetrics } from "./metrics.ts";
import { LocalQueue } from "./queue.ts";
import {
  PUBLISH_ADDRESS,
  parseSessionId,
  SESSION_ADDRESS,
  SESSIONS_ADDRESS,
  SessionRoutes,
  SUBSCRIBE_ADDRESS,
  UNSUBSCRIBE_ADDRESS,
} from "./routes.ts";
import { Sessions, SUBSCRIBE, UNSUBSCRIBE } from "./service.ts";
import { FANOUT } from "./state.ts";
import { LocalStreamPort, type StreamPort } from "./stream-port.ts";

export interface SessionSettings {
  readonly session: SessionLimits;
  readonly fanout: FanoutLimits;
  readonly stream: Pick<StreamLimits, "bodyBytes">;
}

export interface SessionFeatureParts {
  readonly streams: Streams;
  /** Wraps the port through which fan-out commits to streams and inboxes. Tests inject faults here. */
  readonly streamPortOf: (local: StreamPort) => StreamPort;
  readonly onEvent?: MetricSink | undefined;
}

const session: AddressName = {
  says: "The id of a session, a UUID.",
  read(encoded, names) {
    names.session = parseSessionId(encoded);
  },
};

export function sessionsFeature(kernel: Kernel, settings: SessionSettings, parts: SessionFeatureParts) {
  const { engine, keepers, world, report } = kernel;
  const { streams, onEvent, streamPortOf } = parts;
  const { session: limits } = settings;
  const events = new Events(onEvent);
  const port = streamPortOf(new LocalStreamPort(streams, keepers, limits));
  const copying = { engine, port, world, limits: settings.fanout, meter: new FanoutMeter() };
  const queue = new LocalQueue({ ...copying, appends: () => streams.meter.appends.appended });
  const fanout = new Fanout({ ...copying, keepers, streams, queue, events, report });
  const service = new Sessions({ engine, keepers, streams, port, fanout, world, limits, events, report });
  streams.guardInboxes((project, path, access) => service.demandReader(project, path, access));
  const routes = new SessionRoutes({ sessions: service, events, world, limits, streamLimits: settings.stream });
  return {
    title: "Sessions",
    kinds: [
      { kind: SESSION, batch: limits.cleanupSessions, sweep: (entities) => service.sweep(entities) },
      kindOf(FANOUT, (e) => fanout.sweep(e)),
    ],
    names: { session },
    routes: [
      route({
        name: SUBSCRIBE.action,
        methods: ["POST"],
        address: SUBSCRIBE_ADDRESS,
        need: SUBSCRIBE.need,
        handle: (call, request) => routes.subscribe(call, request),
        describe: describe.subscribe,
      }),
      route({
        name: UNSUBSCRIBE.action,
        methods: ["DELETE"],
        address: UNSUBSCRIBE_ADDRESS,
        need: UNSUBSCRIBE.need,
        handle: (call, request) => routes.unsubscribe(call, request),
        describe: describe.unsubscribe,
      }),
      route({
        name: "publish",
        methods: ["POST"],
        address: PUBLISH_ADDRESS,
        need: "write",
        handle: (call, request) => routes.publish(call, request),
        describe: describe.publish,
      }),
      route({
        name: "sessions.list",
        methods: READING,
        address: SESSIONS_ADDRESS,
        need: "admin",
        handle: (call, request) => routes.list(call, request),
        describe: describe["sessions.list"],
      }),
      route({
        name: "session.get",
        methods: READING,
        address: SESSION_ADDRESS,
        need: "read-or-write",
        handle: (call, request) => routes.get(call, request),
        describe: describe["session.get"],
      }),
      route({
        name: "session.delete",
        methods: ["DELETE"],
        address: SESSION_ADDRESS,
        need: "write",
        handle: (call, request) => routes.delete(call, request),
        describe: describe["session.delete"],
      }),
      route({
        name: "session.touch",
        methods: ["POST"],
        address: `${SESSION_ADDRESS}/touch`,
        need: "read-or-write",
        handle: (call, request) => routes.touch(call, request),
        describe: describe["session.touch"],
      }),
    ],
    metrics: sessionMetrics(events, fanout, queue),
    start: () => fanout.start(),
    stop: () => fanout.stop(),
    service,
    fanout,
    events,
  } satisfies Feature & Record<string, unknown>;
}
