/**
 * From a request's method and path to the route it means and the names it holds. The router calls it; what it returns is
 * also what auth decides on, so nothing after this reads a path again.
 *
 *   /v1/stream/{path}              project default
 *   /v1/{project}/stream/{path}
 *   /v1/{project}/streams
 *   …/stream/__ds/{rest}           control: subscriptions and their keys
 *   /v1/{project}/subscribe  …/unsubscribe  …/publish/{path}
 *   /v1/{project}/session/{id}, …/touch
 *   /v1/{project}/channels/{id}/publish, …/events
 *   /health  /ready  /metrics  /openapi.json
 */
import { header } from "@sluice/protocol";
import { parseChannelId } from "../../channels/parse.ts";
import type { Action, RouteName } from "../../core/action.ts";
import { type HttpRequest, Refusal } from "../../core/http.ts";
import { parseSessionId } from "../../sessions/routes.ts";
import { parsePath } from "../../streams/parse.ts";
import { isSessionPath, SESSION_PREFIX } from "../../streams/state.ts";
import { parseId, parseStreamPart } from "../../wakes/parse.ts";
import {
  ADDRESSES,
  type Address,
  CHANNEL,
  KEYS,
  PUBLISH,
  SESSION,
  STREAM,
  STREAMS,
  SUBSCRIBE,
  SUBSCRIPTION,
  UNSUBSCRIBE,
} from "./routes-table.ts";

/** A route and what its address names. */
export interface Call extends Action {
  readonly action: RouteName;
  readonly stream: string | undefined;
  readonly subscription: string | undefined;
  readonly channel: string | undefined;
  readonly session: string | undefined;
}

/** Where in the address space a path lies. `rest` is what is left to parse, still percent-encoded. */
export interface Place {
  readonly kind: "stream" | "streams" | "control" | "publish" | "session" | "channel" | "address" | "server";
  readonly project: string | undefined;
  readonly rest: string;
}

const DEFAULT_PROJECT = "default";
const PROJECT = /^[a-zA-Z0-9_-]{1,128}$/;

/** Words that name a route and therefore never a project. */
const ROUTE_WORDS = new Set(
  "stream streams subscribe unsubscribe publish session sessions subscriptions live heartbeat session-offsets consume groups pull topics channels admin".split(
    " ",
  ),
);

const STREAM_PREFIX = "/v1/stream/";
const CONTROL_PREFIX = "__ds/";

const STREAM_ROUTES = ADDRESSES.get(STREAM)!;
const LIST_ROUTES = ADDRESSES.get(STREAMS)!;
const LINK_ROUTES = ADDRESSES.get(`${SUBSCRIPTION}/streams/{path}`)!;

/** Throws a Refusal for what lies nowhere. */
export function locate(path: string): Place {
  if (path.startsWith(STREAM_PREFIX)) return locateStream(DEFAULT_PROJECT, path.slice(STREAM_PREFIX.length));
  if (path.startsWith("/v1/")) return locateProject(path, path.slice("/v1/".length));
  if (!ADDRESSES.has(path)) throw noRoute(path);
  return { kind: "server", project: undefined, rest: path };
}

function locateProject(path: string, rest: string): Place {
  const slash = rest.indexOf("/");
  const first = slash < 0 ? rest : rest.slice(0, slash);
  const isShort = ROUTE_WORDS.has(first);
  const project = isShort ? DEFAULT_PROJECT : first;
  const tail = isShort ? rest : slash < 0 ? "" : rest.slice(slash + 1);
  if (!PROJECT.test(project))
    throw new Refusal("bad-project", "a project is named by 1 to 128 letters, digits, _ and -");
  if (tail.startsWith("stream/")) return locateStream(project, tail.slice("stream/".length));
  if (tail === "streams") return { kind: "streams", project, rest: "" };
  if (tail.startsWith("publish/")) return { kind: "publish", project, rest: tail.slice("publish/".length) };
  if (tail.startsWith("session/")) return { kind: "session", project, rest: tail.slice("session/".length) };
  if (tail === "subscribe") return { kind: "address", project, rest: SUBSCRIBE };
  if (tail === "unsubscribe") return { kind: "address", project, rest: UNSUBSCRIBE };
  if (tail.startsWith("channels/")) return { kind: "channel", project, rest: tail.slice("channels/".length) };
  throw noRoute(path);
}

