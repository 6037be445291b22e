/**
 * Builds the OpenAPI 3.1 document from the features' routes, the schemas that validate bodies, the needs that auth
 * decides by, and the error table. Called by the server routes; compose uses the header lists for CORS.
 *
 * Invariants: the document repeats no fact that the code states elsewhere.
 */
import { type ErrorCode, errors, header } from "@sluice/protocol";
import { z } from "zod";
import { isOpen } from "../../core/action.ts";
import {
  type Content,
  count,
  type Outcome,
  type Parameter,
  parameter,
  type Schema,
  text,
} from "../../core/describe.ts";
import type { Route } from "../../core/route.ts";
import type { Feature } from "../../feature.ts";
import { COOKIE } from "./credentials.ts";
import { FACT_HEADERS } from "./problem.ts";
import { addressName } from "./route-tree.ts";

export const VERSION = "0.1.0";
const ERROR_CODES = Object.keys(errors) as ErrorCode[];

const PROJECT =
  "The tenant. If it is omitted together with its slash, the project is `default`: `/v1/stream/a` is `/v1/default/stream/a`.";

export const retryAfter = parameter(header.retryAfter, "Seconds to wait before a retry.", count(0));
const challenge = parameter("WWW-Authenticate", "How to authenticate.", text);
const allow = parameter(header.allow, "The methods that this address allows.", text);

/** RFC 9457, with the server's own code. */
const PROBLEM: Schema = {
  type: "object",
  description: "A refusal (RFC 9457).",
  required: ["type", "title", "status", "detail", "code", "retryable"],
  properties: {
    type: { type: "string", description: "urn:sluice:problem: and the code." },
    title: { type: "string" },
    status: { type: "integer" },
    detail: { type: "string", description: "What was wrong with this request." },
    code: { type: "string", enum: ERROR_CODES },
    retryable: { type: "boolean", description: "Whether the same request may succeed later." },
  },
};

export function openapiDocument(features: readonly Feature[]): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const feature of features) {
    for (const route of feature.routes) {
      const { methods, address } = route;
      for (const [i, method] of methods.entries()) {
        paths[address] ??= {};
        const suffix = i === 0 ? "" : `.${method.toLowerCase()}`;
        paths[address][method.toLowerCase()] = operation(features, feature, route, suffix);
      }
    }
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Sluice",
      version: VERSION,
      summary: "One durable log, every way to subscribe.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    tags: features.map(({ title }) => ({ name: title })),
    paths,
    components: {
      schemas: { Problem: PROBLEM },
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT" },
        cookie: { type: "apiKey", in: "cookie", name: COOKIE, description: "The same JWT; the Origin is checked." },
        wake: { type: "http", scheme: "bearer", description: "The token that came with a wake." },
      },
    },
  };
}

function operation(features: readonly Feature[], feature: Feature, route: Route, suffix: string): object {
  const { name, address } = route;
  const { summary, says: description, query = [], headers = [], body } = route.describe;
  // OpenAPI describes Content-Type by the content itself.
  const sent = headers.filter((one) => one.name.toLowerCase() !== "content-type");
  return {
    operationId: name + suffix,
    tags: [feature.title],
    summary,
    ...(description === undefined ? {} : { description }),
    parameters: [
      ...namesIn(address).map((parameter) => ({
        name: parameter,
        in: "path",
        required: true,
        description: parameter === "project" ? PROJECT : addressName(features, feature, `{${parameter}}`).says,
        schema: { type: "string" },
      })),
      ...query.map((parameter) => described(parameter, "query")),
      ...sent.map((parameter) => described(parameter, "header")),
    ],
    ...(body === undefined
      ? {}
      : { requestBody: { required: body.isRequired, content: contentOf(body.content, "input") } }),
    responses: responses(route),
    ...securityOf(route),
  };
}

function namesIn(address: string): string[] {
  return [...address.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter!);
}

function described({ name, says: description, schema }: Parameter, where: "query" | "header"): object {
  return { name, in: where, description, schema };
}

function securityOf({ need }: Route): object {
  if (need === "none") return { security: [] };
  if (need === "own-proof") return { security: [{ wake: [] }] };
  return { security: [{ bearer: [] }, { cookie: [] }], "x-sluice-scope": need };
}

