import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020 } from "ajv/dist/2020.js";
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { published } from "../../packages/server/src/channels/bodies.ts";
import * as bodies from "../../packages/server/src/sessions/bodies.ts";
import { envelopes } from "../../packages/server/src/streams/describe.ts";
import { serverForTest } from "../e2e/server.ts";
import { ROUTES } from "../support/routes.ts";
import { type Answer, type Asked, AuthApp } from "./app.ts";
import { MATRIX, SESSION_ID } from "./matrix.ts";

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly { name: string; in: string }[];
  readonly requestBody?: { content: Record<string, { schema: object }> };
  readonly responses: Record<string, { headers?: object; content?: Record<string, { schema: object }> }>;
  readonly security: readonly Record<string, unknown>[];
}

interface Document {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { schemas: { Problem: object } };
}

let document: Document;
beforeAll(async () => {
  const { body, headers } = await new AuthApp().call("GET", "/openapi.json");
  expect(headers["content-type"]).toBe("application/json");
  document = body;
});

const ajv = new Ajv2020({ strict: false, validateFormats: false });
const compiled = new Map<string, ReturnType<typeof ajv.compile>>();

/** Returns why the value does not fit the schema, or undefined. */
function misfit(schema: object, value: unknown): string | undefined {
  const text = JSON.stringify(schema).replaceAll("#/components/schemas/Problem", "#/$defs/Problem");
  const validate = compiled.get(text) ?? ajv.compile({ ...JSON.parse(text), $defs: document.components.schemas });
  compiled.set(text, validate);
  return validate(value) ? undefined : ajv.errorsText(validate.errors);
}

function operationOf(name: string): Operation {
  const { address, methods } = ROUTES.get(name)!;
  return document.paths[address]![methods[0]!.toLowerCase()]!;
}

/** Expects the document to announce the answer for the route: status, media type, shape, headers. */
function expectAnnounced(name: string, { status, headers, text, body }: Answer): void {
  const announced = operationOf(name).responses[status];
  expect(announced, `${name} ${status}: ${text}`).toBeDefined();
  const mediaType = headers["content-type"]?.split(";")[0];
  if (text !== "") {
    const content = announced!.content?.[mediaType!] ?? announced!.content?.["*/*"];
    expect(content, `${name} ${status} ${mediaType}`).toBeDefined();
    expect(misfit(content!.schema, body ?? text), `${name} ${status} ${text}`).toBeUndefined();
  }
  const known = Object.keys(announced!.headers ?? {}).map((header) => header.toLowerCase());
  const ours = Object.keys(headers).filter((header) =>
    /^(stream|producer)-|^(etag|location|retry-after|www-auth)/.test(header),
  );
  for (const header of ours) expect(known, `${name} ${status}`).toContain(header);
}

