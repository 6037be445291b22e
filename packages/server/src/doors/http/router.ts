/**
 * Which feature answers which address. Parses the address, hands the request over, and knows no rules of any feature.
 *
 *   /v1/stream/{path}              project default
 *   /v1/{project}/stream/{path}
 *   /v1/{project}/streams
 *   …/stream/__ds/{rest}           control: subscriptions and their keys
 *   /health  /ready  /metrics
 */
import { header } from "@sluice/protocol";
import { type Headers, type HttpRequest, Refusal, type Reply } from "../../core/http.ts";

export interface Features {
  stream(project: string, encodedPath: string, request: HttpRequest): Promise<Reply>;
  listStreams(project: string, request: HttpRequest): Promise<Reply>;
  control(project: string, rest: string, request: HttpRequest): Promise<Reply>;
  /** Undefined when the server takes requests; otherwise why not. */
  notReady(): string | undefined;
  /** The server in numbers, as Prometheus reads them. */
  metrics(): Promise<string>;
}

const DEFAULT_PROJECT = "default";
const PROJECT = /^[a-zA-Z0-9_-]{1,128}$/;

/** Words that name a route and therefore never a project. */
const ROUTE_WORDS = new Set(
  "stream streams subscribe unsubscribe publish session sessions subscriptions live heartbeat session-offsets consume groups pull topics channels admin".split(
    " ",
  ),
);

const ALLOWED_METHODS = "GET, HEAD, PUT, POST, DELETE, OPTIONS";
const ALLOWED_HEADERS = [
  "Authorization",
  header.contentType,
  header.ifNoneMatch,
  "Last-Event-ID",
  header.streamSeq,
  header.streamTtl,
  header.streamExpiresAt,
  header.streamClosed,
  header.streamForkedFrom,
  header.streamForkOffset,
  header.streamForkSubOffset,
  header.streamMaxMessages,
  header.streamMaxBytes,
  header.streamMaxAgeSeconds,
  header.producerId,
  header.producerEpoch,
  header.producerSeq,
  header.messageId,
  header.messageKey,
  header.messageAttributes,
].join(", ");

const PREFLIGHT: Headers = [
  header.allow,
  ALLOWED_METHODS,
  "Access-Control-Allow-Methods",
  ALLOWED_METHODS,
  "Access-Control-Allow-Headers",
  ALLOWED_HEADERS,
  "Access-Control-Max-Age",
  "86400",
];

const STREAM_PREFIX = "/v1/stream/";
const CONTROL_PREFIX = "__ds/";

/** Throws a Refusal for what it does not know. */
export function route(features: Features, request: HttpRequest): Promise<Reply> | Reply {
  const { path } = request;
  if (request.method === "OPTIONS") return { status: 204, headers: [...PREFLIGHT] };
  if (path.startsWith(STREAM_PREFIX)) {
    return routeStream(features, DEFAULT_PROJECT, path.slice(STREAM_PREFIX.length), request);
  }
  if (path.startsWith("/v1/")) return routeProject(features, request, path.slice("/v1/".length));
  if (path === "/health") return answerProbe(request, undefined);
  if (path === "/ready") return answerProbe(request, features.notReady());
  if (path === "/metrics") return answerMetrics(features, request);
  throw new Refusal("no-route", `there is nothing at ${path}`);
}

function routeProject(features: Features, request: HttpRequest, rest: string): Promise<Reply> | Reply {
  const slash = rest.indexOf("/");
  const first = slash < 0 ? rest : rest.slice(0, slash);
  const isShort = ROUTE_WORDS.has(first);
  const project = isShort ? DEFAULT_PROJECT : first;
  const tail = isShort ? rest : slash < 0 ? "" : rest.slice(slash + 1);
  if (!PROJECT.test(project))
    throw new Refusal("bad-project", "a project is named by 1 to 128 letters, digits, _ and -");
  if (tail.startsWith("stream/")) return routeStream(features, project, tail.slice("stream/".length), request);
  if (tail === "streams") {
    onlyGet(request);
    return features.listStreams(project, request);
  }
  throw new Refusal("no-route", `there is nothing at ${request.path}`);
}

function routeStream(features: Features, project: string, path: string, request: HttpRequest): Promise<Reply> {
  if (path.startsWith(CONTROL_PREFIX)) return features.control(project, path.slice(CONTROL_PREFIX.length), request);
  return features.stream(project, path, request);
}

function answerProbe(request: HttpRequest, problem: string | undefined): Reply {
  onlyGet(request);
  const body = JSON.stringify(problem === undefined ? { status: "ok" } : { status: "unavailable", reason: problem });
  const headers: Headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
  if (problem !== undefined) headers.push(header.retryAfter, "1");
  return { status: problem === undefined ? 200 : 503, headers, body };
}

async function answerMetrics(features: Features, request: HttpRequest): Promise<Reply> {
  onlyGet(request);
  const type = "text/plain; version=0.0.4; charset=utf-8";
  return {
    status: 200,
    headers: [header.contentType, type, header.cacheControl, "no-store"],
    body: await features.metrics(),
  };
}

function onlyGet(request: HttpRequest): void {
  if (request.method === "GET" || request.method === "HEAD") return;
  throw new Refusal("method-not-allowed", `${request.method} is not known here`, [header.allow, "GET, HEAD, OPTIONS"]);
}
