/**
 * The auth matrix: for every route, a request, the scopes that suffice and those that do not. The matrix, session and
 * OpenAPI tests read it.
 *
 * Invariants: rows are written by hand and not derived from the code under test, so that they are an independent witness. A
 * route without a row fails the matrix test.
 */
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import type { Asked, AuthApp } from "./app.ts";

export interface Row {
  readonly method: string;
  readonly target: string;
  readonly body?: unknown;
  /** The possible statuses of an allowed request. */
  readonly right: readonly number[];
  /** The callers that are let in: every caller, the holder of the wake's own token, or a token with one of these scopes. */
  readonly lets: "every-caller" | "own-proof" | readonly string[];
  /** The answer to a token that is confined to other streams. */
  readonly confined: "forbidden" | "hidden" | "allowed";
  /** Of a listing: the field of its entries, `streams` by default. */
  readonly lists?: string;
  /** Filters that a token may be confined to and still be let in; by default those of the stream a/b. */
  readonly inside?: readonly string[][];
  /** For a route that names a session: the answer to a caller that does not own it. */
  readonly others?: "unknown" | "forbidden";
  readonly before?: (app: AuthApp) => Promise<Asked | void>;
}

const STREAM = "/v1/p/stream/a/b";
const TOPIC = "/v1/p/topics/a/b";
const PULLER = "/v1/p/pull/s";
const SUBSCRIPTION = "/v1/p/stream/__ds/subscriptions/s";

const withStream = async (app: AuthApp) => {
  await app.prepare("PUT", STREAM);
};

const withSubscription = async (app: AuthApp) => {
  await withStream(app);
  await app.prepare("PUT", "/v1/p/stream/a/wakes");
  const body = { type: "pull-wake", streams: ["a/b"], wake_stream: "a/wakes" };
  await app.prepare("PUT", SUBSCRIPTION, { body });
};

const withWork = async (app: AuthApp) => {
  await withSubscription(app);
  await app.prepare("POST", STREAM, { body: [1] });
};

const withClaim = async (app: AuthApp): Promise<Asked> => {
  await withWork(app);
  const { body } = await app.prepare("POST", `${SUBSCRIPTION}/claim`, { body: { worker: "w" } });
  return { token: body.token, body: { wake_id: body.wake_id, generation: body.generation } };
};
const withPuller = async (app: AuthApp) => {
  await withStream(app);
  await app.app.pull.service.create("p", "s", { topic: "a/b" }, FULL_ACCESS);
};
const OF_STREAM = { confined: "forbidden", before: withStream } as const;
const PUBLISHED = { messages: [{ data: "MQ==" }] };
const CHANNEL = "/v1/p/channels/a%2Fb";
const STARTED = { phase: "START", sequence: 0 };
const IN_CHANNEL = [["channels/#"], ["x", "channels/a/+"], ["#"]];

const withChannel = async (app: AuthApp) => {
  await app.prepare("POST", `${CHANNEL}/publish`, { body: STARTED });
};

const NEW = { confined: "forbidden", inside: IN_CHANNEL } as const;
const STORED = { ...NEW, before: withChannel } as const;

const GROUP = "/v1/p/groups/g";
const DECLARED = { filter: "a/b", mode: "share" };

const withGroup = async (app: AuthApp) => {
  await app.prepare("PUT", GROUP, { body: DECLARED });
};
const OF_GROUP = { confined: "forbidden", before: withGroup } as const;

export const SESSION_ID = "6f1c1f5e-2a5b-4c9e-9d5e-0a1b2c3d4e5f";
const SESSION = `/v1/p/session/${SESSION_ID}`;
const SUBSCRIBED = { sessionId: SESSION_ID, streamId: "a/b" };
const EITHER = ["read", "write", "read write", "openid read"];

const withSession = async (app: AuthApp) => {
  await withStream(app);
  await app.prepare("POST", "/v1/p/subscribe", { body: SUBSCRIBED });
};

const READ = ["read", "read write", "openid read"];
const WRITE = ["write", "read write"];
const open = (target: string): Row => ({
  method: "GET",
  target,
  right: [200],
  lets: "every-caller",
  confined: "allowed",
});

