/**
 * Channels: a log with phases and publish limits, which ends and is removed by itself. Compose calls it; the router
 * calls its routes.
 */
import { type AddressName, READING, route } from "../core/route.ts";
import { type Feature, type Kernel, kindOf } from "../feature.ts";
import { type ChannelLimits, limitsFor, type ProjectLimits } from "./defaults.ts";
import { describeChannels } from "./describe.ts";
import { channelMetrics } from "./metrics.ts";
import { parseChannelId } from "./parse.ts";
import {
  CHANNELS_ADDRESS,
  ChannelRoutes,
  EVENTS_ADDRESS,
  PUBLISH_ADDRESS,
  type ReaderLimits,
  STOP_ADDRESS,
} from "./routes.ts";
import { Channels } from "./service.ts";
import { CHANNEL } from "./state.ts";

export interface ChannelSettings {
  readonly channel: ChannelLimits;
  /** The limits of a project override the general ones. */
  readonly projects: ReadonlyMap<string, ProjectLimits>;
  readonly readers: ReaderLimits;
}

const channel: AddressName = {
  says: "The id of a channel, percent-encoded, 1 to 256 bytes long.",
  read(encoded, names) {
    names.channel = parseChannelId(encoded);
  },
};

export function channelsFeature({ engine, keepers, world, audience }: Kernel, settings: ChannelSettings) {
  const service = new Channels(engine, keepers, limitsFor(settings.channel, settings.projects));
  const routes = new ChannelRoutes(service, world, audience, settings.readers);
  const describe = describeChannels(settings.channel);
  return {
    title: "Channels",
    kinds: [kindOf(CHANNEL, (e) => service.sweep(e.project, e.id))],
    names: { channel },
    routes: [
      route({
        name: "channel.publish",
        methods: ["POST"],
        address: PUBLISH_ADDRESS,
        need: "write",
        handle: (call, request) => routes.publish(call.project, call.channel, request),
        describe: describe["channel.publish"],
      }),
      route({
        name: "channels.list",
        methods: READING,
        address: CHANNELS_ADDRESS,
        need: "read",
        handle: (call, request) => routes.list(call, request),
        describe: describe["channels.list"],
      }),
      route({
        name: "channel.stop",
        methods: ["POST"],
        address: STOP_ADDRESS,
        need: "write",
        handle: (call, request) => routes.stop(call.project, call.channel, request),
        describe: describe["channel.stop"],
      }),
      route({
        name: "channel.events",
        methods: ["GET"],
        address: EVENTS_ADDRESS,
        need: "read",
        handle: (call, request) => routes.events(call.project, call.channel, request),
        staysOpen: () => true,
        describe: describe["channel.events"],
      }),
    ],
    metrics: channelMetrics(service, routes),
    service,
    readers: routes,
  } satisfies Feature & Record<string, unknown>;
}
