/** The routes of the server itself, described for the OpenAPI document. */
import { z } from "zod";
import type { RouteName } from "../../../core/action.ts";
import { says } from "./headers.ts";
import { type Description, text } from "./shape.ts";

type ServerRoute = Extract<RouteName, "health" | "ready" | "metrics" | "openapi">;

const tag = "Server";
const probe = z.object({ status: z.enum(["ok", "unavailable"]), reason: z.string().optional() });

export const serverRoutes: Readonly<Record<ServerRoute, Description>> = {
  health: {
    tag,
    summary: "Whether the process is alive",
    answers: { 200: { says: "It is.", content: { "application/json": probe } } },
    refuses: [],
  },
  ready: {
    tag,
    summary: "Whether the server takes requests",
    answers: {
      200: { says: "It does.", content: { "application/json": probe } },
      503: { says: "Not now.", headers: [says.retryAfter], content: { "application/json": probe } },
    },
    refuses: [],
  },
  metrics: {
    tag,
    summary: "The server's metrics, in the text format of Prometheus",
    answers: { 200: { says: "The metrics.", content: { "text/plain": text } } },
    refuses: ["no-route"],
  },
  openapi: {
    tag,
    summary: "This document",
    answers: { 200: { says: "This document.", content: { "application/json": { type: "object" } } } },
    refuses: [],
  },
};
