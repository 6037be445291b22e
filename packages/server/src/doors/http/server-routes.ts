/**
 * The routes of the server itself: what it is, health, readiness, metrics and the OpenAPI document. Compose adds them beside the
 * features. It is not a feature folder, but described like one.
 */
import { header } from "@sluice/protocol";
import { z } from "zod";
import { type Description, parameter, text } from "../../core/describe.ts";
import type { Headers, HttpRequest, Reply } from "../../core/http.ts";
import { Refusal } from "../../core/refusal.ts";
import { READING, route } from "../../core/route.ts";
import type { Feature } from "../../feature.ts";
import { homePage } from "./home-page.ts";
import { openapiDocument, retryAfter, VERSION } from "./openapi.ts";

export interface ServerParts {
  /** Undefined while the server accepts requests; otherwise the reason. */
  notReady(): string | undefined;
  /** The metrics as Prometheus text; absent if the server keeps none. */
  readonly metrics?: (() => Promise<string>) | undefined;
  /** All features, this one included, for the OpenAPI document. */
  features(): readonly Feature[];
}

const probe = z.object({ status: z.enum(["ok", "unavailable"]), reason: z.string().optional() });

const about = z.object({
  name: z.literal("sluice"),
  version: z.string(),
  description: z.string(),
  streams: z.string(),
  openapi: z.string(),
  health: z.string(),
  ready: z.string(),
  documentation: z.string(),
});

const describe = {
  home: {
    summary: "What this server is, and where to go",
    answers: {
      200: {
        says: "A page if the request accepts HTML, else JSON.",
        headers: [parameter(header.vary, "Accept.", text)],
        content: { "application/json": about, "text/html": text },
      },
    },
    refuses: [],
  },
  health: {
    summary: "Whether the process is alive",
    answers: { 200: { says: "The process is alive.", content: { "application/json": probe } } },
    refuses: [],
  },
  ready: {
    summary: "Whether the server accepts requests",
    answers: {
      200: { says: "The server accepts requests.", content: { "application/json": probe } },
      503: {
        says: "The server does not accept requests now; reason says why.",
        headers: [retryAfter],
        content: { "application/json": probe },
      },
    },
    refuses: [],
  },
  metrics: {
    summary: "The server's metrics, in the text format of Prometheus",
    answers: { 200: { says: "The metrics.", content: { "text/plain": text } } },
    refuses: ["no-route"],
  },
  openapi: {
    summary: "This document",
    answers: { 200: { says: "This document.", content: { "application/json": { type: "object" } } } },
    refuses: [],
  },
} satisfies Readonly<Record<string, Description>>;

export function serverFeature({ notReady, metrics, features }: ServerParts): Feature {
  let document: string | undefined;
  const open = (name: keyof typeof describe, address: string, answer: (request: HttpRequest) => Reply) =>
    route({
      name,
      methods: READING,
      address,
      need: "none",
      handle: (_, request) => answer(request),
      describe: describe[name],
    });
  return {
    title: "Server",
    routes: [
      open("home", "/", (request) => homePage(request, VERSION)),
      open("health", "/health", () => answerProbe(undefined)),
      open("ready", "/ready", () => answerProbe(notReady())),
      route({
        name: "metrics",
        methods: READING,
        address: "/metrics",
        need: "metrics",
        handle: async () => {
          if (metrics === undefined) throw new Refusal("no-route", "this server keeps no metrics");
          return reply("text/plain; version=0.0.4; charset=utf-8", "no-store", await metrics());
        },
        describe: describe.metrics,
      }),
      open("openapi", "/openapi.json", () => {
        document ??= JSON.stringify(openapiDocument(features()));
        return reply("application/json", "public, max-age=300", document);
      }),
    ],
  };
}

function reply(contentType: string, cacheControl: string, body: string): Reply {
  const headers = [header.contentType, contentType, header.cacheControl, cacheControl, header.vary, "Accept-Encoding"];
  return { status: 200, headers, body, mayCompress: true };
}

function answerProbe(problem: string | undefined): Reply {
  const body = JSON.stringify(problem === undefined ? { status: "ok" } : { status: "unavailable", reason: problem });
  const headers: Headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
  if (problem !== undefined) headers.push(header.retryAfter, "1");
  return { status: problem === undefined ? 200 : 503, headers, body };
}