describe("the OpenAPI document", () => {
  it("is valid OpenAPI 3.1", async () => {
    const result = await new Validator().validate(structuredClone(document) as never);
    expect(result.valid, JSON.stringify(result.errors)?.slice(0, 2_000)).toBe(true);
    expect(document).toMatchObject({ openapi: "3.1.0" });
  });

  it("describes every route of the table, and no other", () => {
    const described = Object.entries(document.paths).flatMap(([address, item]) =>
      Object.keys(item).map((method) => `${method.toUpperCase()} ${address}`),
    );
    const routes = [...ROUTES.values()].flatMap(({ methods, address }) =>
      methods.map((method) => `${method} ${address}`),
    );
    expect(described.sort()).toEqual(routes.sort());
    const ids = Object.values(document.paths).flatMap((item) =>
      Object.values(item).map(({ operationId }) => operationId),
    );
    expect(new Set(ids).size).toBe(ids.length);
    for (const name of ROUTES.keys()) expect(ids).toContain(name);
  });

  it("marks the same routes as open as the matrix does", () => {
    for (const [name, { lets }] of Object.entries(MATRIX)) {
      const schemes = operationOf(name as string).security.flatMap(Object.keys);
      const expected = lets === "every-caller" ? [] : lets === "own-proof" ? ["wake"] : ["bearer", "cookie"];
      expect(schemes, name).toEqual(expected);
    }
  });

  it("announces every answer that the matrix gets", async () => {
    for (const [routeName, row] of Object.entries(MATRIX)) {
      const name = routeName as string;
      const app = new AuthApp();
      const prepared = ((await row.before?.(app)) ?? {}) as Asked;
      const ask = (asked: Asked) => app.call(row.method, row.target, { body: prepared.body ?? row.body, ...asked });
      const tokens = [
        undefined,
        "x.y.z",
        await app.token({ ttlSeconds: 1 }, undefined, 0),
        await app.token({ scope: "read", streams: [] }),
        prepared.token ?? (await app.token({ scope: "admin" })),
      ];
      for (const token of tokens) expectAnnounced(name, await ask({ token }));
    }
  });

  it("announces the answers and refusals of streams", async () => {
    const app = new AuthApp({ projects: {} });
    const ask = async (name: string, method: string, target: string, asked: Asked = {}, status?: number) => {
      const answer = await app.call(method, target, asked);
      if (status !== undefined) expect(answer.status, `${method} ${target} ${answer.text}`).toBe(status);
      expectAnnounced(name, answer);
    };
    const stream = "/v1/p/stream/s";
    const producer = { "producer-id": "x", "producer-epoch": "0", "producer-seq": "0" };
    await ask("stream.create", "PUT", stream, { headers: { "stream-ttl": "60", "stream-max-messages": "10" } }, 201);
    await ask("stream.create", "PUT", stream, { headers: { "stream-ttl": "60", "stream-max-messages": "10" } }, 200);
    await ask("stream.create", "PUT", stream, {}, 409);
    await ask("stream.create", "PUT", stream, { headers: { "stream-ttl": "x" } }, 400);
    await ask("stream.create", "PUT", "/v1/p/stream/$x", {}, 403);
    await ask("stream.append", "POST", stream, { body: [1] }, 204);
    await ask("stream.append", "POST", stream, { body: [1], headers: producer }, 200);
    await ask("stream.append", "POST", stream, { body: [1], headers: producer }, 204);
    await ask("stream.append", "POST", stream, { body: [1], headers: { ...producer, "producer-seq": "9" } }, 409);
    await ask("stream.append", "POST", stream, { body: "{", headers: {} }, 400);
    await ask("stream.append", "POST", "/v1/p/stream/none", { body: [1] }, 404);
    await ask("stream.read", "GET", `${stream}?offset=-1`, {}, 200);
    await ask("stream.read", "GET", `${stream}?offset=-1&format=envelope`, {}, 200);
    const enveloped = await app.call("GET", `${stream}?offset=-1&format=envelope`);
    expect(z.strictObject(envelopes.element.shape).array().safeParse(enveloped.body).error).toBeUndefined();
    await ask("stream.read", "GET", `${stream}?offset=now`, {}, 200);
    await ask("stream.read", "GET", `${stream}?offset=nonsense`, {}, 400);
    const { headers } = await app.call("GET", `${stream}?offset=-1`);
    await ask("stream.read", "GET", `${stream}?offset=-1`, { headers: { "if-none-match": headers.etag! } }, 304);
    await ask("stream.head", "HEAD", stream, {}, 200);
    await ask("streams.list", "GET", "/v1/p/streams?limit=1", {}, 200);
    await ask("streams.list", "GET", "/v1/p/streams?limit=0", {}, 400);
    await ask("streams.list", "GET", "/v1/a.b/streams", {}, 400);
    await ask("stream.append", "POST", stream, { headers: { "stream-closed": "true" } }, 204);
    await ask("stream.append", "POST", stream, { body: [1] }, 409);
    await ask("stream.delete", "DELETE", stream, {}, 204);
    await ask("stream.delete", "DELETE", stream, {}, 404);
    app.app.drain();
    await ask("ready", "GET", "/ready", {}, 503);
    await ask("stream.read", "GET", `${stream}?offset=-1&live=sse`, {}, 503);
  });

  it("announces the answers and refusals of channels", async () => {
    const app = new AuthApp({ projects: {}, channel: { rate: 9, windowMs: 1_000, bodyBytes: 200 } });
    const channel = "/v1/p/channels/c";
    const publish = async (body: unknown, status: number) => {
      const answer = await app.call("POST", `${channel}/publish`, { body });
      expect(answer.status, answer.text).toBe(status);
      expectAnnounced("channel.publish", answer);
      return answer;
    };
    const events = async (search: string, status: number, headers = {}) => {
      const answer = await app.call("GET", `${channel}/events${search}`, { headers });
      expect(answer.status, answer.text).toBe(status);
      expectAnnounced("channel.events", answer);
    };
    const start = { phase: "START", sequence: 0 };
    await events("", 404);
    await publish({ phase: "DELTA", sequence: 1 }, 409);
    await publish(start, 202);
    await publish({ phase: "START", sequence: 1 }, 409);
    const { body } = await publish({ messages: [start, { phase: "DELTA", sequence: 5 }] }, 202);
    expect(published.strict().safeParse(body).error).toBeUndefined();
    await publish({ phase: "DELTA", sequence: 3 }, 409);
    await publish("{", 400);
    await publish({ ...start, payload: "x".repeat(200) }, 413);
    const { body: end } = await publish({ phase: "END", sequence: 6 }, 202);
    await publish({ phase: "DELTA", sequence: 7 }, 409);
    await publish(start, 202);
    await publish(start, 429);
    await events("", 200);
    await events("?from=nonsense", 400);
    await events("?wait=perhaps", 400);
    await events("", 204, { "last-event-id": end.offset });
    app.app.drain();
    await events("", 503);
  });

  it("holds the schemas that validate a channel publish", async () => {
    const { schema } = operationOf("channel.publish").requestBody!.content["application/json"]!;
    const app = new AuthApp({ projects: {}, channel: { rate: 1_000 } });
    const good = { phase: "START", sequence: 0, messageId: "m", payload: { any: [null] } };
    const status = async (body: object) => (await app.call("POST", "/v1/p/channels/c/publish", { body })).status;
    for (const right of [good, { messages: [good] }]) {
      expect(misfit(schema, right)).toBeUndefined();
      expect(await status(right)).toBe(202);
    }
    for (const wrong of [
      { ...good, phase: "STOP" },
      { ...good, sequence: -1 },
      { ...good, sequence: 0.5 },
      { ...good, messageId: "" },
      { ...good, messageId: 1 },
      { ...good, more: 1 },
      { messages: [] },
      { messages: [good], more: 1 },
      { messages: [{ ...good, phase: undefined }] },
    ]) {
      expect(misfit(schema, JSON.parse(JSON.stringify(wrong))), JSON.stringify(wrong)).toBeDefined();
      expect(await status(wrong)).toBe(400);
    }
  });

  it("announces the answers and refusals of sessions", async () => {
    const app = new AuthApp({ projects: {}, session: { subscriptions: 2 }, internal: { session: { bodyBytes: 500 } } });
    const ask = async (name: string, target: string, status: number, asked: Asked = {}) => {
      const answer = await app.call(ROUTES.get(name)!.methods[0]!, `/v1/p${target}`, asked);
      expect(answer.status, `${name} ${target} ${answer.text}`).toBe(status);
      expectAnnounced(name, answer);
      return answer.body;
    };
    const [sessionId, streamId] = [SESSION_ID, "s"];
    const subscribe = (status: number, more: object = {}) =>
      ask("subscribe", "/subscribe", status, { body: { sessionId, streamId, ...more } });
    await subscribe(404);
    await app.call("PUT", "/v1/p/stream/s", { headers: { "stream-max-messages": "2" } });
    await app.call("PUT", "/v1/p/stream/t", { headers: { "content-type": "text/plain" } });
    expect(bodies.subscribed.strict().safeParse(await subscribe(200)).error).toBeUndefined();
    await subscribe(409, { streamId: "t" });
    await subscribe(409, { format: "envelope" });
    await subscribe(400, { sessionId: "x" });
    await subscribe(400, { streamId: "a/../b" });
    await subscribe(413, { streamId: "x".repeat(600) });
    await subscribe(403, { streamId: "session:x" });
    const early = (await app.call("POST", "/v1/p/stream/s", { body: [0] })).headers["stream-next-offset"]!;
    await subscribe(400, { from: `${early.split("_")[0]}_0000000000009999` });
    for (let i = 0; i < 9; i++) {
      await ask("publish", "/publish/s", 204, { body: [i] });
      // Fan-out renews its hold every few seconds.
      app.world.advance(5_000);
    }
    await subscribe(410, { from: early });
    await subscribe(200, { streamId: "t", format: "envelope" });
    await app.call("PUT", "/v1/p/stream/u");
    await subscribe(409, { streamId: "u" });
    await ask("publish", "/publish/none", 404, { body: [1] });
    await ask("publish", "/publish/s", 400, { body: "{" });
    await ask("publish", "/publish/a%20b", 400, { body: [1] });
    await ask("publish", "/publish/session:x", 403, { body: [1] });
    await ask("publish", "/publish/t", 409, { body: [1] });
    const producer = { "producer-id": "x", "producer-epoch": "0", "producer-seq": "0" };
    await ask("publish", "/publish/s", 200, { body: [1], headers: producer });
    await ask("publish", "/publish/s", 409, { body: [1], headers: { ...producer, "producer-seq": "9" } });
    const info = await ask("session.get", `/session/${sessionId}`, 200);
    expect(bodies.sessionInfo.strict().safeParse(info).error).toBeUndefined();
    const touched = await ask("session.touch", `/session/${sessionId}/touch`, 200);
    expect(bodies.touched.strict().safeParse(touched).error).toBeUndefined();
    for (const name of ["session.get", "session.touch", "session.delete"] as const) {
      const more = name === "session.touch" ? "/touch" : "";
      await ask(name, `/session/x${more}`, 400);
      await ask(name, `/session/00000000-0000-4000-8000-000000000000${more}`, 404);
    }
    const unsubscribe = (status: number, body: object) => ask("unsubscribe", "/unsubscribe", status, { body });
    await unsubscribe(204, { sessionId, streamId });
    await unsubscribe(400, { sessionId });
    await unsubscribe(404, { sessionId: "00000000-0000-4000-8000-000000000000", streamId });
    await unsubscribe(413, { sessionId, streamId: "x".repeat(600) });
    await ask("session.delete", `/session/${sessionId}`, 204);
  });

  it("holds the schemas that validate a subscribe", async () => {
    const app = new AuthApp({ projects: {} });
    await app.call("PUT", "/v1/p/stream/s");
    const good = { sessionId: SESSION_ID, streamId: "s", format: "raw", from: "-1" };
    for (const [name, fields] of [
      ["subscribe", good],
      ["unsubscribe", { sessionId: SESSION_ID, streamId: "s" }],
    ] as const) {
      const { schema } = operationOf(name).requestBody!.content["application/json"]!;
      const status = async (body: object) =>
        (await app.call(ROUTES.get(name)!.methods[0]!, `/v1/p/${name}`, { body })).status;
      expect(misfit(schema, fields)).toBeUndefined();
      expect(await status(fields)).toBeLessThan(300);
      for (const wrong of [
        { ...fields, sessionId: "user-alice" },
        { ...fields, sessionId: 7 },
        { ...fields, streamId: "a b" },
        { ...fields, streamId: "" },
        { ...fields, streamId: "x".repeat(1_025) },
        { sessionId: SESSION_ID },
        { ...fields, more: 1 },
        ...(name === "subscribe"
          ? [
              { ...fields, format: "xml" },
              { ...fields, from: 7 },
            ]
          : []),
      ]) {
        expect(misfit(schema, wrong), JSON.stringify(wrong).slice(0, 99)).toBeDefined();
        expect(await status(wrong)).toBe(400);
      }
    }
  });

  it("holds the schemas that validate request bodies", async () => {
    const { schema } = operationOf("ds.subscription.put").requestBody!.content["application/json"]!;
    const good = { type: "pull-wake", streams: ["a"], wake_stream: "w" };
    const app = new AuthApp({ projects: {} });
    const status = async (body: object) =>
      (await app.call("PUT", "/v1/p/stream/__ds/subscriptions/s", { body })).status;
    expect(misfit(schema, good)).toBeUndefined();
    expect(await status(good)).toBe(201);
    for (const wrong of [
      { ...good, type: "push" },
      { ...good, more: 1 },
      { ...good, streams: "a" },
      { ...good, streams: [1] },
      { ...good, lease_ttl_ms: 999 },
      { ...good, lease_ttl_ms: 1_000.5 },
      { ...good, description: "x".repeat(1_025) },
      { ...good, webhook: {} },
    ]) {
      expect(misfit(schema, wrong), JSON.stringify(wrong).slice(0, 99)).toBeDefined();
      expect(await status(wrong)).toBe(400);
    }
  });

  it("is served to every caller, and browsers may read its headers", async () => {
    const { url } = await serverForTest("memory", { cors: { origins: ["*"] } });
    const response = await fetch(`${url}/openapi.json`);
    expect(await response.json()).toEqual(document);
    expect((await fetch(`${url}/openapi.json`, { method: "POST" })).status).toBe(405);
    const preflight = await fetch(`${url}/v1/stream/x`, { method: "OPTIONS" });
    const allowed = preflight.headers.get("access-control-allow-headers")!.split(", ");
    const exposed = preflight.headers.get("access-control-expose-headers")!.split(", ");
    for (const item of Object.values(document.paths)) {
      for (const { parameters, responses } of Object.values(item)) {
        for (const parameter of parameters) if (parameter.in === "header") expect(allowed).toContain(parameter.name);
        for (const { headers = {} } of Object.values(responses)) {
          for (const name of Object.keys(headers)) expect(exposed).toContain(name);
        }
      }
    }
  });
});
