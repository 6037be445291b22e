/**
 * Which feature answers which route: for every name of the table, the call that answers it. `compose` hands in the features;
 * the router calls what it finds here once the caller is admitted.
 */
import { header } from "@sluice/protocol";
import type { ChannelRoutes } from "../../channels/routes.ts";
import type { RouteName } from "../../core/action.ts";
import { type Headers, type HttpRequest, Refusal, type Reply } from "../../core/http.ts";
import type { SessionRoutes } from "../../sessions/routes.ts";
import type { StreamRoutes } from "../../streams/routes.ts";
import type { WakeRoutes } from "../../wakes/routes.ts";
import type { Call } from "./address.ts";
import { type DescribedLimits, openapiDocument } from "./openapi/document.ts";

export type Handler = (call: Call, request: HttpRequest) => Promise<Reply> | Reply;
export type Handlers = Readonly<Record<RouteName, Handler>>;

export interface HandlerParts {
  readonly streams: StreamRoutes;
  listStreams(project: string, request: HttpRequest): Promise<Reply>;
  readonly wakes: WakeRoutes;
  readonly sessions: SessionRoutes;
  readonly channels: ChannelRoutes;
  /** Undefined when the server takes requests; otherwise why not. */
  notReady(): string | undefined;
  readonly limits: DescribedLimits;
  /** The server in numbers, as Prometheus reads them; absent when it keeps none. */
  readonly metrics?: (() => Promise<string>) | undefined;
}

/** An address of a project has always named one, and a stream, subscription or channel where its route has one. */
export function handlersOf(parts: HandlerParts): Handlers {
  const { streams, wakes, sessions, channels, listStreams, notReady, metrics, limits } = parts;
  let document: string | undefined;
  return {
    "stream.append": (call, request) => streams.append(call.project!, call.stream!, request),
    "stream.read": (call, request) =>
      call.session === undefined
        ? streams.read(call.project!, call.stream!, request)
        : sessions.read(call.project!, call.stream!, request),
    "stream.head": (call, request) =>
      call.session === undefined
        ? streams.head(call.project!, call.stream!)
        : sessions.head(call.project!, call.stream!, request),
    "stream.create": (call, request) => streams.create(call.project!, call.stream!, request),
    "stream.delete": (call) => streams.delete(call.project!, call.stream!),
    "streams.list": (call, request) => listStreams(call.project!, request),

    "ds.subscription.put": (call, request) => wakes.put(call.project!, call.subscription!, request),
    "ds.subscription.get": (call, request) => wakes.get(call.project!, call.subscription!, request),
    "ds.subscription.delete": (call, request) => wakes.delete(call.project!, call.subscription!, request),
    "ds.subscription.streams.add": (call, request) => wakes.addStreams(call.project!, call.subscription!, request),
    "ds.subscription.streams.remove": (call, request) =>
      wakes.removeStream(call.project!, call.subscription!, call.stream!, request),
    "ds.subscription.claim": (call, request) => wakes.claim(call.project!, call.subscription!, request),
    "ds.subscription.ack": (call, request) => wakes.ack(call.project!, call.subscription!, request, true),
    "ds.subscription.callback": (call, request) => wakes.ack(call.project!, call.subscription!, request, false),
    "ds.subscription.release": (call, request) => wakes.release(call.project!, call.subscription!, request),
    "ds.keys": (call) => wakes.jwks(call.project!),

    subscribe: (call, request) => sessions.subscribe(call.project!, request),
    unsubscribe: (call, request) => sessions.unsubscribe(call.project!, request),
    publish: (call, request) => sessions.publish(call.project!, call.stream!, request),
    "session.get": (call, request) => sessions.get(call.project!, call.session!, request),
    "session.touch": (call, request) => sessions.touch(call.project!, call.session!, request),
    "session.delete": (call, request) => sessions.delete(call.project!, call.session!, request),

    "channel.publish": (call, request) => channels.publish(call.project!, call.channel!, request),
    "channel.events": (call, request) => channels.events(call.project!, call.channel!, request),

    health: () => answerProbe(undefined),
    ready: () => answerProbe(notReady()),
    metrics: async () => {
      if (metrics === undefined) throw new Refusal("no-route", "this server keeps no metrics");
      const headers = [header.contentType, "text/plain; version=0.0.4; charset=utf-8", header.cacheControl, "no-store"];
      return { status: 200, headers, body: await metrics() };
    },
    openapi: () => {
      document ??= JSON.stringify(openapiDocument(limits));
      const headers = [header.contentType, "application/json", header.cacheControl, "public, max-age=300"];
      return { status: 200, headers, body: document };
    },
  };
}

function answerProbe(problem: string | undefined): Reply {
  const body = JSON.stringify(problem === undefined ? { status: "ok" } : { status: "unavailable", reason: problem });
  const headers: Headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
  if (problem !== undefined) headers.push(header.retryAfter, "1");
  return { status: problem === undefined ? 200 : 503, headers, body };
}
