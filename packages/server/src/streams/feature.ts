/**
 * Streams: the Durable Streams protocol, listing, and reads that wait. Compose calls it first, because every other
 * feature uses its service.
 */
import type { Feeds } from "../core/feed.ts";
import { type AddressName, READING, route } from "../core/route.ts";
import { type Feature, type Kernel, kindOf } from "../feature.ts";
import type { CensusLimits, ListLimits, StreamLimits, TailLimits } from "./defaults.ts";
import { describeStreams } from "./describe.ts";
import { listStreams, STREAMS_ADDRESS } from "./listing.ts";
import { streamMetrics } from "./metrics.ts";
import { parsePath } from "./parse.ts";
import type { StreamPage } from "./reading.ts";
import { STREAM_ADDRESS, StreamRoutes } from "./routes.ts";
import { APPEND_TO_STREAM, READ_STREAM, Streams } from "./service.ts";
import { STREAM, sessionOf } from "./state.ts";
import { Census } from "./stream-count.ts";
import { TailRoutes } from "./tail-routes.ts";

export interface StreamSettings {
  readonly stream: StreamLimits;
  readonly list: ListLimits;
  readonly tail: TailLimits;
  readonly census: CensusLimits;
}

const path: AddressName = {
  says: "A stream's path. It may contain slashes, percent-encoded or not.",
  read(encoded, names) {
    const stream = parsePath(encoded);
    names.stream = stream;
    names.session = sessionOf(stream);
  },
};

/** `feeds` is shared with other features that follow streams. */
export function streamsFeature(
  { engine, keepers, world, audience }: Kernel,
  settings: StreamSettings,
  feeds: Feeds<StreamPage>,
) {
  const { stream: limits, list } = settings;
  const service = new Streams(engine, keepers, world, limits);
  const tail = new TailRoutes(service, world, { ...settings.tail, pageBytes: limits.pageBytes }, audience, feeds);
  const routes = new StreamRoutes(service, tail, limits);
  const census = new Census(engine, service.meter, world, settings.census);
  const describe = describeStreams(list);
  return {
    title: "Streams",
    kinds: [kindOf(STREAM, (e) => service.sweep(e.project, e.id))],
    names: { path },
    routes: [
      route({
        name: READ_STREAM.action,
        methods: ["GET"],
        address: STREAM_ADDRESS,
        need: READ_STREAM.need,
        bySession: READ_STREAM.bySession,
        handle: (call, request) => routes.read(call, request),
        // An escape could hide the name.
        staysOpen: (search) => search.includes("live") || search.includes("%"),
        describe: describe["stream.read"],
      }),
      route({
        name: "stream.head",
        methods: ["HEAD"],
        address: STREAM_ADDRESS,
        need: "read",
        handle: (call) => routes.head(call),
        describe: describe["stream.head"],
      }),
      route({
        name: "stream.create",
        methods: ["PUT"],
        address: STREAM_ADDRESS,
        need: "write",
        handle: (call, request) => routes.create(call, request),
        describe: describe["stream.create"],
      }),
      route({
        name: APPEND_TO_STREAM.action,
        methods: ["POST"],
        address: STREAM_ADDRESS,
        need: APPEND_TO_STREAM.need,
        handle: (call, request) => routes.append(call, request),
        describe: describe["stream.append"],
      }),
      route({
        name: "stream.delete",
        methods: ["DELETE"],
        address: STREAM_ADDRESS,
        need: "write",
        handle: (call) => routes.delete(call),
        describe: describe["stream.delete"],
      }),
      route({
        name: "streams.list",
        methods: READING,
        address: STREAMS_ADDRESS,
        need: "read",
        handle: (call, request) => listStreams(service, call, request, list),
        describe: describe["streams.list"],
      }),
    ],
    metrics: streamMetrics(service.meter, tail, census),
    stop: () => census.stop(),
    service,
    tail,
  } satisfies Feature & Record<string, unknown>;
}
