/**
 * The OpenAPI 3.1 document, made from the route table, the descriptions of the routes, the schemas that validate bodies, the
 * needs that auth decides by and the error table. Nothing in it is written down a second time.
 */
import { type ErrorCode, errors } from "@sluice/protocol";
import { z } from "zod";
import { COOKIE } from "../../../auth/credentials.ts";
import { NEEDS } from "../../../auth/decide.ts";
import type { ChannelLimits } from "../../../channels/limits.ts";
import type { RouteName } from "../../../core/action.ts";
import type { ListLimits } from "../../../streams/limits.ts";
import { wakeBodies } from "../../../wakes/bodies.ts";
import type { WakeLimits } from "../../../wakes/limits.ts";
import { ROUTES } from "../routes-table.ts";
import { channelRoutes } from "./channel-routes.ts";
import { says } from "./headers.ts";
import { serverRoutes } from "./server-routes.ts";
import { sessionRoutes } from "./session-routes.ts";
import type { Content, Description, Outcome, Parameter, Schema } from "./shape.ts";
import { streamRoutes } from "./stream-routes.ts";
import { wakeRoutes } from "./wake-routes.ts";

type Descriptions = Readonly<Record<RouteName, Description>>;

/** The limits that the document tells, because bodies and queries are held against them. */
export interface DescribedLimits {
  readonly wake: WakeLimits;
  readonly list: ListLimits;
  readonly channel: ChannelLimits;
}

function descriptionsFor({ wake, list, channel }: DescribedLimits): Descriptions {
  return {
    ...streamRoutes(list),
    ...wakeRoutes(wakeBodies(wake)),
    ...sessionRoutes,
    ...channelRoutes(channel),
    ...serverRoutes,
  };
}

const VERSION = "0.1.0";
const ERROR_CODES = Object.keys(errors) as ErrorCode[];

const PATH_PARAMETERS: Readonly<Record<string, string>> = {
  project:
    "The tenant. Left out together with its slash, it is the project `default`: `/v1/stream/a` is `/v1/default/stream/a`.",
  path: "A stream's path. It may hold slashes, percent-encoded or not.",
  subscription: "The id of a wake subscription, in 1 to 256 bytes.",
  session: "The id of a session, a UUID.",
  channel: "The id of a channel, in 1 to 256 bytes; percent-encoded.",
};

/** RFC 9457, with our code. */
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

export function openapiDocument(limits: DescribedLimits): object {
  const descriptions = descriptionsFor(limits);
  const paths: Record<string, Record<string, object>> = {};
  for (const [name, { methods, address }] of Object.entries(ROUTES)) {
    for (const [i, method] of methods.entries()) {
      paths[address] ??= {};
      paths[address][method.toLowerCase()] = operation(
        descriptions,
        name as RouteName,
        address,
        i === 0 ? "" : `.${method.toLowerCase()}`,
      );
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
    tags: [{ name: "Streams" }, { name: "Wake subscriptions" }, { name: "Channels" }, { name: "Server" }],
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

function operation(descriptions: Descriptions, name: RouteName, address: string, suffix: string): object {
  const { tag, summary, says: description, query = [], headers = [], body } = descriptions[name];
  // OpenAPI describes Content-Type by the content itself.
  const sent = headers.filter((one) => one.name.toLowerCase() !== "content-type");
  return {
    operationId: name + suffix,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    parameters: [
      ...namesIn(address).map((parameter) => ({
        name: parameter,
        in: "path",
        required: true,
        description: PATH_PARAMETERS[parameter],
        schema: { type: "string" },
      })),
      ...query.map((parameter) => described(parameter, "query")),
      ...sent.map((parameter) => described(parameter, "header")),
    ],
    ...(body === undefined
      ? {}
      : { requestBody: { required: body.isRequired, content: contentOf(body.content, "input") } }),
    responses: responses(name, descriptions[name], address),
    ...securityOf(name),
  };
}

function namesIn(address: string): string[] {
  return [...address.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter!);
}

function described({ name, says: description, schema }: Parameter, where: "query" | "header"): object {
  return { name, in: where, description, schema };
}

function securityOf(name: RouteName): object {
  const need = NEEDS[name];
  if (need === "none") return { security: [] };
  if (need === "own-proof") return { security: [{ wake: [] }] };
  return { security: [{ bearer: [] }, { cookie: [] }], "x-sluice-scope": need };
}

function responses(name: RouteName, description: Description, address: string): object {
  const { answers } = description;
  const found: Record<string, object> = {};
  for (const [status, outcome] of Object.entries(answers)) found[status] = response(outcome);
  for (const [status, codes] of refusalsOf(name, description, address)) {
    // What is not ready answers in a shape of its own.
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

/** The codes a route may refuse with, by status: its own, those of its address, of auth, and of the server. */
function refusalsOf(
  name: RouteName,
  { refuses, body }: Description,
  address: string,
): ReadonlyMap<number, readonly ErrorCode[]> {
  const names = namesIn(address);
  const codes: ErrorCode[] = [...refuses];
  if (names.length > 0) codes.push("bad-request");
  if (names.includes("project")) codes.push("bad-project");
  if (names.includes("path")) codes.push("bad-path");
  const need = NEEDS[name];
  if (need !== "none" && need !== "own-proof") {
    codes.push("unauthenticated", "token-invalid", "token-expired", "forbidden", "keys-unavailable");
  }
  if (names.length > 0) codes.push("storage-full", "storage-failed", "unavailable", "data-damaged");
  if (body !== undefined) codes.push("body-timeout");
  codes.push("internal");
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set(codes)) {
    const { status } = errors[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return byStatus;
}

/** The headers that come with a refusal. */
const REFUSAL_HEADERS: Partial<Readonly<Record<ErrorCode, readonly Parameter[]>>> = {
  unauthenticated: [says.challenge],
  "token-invalid": [says.challenge],
  "token-expired": [says.challenge],
  forbidden: [says.challenge],
  "stream-closed": [says.closed, says.nextOffset],
  "offset-ahead": [says.nextOffset],
  "offset-trimmed": [says.earliestOffset],
  "producer-fenced": [says.producerEpoch],
  "producer-gap": [says.producerExpected, says.producerReceived],
};

function refusal(status: number, codes: readonly ErrorCode[]): object {
  const headers = codes.flatMap((code) => REFUSAL_HEADERS[code] ?? []);
  if (status === 503 || status === 429) headers.push(says.retryAfter);
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