export const MATRIX: Readonly<Record<string, Row>> = {
  "stream.create": { method: "PUT", target: STREAM, right: [201], lets: WRITE, confined: "forbidden" },
  "stream.append": {
    method: "POST",
    target: STREAM,
    body: [1],
    right: [204],
    lets: WRITE,
    confined: "forbidden",
    before: withStream,
  },
  "stream.read": {
    method: "GET",
    target: `${STREAM}?offset=-1`,
    right: [200],
    lets: READ,
    confined: "forbidden",
    before: withStream,
  },
  "stream.head": {
    method: "HEAD",
    target: STREAM,
    right: [200],
    lets: READ,
    confined: "forbidden",
    before: withStream,
  },
  "stream.delete": {
    method: "DELETE",
    target: STREAM,
    right: [204],
    lets: WRITE,
    confined: "forbidden",
    before: withStream,
  },
  "streams.list": {
    method: "GET",
    target: "/v1/p/streams",
    right: [200],
    lets: READ,
    confined: "hidden",
    before: withStream,
  },
  "ds.subscriptions.list": {
    method: "GET",
    target: "/v1/p/stream/__ds/subscriptions",
    right: [200],
    lets: READ,
    confined: "hidden",
    lists: "subscriptions",
    before: withSubscription,
  },
  "sessions.list": {
    method: "GET",
    target: "/v1/p/sessions",
    right: [200],
    lets: [],
    confined: "forbidden",
    inside: [],
  },
  "ds.subscription.put": {
    method: "PUT",
    target: SUBSCRIPTION,
    body: { type: "pull-wake", streams: ["a/b"], wake_stream: "a/wakes" },
    right: [201],
    lets: ["read write"],
    confined: "forbidden",
    before: withStream,
  },
  "ds.subscription.get": {
    method: "GET",
    target: SUBSCRIPTION,
    right: [200],
    lets: READ,
    confined: "forbidden",
    before: withSubscription,
  },
  "ds.subscription.delete": {
    method: "DELETE",
    target: SUBSCRIPTION,
    right: [204],
    lets: WRITE,
    confined: "forbidden",
    before: withSubscription,
  },
  "ds.subscription.streams.add": {
    method: "POST",
    target: `${SUBSCRIPTION}/streams`,
    body: { streams: ["a/c"] },
    right: [204],
    lets: ["read write"],
    confined: "forbidden",
    before: withSubscription,
  },
  "ds.subscription.streams.remove": {
    method: "DELETE",
    target: `${SUBSCRIPTION}/streams/a/b`,
    right: [204],
    lets: WRITE,
    confined: "forbidden",
    before: withSubscription,
  },
  "ds.subscription.claim": {
    method: "POST",
    target: `${SUBSCRIPTION}/claim`,
    body: { worker: "w" },
    right: [200],
    lets: READ,
    confined: "forbidden",
    before: withWork,
  },
  "ds.subscription.ack": {
    method: "POST",
    target: `${SUBSCRIPTION}/ack`,
    right: [200],
    lets: "own-proof",
    confined: "allowed",
    before: withClaim,
  },
  "ds.subscription.release": {
    method: "POST",
    target: `${SUBSCRIPTION}/release`,
    right: [204],
    lets: "own-proof",
    confined: "allowed",
    before: withClaim,
  },
  "ds.subscription.callback": {
    method: "POST",
    target: `${SUBSCRIPTION}/callback`,
    right: [200],
    lets: "own-proof",
    confined: "allowed",
    before: withClaim,
  },
  subscribe: {
    method: "POST",
    target: "/v1/p/subscribe",
    body: SUBSCRIBED,
    right: [200],
    lets: EITHER,
    confined: "forbidden",
    others: "forbidden",
    before: withStream,
  },
  publish: {
    method: "POST",
    target: "/v1/p/publish/a/b",
    body: [1],
    right: [204],
    lets: WRITE,
    confined: "forbidden",
    before: withSession,
  },
  // Only session ownership is checked here; access to its streams was checked at subscribe time.
  unsubscribe: {
    method: "DELETE",
    target: "/v1/p/unsubscribe",
    body: SUBSCRIBED,
    right: [204],
    lets: WRITE,
    confined: "allowed",
    others: "unknown",
    before: withSession,
  },
  "session.get": {
    method: "GET",
    target: SESSION,
    right: [200],
    lets: EITHER,
    confined: "allowed",
    others: "unknown",
    before: withSession,
  },
  "session.touch": {
    method: "POST",
    target: `${SESSION}/touch`,
    right: [200],
    lets: EITHER,
    confined: "allowed",
    others: "unknown",
    before: withSession,
  },
  "session.delete": {
    method: "DELETE",
    target: SESSION,
    right: [204],
    lets: WRITE,
    confined: "allowed",
    others: "unknown",
    before: withSession,
  },
  "live.mint": {
    method: "POST",
    target: "/v1/p/sessions",
    body: { sessionId: SESSION_ID },
    right: [200],
    lets: EITHER,
    confined: "allowed",
    others: "unknown",
    before: withSession,
  },
  "live.subscribe": {
    method: "POST",
    target: "/v1/p/subscriptions",
    body: SUBSCRIBED,
    right: [200],
    lets: EITHER,
    confined: "forbidden",
    others: "unknown",
    before: withSession,
  },
  // A session may always leave a stream.
  "live.unsubscribe": {
    method: "DELETE",
    target: "/v1/p/subscriptions",
    body: SUBSCRIBED,
    right: [204],
    lets: EITHER,
    confined: "allowed",
    others: "unknown",
    before: withSession,
  },
  "live.heartbeat": {
    method: "POST",
    target: "/v1/p/heartbeat",
    body: { sessionId: SESSION_ID, offsets: [] },
    right: [200],
    lets: EITHER,
    confined: "allowed",
    others: "unknown",
    before: withSession,
  },
  "live.offsets": {
    method: "GET",
    target: `/v1/p/session-offsets/${SESSION_ID}`,
    right: [200],
    lets: EITHER,
    confined: "allowed",
    others: "unknown",
    before: withSession,
  },
  "live.presence": { method: "GET", target: "/v1/p/presence/a/b", right: [200], lets: READ, ...OF_STREAM },
  // A connection follows only those of the session's streams that its token sees.
  "live.connect": {
    method: "GET",
    target: `/v1/p/live/${SESSION_ID}`,
    right: [200],
    lets: EITHER,
    confined: "allowed",
    others: "unknown",
    before: withSession,
  },
  // The filter of each subscription is checked when it comes; test/groups shows it.
  "group.consume": { method: "GET", target: "/v1/p/consume", right: [400], lets: EITHER, confined: "allowed" },
  // Each frame demands its own scope; test/pull shows it.
  "pull.connect": { method: "GET", target: "/v1/p/pull", right: [400], lets: EITHER, confined: "allowed" },
  "pull.info": { method: "GET", target: PULLER, right: [200], lets: EITHER, confined: "forbidden", before: withPuller },
  "pull.publish": { method: "POST", target: TOPIC, body: PUBLISHED, right: [200], lets: WRITE, ...OF_STREAM },
  "group.list": { method: "GET", target: "/v1/p/groups", right: [200], lets: READ, confined: "allowed" },
  "group.get": { method: "GET", target: GROUP, right: [200], lets: READ, ...OF_GROUP },
  "group.put": {
    method: "PUT",
    target: GROUP,
    body: DECLARED,
    right: [200, 201],
    lets: WRITE,
    confined: "forbidden",
  },
  "group.seek": {
    method: "POST",
    target: `${GROUP}/seek`,
    body: { to: "earliest" },
    right: [204],
    lets: WRITE,
    ...OF_GROUP,
  },
  // This group has no dead-letter stream.
  "group.redrive": { method: "POST", target: `${GROUP}/redrive`, body: {}, right: [400], lets: WRITE, ...OF_GROUP },
  "group.delete": { method: "DELETE", target: GROUP, right: [204], lets: WRITE, ...OF_GROUP },
  "channel.publish": { method: "POST", target: `${CHANNEL}/publish`, body: STARTED, right: [202], lets: WRITE, ...NEW },
  "channels.list": {
    method: "GET",
    target: "/v1/p/channels",
    right: [200],
    lets: READ,
    ...STORED,
    confined: "hidden",
    lists: "channels",
  },
  "channel.stop": { method: "POST", target: `${CHANNEL}/stop`, right: [202], lets: WRITE, ...STORED },
  "channel.events": { method: "GET", target: `${CHANNEL}/events`, right: [200], lets: READ, ...STORED },
  "ds.keys": open("/v1/p/stream/__ds/jwks.json"),
  health: open("/health"),
  ready: open("/ready"),
  openapi: open("/openapi.json"),
  // A server that keeps no metrics answers 404 to an allowed caller.
  metrics: { ...open("/metrics"), right: [200, 404], lets: ["metrics", "read metrics"], confined: "forbidden" },
  home: open("/"),
};
