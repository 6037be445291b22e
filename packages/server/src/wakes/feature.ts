/**
 * Wake subscriptions: a webhook or a message tells a worker that its streams have new messages. Compose calls it; the
 * router calls its routes.
 */
import { type AddressName, READING, route } from "../core/route.ts";
import { type Feature, type Kernel, kindOf } from "../feature.ts";
import type { Streams } from "../streams/service.ts";
import { wakeBodies } from "./bodies.ts";
import type { WakeLimits } from "./defaults.ts";
import { describeWakes } from "./describe.ts";
import { type Ed25519, type KeySettings, SigningKeys } from "./keys.ts";
import { parseId, parseStreamPart } from "./parse.ts";
import { problemMembers } from "./refusals.ts";
import { KEYS_ADDRESS, LINK_ADDRESS, SUBSCRIPTION_ADDRESS, SUBSCRIPTIONS_ADDRESS, WakeRoutes } from "./routes.ts";
import { Wakes } from "./service.ts";
import { WAKE } from "./state.ts";
import type { WebhookSender } from "./webhook-delivery.ts";
import type { WebhookReach } from "./webhook-targets.ts";

export interface WakeSettings {
  readonly wake: WakeLimits;
  readonly webhook: KeySettings & WebhookReach;
  readonly publicUrl?: string | undefined;
  readonly projectSharePercent?: number | undefined;
}

export interface WakeParts {
  readonly streams: Streams;
  readonly sender: WebhookSender;
  readonly ed25519: Ed25519;
}

const subscription: AddressName = {
  says: "The id of a wake subscription, 1 to 256 bytes long.",
  read(encoded, names) {
    names.subscription = parseId(encoded);
  },
};

/** The end of the address of a link. */
const path: AddressName = {
  says: "The path of a linked stream. It may contain slashes, percent-encoded or not.",
  read(encoded, names) {
    names.stream = parseStreamPart(encoded);
  },
};

export function wakesFeature(kernel: Kernel, settings: WakeSettings, { streams, sender, ed25519 }: WakeParts) {
  const { engine, keepers, world, report } = kernel;
  const { wake: limits, webhook, publicUrl, projectSharePercent: sharePercent } = settings;
  const keys = new SigningKeys(engine, keepers, world, ed25519, webhook, report);
  const service = new Wakes({ engine, keepers, streams, world, keys, sender, report, limits, sharePercent });
  const routes = new WakeRoutes(service, keys, { reach: webhook, publicUrl, limits });
  const describe = describeWakes(wakeBodies(limits));
  return {
    title: "Wake subscriptions",
    kinds: [kindOf(WAKE, (e) => service.sweep(e.project, e.id))],
    names: { subscription, path },
    problemMembers,
    routes: [
      // PUT needs both permissions, because its response also shows which streams exist and where they end.
      route({
        name: "ds.subscription.put",
        methods: ["PUT"],
        address: SUBSCRIPTION_ADDRESS,
        need: "read-and-write",
        handle: (call, request) => routes.put(call, request),
        describe: describe["ds.subscription.put"],
      }),
      route({
        name: "ds.subscription.get",
        methods: READING,
        address: SUBSCRIPTION_ADDRESS,
        need: "read",
        handle: (call, request) => routes.get(call, request),
        describe: describe["ds.subscription.get"],
      }),
      route({
        name: "ds.subscriptions.list",
        methods: READING,
        address: SUBSCRIPTIONS_ADDRESS,
        need: "read",
        handle: (call, request) => routes.list(call, request),
        describe: describe["ds.subscriptions.list"],
      }),
      route({
        name: "ds.subscription.delete",
        methods: ["DELETE"],
        address: SUBSCRIPTION_ADDRESS,
        need: "write",
        handle: (call) => routes.delete(call),
        describe: describe["ds.subscription.delete"],
      }),
      route({
        name: "ds.subscription.streams.add",
        methods: ["POST"],
        address: `${SUBSCRIPTION_ADDRESS}/streams`,
        need: "read-and-write",
        handle: (call, request) => routes.addStreams(call, request),
        describe: describe["ds.subscription.streams.add"],
      }),
      route({
        name: "ds.subscription.streams.remove",
        methods: ["DELETE"],
        address: LINK_ADDRESS,
        need: "write",
        handle: (call) => routes.removeStream(call),
        describe: describe["ds.subscription.streams.remove"],
      }),
      route({
        name: "ds.subscription.claim",
        methods: ["POST"],
        address: `${SUBSCRIPTION_ADDRESS}/claim`,
        need: "read",
        handle: (call, request) => routes.claim(call, request),
        describe: describe["ds.subscription.claim"],
      }),
      // The token that came with the wake authorizes the remaining routes.
      route({
        name: "ds.subscription.ack",
        methods: ["POST"],
        address: `${SUBSCRIPTION_ADDRESS}/ack`,
        need: "own-proof",
        handle: (call, request) => routes.ack(call, request, true),
        describe: describe["ds.subscription.ack"],
      }),
      route({
        name: "ds.subscription.release",
        methods: ["POST"],
        address: `${SUBSCRIPTION_ADDRESS}/release`,
        need: "own-proof",
        handle: (call, request) => routes.release(call, request),
        describe: describe["ds.subscription.release"],
      }),
      route({
        name: "ds.subscription.callback",
        methods: ["POST"],
        address: `${SUBSCRIPTION_ADDRESS}/callback`,
        need: "own-proof",
        handle: (call, request) => routes.ack(call, request, false),
        describe: describe["ds.subscription.callback"],
      }),
      route({
        name: "ds.keys",
        methods: READING,
        address: KEYS_ADDRESS,
        need: "none",
        handle: (call) => routes.jwks(call),
        describe: describe["ds.keys"],
      }),
    ],
    metrics: service.metrics,
    start: () => service.start(),
    stop: () => service.stop(),
    service,
    keys,
  } satisfies Feature & Record<string, unknown>;
}