function locateStream(project: string, path: string): Place {
  if (!path.startsWith(CONTROL_PREFIX)) return { kind: "stream", project, rest: path };
  return { kind: "control", project, rest: path.slice(CONTROL_PREFIX.length) };
}

/** Throws a Refusal for a name that is malformed and a method that is not known there. */
export function parseCall({ kind, project, rest }: Place, request: HttpRequest): Call {
  switch (kind) {
    case "stream": {
      const stream = parsePath(rest);
      const action = methodOf(STREAM_ROUTES, request);
      const session = isSessionPath(stream) ? stream.slice(SESSION_PREFIX.length) : undefined;
      return { action, project, stream, subscription: undefined, channel: undefined, session };
    }
    case "streams":
      return named(methodOf(LIST_ROUTES, request), project);
    case "control":
      return parseControl(project, rest, request);
    case "channel":
      return parseChannel(project, rest, request);
    case "publish":
      return named(methodOf(ADDRESSES.get(PUBLISH)!, request), project, parsePath(rest));
    case "session":
      return parseSession(project, rest, request);
    case "address":
    case "server":
      return named(methodOf(ADDRESSES.get(rest)!, request), project);
  }
}

/** One shape for all calls, because every request makes one. */
function named(action: RouteName, project: string | undefined, stream?: string, subscription?: string): Call {
  return { action, project, stream, subscription, channel: undefined, session: undefined };
}

/** `rest` is what follows `session/`. */
function parseSession(project: string | undefined, rest: string, request: HttpRequest): Call {
  const [session, step, ...more] = rest.split("/");
  const address = more.length > 0 ? undefined : ADDRESSES.get(step === undefined ? SESSION : `${SESSION}/${step}`);
  if (address === undefined) throw noRoute(request.path);
  return { ...named(methodOf(address, request), project), session: parseSessionId(session!) };
}

/** `rest` is what follows `channels/`. */
function parseChannel(project: string | undefined, rest: string, request: HttpRequest): Call {
  const [id, step, ...more] = rest.split("/");
  const address = more.length > 0 ? undefined : ADDRESSES.get(`${CHANNEL}/${step}`);
  if (address === undefined) throw noRoute(request.path);
  const action = methodOf(address, request);
  return { ...named(action, project), channel: parseChannelId(id!) };
}

/** `rest` is what follows `__ds/`. */
function parseControl(project: string | undefined, rest: string, request: HttpRequest): Call {
  if (rest === "jwks.json") {
    return named(methodOf(ADDRESSES.get(KEYS)!, request), project);
  }
  const [word, encodedId, step, ...path] = rest.split("/");
  if (word !== "subscriptions" || encodedId === undefined) throw noRoute(request.path);
  const subscription = parseId(encodedId);
  if (step === "streams" && path.length > 0) {
    const action = methodOf(LINK_ROUTES, request);
    return named(action, project, parseStreamPart(path.join("/")), subscription);
  }
  const address = path.length > 0 ? undefined : ADDRESSES.get(step === undefined ? SUBSCRIPTION : stepOf(step));
  if (address === undefined) throw noRoute(request.path);
  return named(methodOf(address, request), project, undefined, subscription);
}

function stepOf(step: string): string {
  return `${SUBSCRIPTION}/${step}`;
}

function methodOf({ byMethod, allow }: Address, { method }: HttpRequest): RouteName {
  const name = byMethod.get(method);
  if (name !== undefined) return name;
  throw new Refusal("method-not-allowed", `${method} is not known here`, [header.allow, allow]);
}

function noRoute(path: string): Refusal {
  return new Refusal("no-route", `there is nothing at ${path}`);
}
