/**
 * Every HTTP route: its name, its methods and its address, as OpenAPI writes it. The router finds routes through it, `Allow`
 * follows from it, the OpenAPI document describes it, and the auth matrix has a row for each.
 */
import type { RouteName } from "../../core/action.ts";

export interface Route {
  readonly methods: readonly string[];
  readonly address: string;
}

/** `project` may be left out for these; it is `default` then. */
export const STREAM = "/v1/{project}/stream/{path}";
export const STREAMS = "/v1/{project}/streams";
export const SUBSCRIPTION = "/v1/{project}/stream/__ds/subscriptions/{subscription}";
export const SUBSCRIBE = "/v1/{project}/subscribe";
export const UNSUBSCRIBE = "/v1/{project}/unsubscribe";
export const PUBLISH = "/v1/{project}/publish/{path}";
export const SESSION = "/v1/{project}/session/{session}";
export const CHANNEL = "/v1/{project}/channels/{channel}";
export const KEYS = "/v1/{project}/stream/__ds/jwks.json";

const READING = ["GET", "HEAD"];

export const ROUTES: Readonly<Record<RouteName, Route>> = {
  "stream.read": { methods: ["GET"], address: STREAM },
  "stream.head": { methods: ["HEAD"], address: STREAM },
  "stream.create": { methods: ["PUT"], address: STREAM },
  "stream.append": { methods: ["POST"], address: STREAM },
  "stream.delete": { methods: ["DELETE"], address: STREAM },
  "streams.list": { methods: READING, address: STREAMS },

  "ds.subscription.put": { methods: ["PUT"], address: SUBSCRIPTION },
  "ds.subscription.get": { methods: READING, address: SUBSCRIPTION },
  "ds.subscription.delete": { methods: ["DELETE"], address: SUBSCRIPTION },
  "ds.subscription.streams.add": { methods: ["POST"], address: `${SUBSCRIPTION}/streams` },
  "ds.subscription.streams.remove": { methods: ["DELETE"], address: `${SUBSCRIPTION}/streams/{path}` },
  "ds.subscription.claim": { methods: ["POST"], address: `${SUBSCRIPTION}/claim` },
  "ds.subscription.ack": { methods: ["POST"], address: `${SUBSCRIPTION}/ack` },
  "ds.subscription.release": { methods: ["POST"], address: `${SUBSCRIPTION}/release` },
  "ds.subscription.callback": { methods: ["POST"], address: `${SUBSCRIPTION}/callback` },
  "ds.keys": { methods: READING, address: KEYS },

  subscribe: { methods: ["POST"], address: SUBSCRIBE },
  unsubscribe: { methods: ["DELETE"], address: UNSUBSCRIBE },
  publish: { methods: ["POST"], address: PUBLISH },
  "session.get": { methods: READING, address: SESSION },
  "session.delete": { methods: ["DELETE"], address: SESSION },
  "session.touch": { methods: ["POST"], address: `${SESSION}/touch` },

  "channel.publish": { methods: ["POST"], address: `${CHANNEL}/publish` },
  "channel.events": { methods: ["GET"], address: `${CHANNEL}/events` },

  health: { methods: READING, address: "/health" },
  ready: { methods: READING, address: "/ready" },
  metrics: { methods: READING, address: "/metrics" },
  openapi: { methods: READING, address: "/openapi.json" },
};

/** The routes of one address, by method. */
export interface Address {
  readonly byMethod: ReadonlyMap<string, RouteName>;
  /** The value of `Allow`. */
  readonly allow: string;
}

export const ADDRESSES: ReadonlyMap<string, Address> = addresses();

function addresses(): Map<string, Address> {
  const found = new Map<string, Map<string, RouteName>>();
  for (const [name, { methods, address }] of Object.entries(ROUTES)) {
    const byMethod = found.get(address) ?? new Map<string, RouteName>();
    for (const method of methods) byMethod.set(method, name as RouteName);
    found.set(address, byMethod);
  }
  return new Map(
    [...found].map(([address, byMethod]) => [address, { byMethod, allow: [...byMethod.keys(), "OPTIONS"].join(", ") }]),
  );
}