function responses(route: Route): object {
  const found: Record<string, object> = {};
  for (const [status, outcome] of Object.entries(route.describe.answers)) found[status] = response(outcome);
  for (const [status, codes] of refusalsOf(route)) {
    // Readiness answers 503 in a shape of its own.
    found[status] ??= refusal(status, codes);
  }
  return found;
}

function response({ says: description, headers = [], content }: Outcome): object {
  return {
    description,
    ...(headers.length === 0 ? {} : { headers: headersOf(headers) }),
    ...(content === undefined ? {} : { content: contentOf(content, "output") }),
  };
}

function headersOf(headers: readonly Parameter[]): object {
  return Object.fromEntries(headers.map(({ name, says: description, schema }) => [name, { description, schema }]));
}

function contentOf(content: Content, io: "input" | "output"): object {
  return Object.fromEntries(
    Object.entries(content).map(([mediaType, schema]) => [mediaType, { schema: schemaOf(schema, io) }]),
  );
}

function schemaOf(schema: z.ZodType | Schema, io: "input" | "output"): object {
  if (!(schema instanceof z.ZodType)) return schema;
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}

/** The codes that a route may refuse with, by status: its own, those of its address, of auth, and of the server. */
function refusalsOf(route: Route): ReadonlyMap<number, readonly ErrorCode[]> {
  const { refuses, body } = route.describe;
  const names = namesIn(route.address);
  const codes: ErrorCode[] = [...refuses];
  if (names.length > 0) codes.push("bad-request");
  if (names.includes("project")) codes.push("bad-project");
  if (names.includes("path")) codes.push("bad-path");
  if (!isOpen(route)) {
    codes.push("unauthenticated", "token-invalid", "token-expired", "forbidden", "keys-unavailable");
  }
  codes.push("host-not-allowed");
  if (!route.methods.includes("GET") && !route.methods.includes("HEAD")) codes.push("origin-not-allowed");
  if (names.length > 0) codes.push("storage-full", "storage-failed", "unavailable", "data-damaged");
  if (body !== undefined) codes.push("body-timeout");
  codes.push("memory-full", "internal");
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set(codes)) {
    const { status } = errors[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return byStatus;
}

/** The facts that come with a refusal. */
const REFUSAL_FACTS: Partial<Readonly<Record<ErrorCode, readonly (keyof typeof FACT_HEADERS)[]>>> = {
  "stream-closed": ["closed", "nextOffset"],
  "offset-ahead": ["nextOffset"],
  "offset-trimmed": ["earliestOffset"],
  "producer-fenced": ["producerEpoch"],
  "producer-gap": ["expectedSeq", "receivedSeq"],
};
const CHALLENGING: readonly ErrorCode[] = ["unauthenticated", "token-invalid", "token-expired", "forbidden"];

function refusalHeaders(codes: readonly ErrorCode[]): Parameter[] {
  const facts = codes.flatMap((code) => REFUSAL_FACTS[code] ?? []);
  const headers = facts.map((fact) => parameter(FACT_HEADERS[fact]!, "See the description of the refusal.", text));
  if (codes.some((code) => CHALLENGING.includes(code))) headers.unshift(challenge);
  return headers;
}

/** For pages of other origins: the request headers that they may send, and the response headers that they may read. */
export function headersOnTheWire(features: readonly Feature[]): { asked: readonly string[]; told: readonly string[] } {
  const asked = new Set(["Authorization"]);
  const told = new Set([...Object.values(FACT_HEADERS), allow.name, retryAfter.name, challenge.name]);
  for (const { describe } of features.flatMap(({ routes }) => routes)) {
    for (const { name } of describe.headers ?? []) asked.add(name);
    for (const { headers = [] } of Object.values(describe.answers)) for (const { name } of headers) told.add(name);
  }
  return { asked: [...asked], told: [...told] };
}

function refusal(status: number, codes: readonly ErrorCode[]): object {
  const headers = refusalHeaders(codes);
  if (status === 503 || status === 429) headers.push(retryAfter);
  return {
    description: codes.map((code) => `${errors[code].title} (${code}).`).join(" "),
    ...(headers.length === 0 ? {} : { headers: headersOf(headers) }),
    content: {
      "application/problem+json": {
        schema: {
          allOf: [{ $ref: "#/components/schemas/Problem" }],
          properties: { code: { type: "string", enum: codes } },
        },
      },
    },
  };
}
