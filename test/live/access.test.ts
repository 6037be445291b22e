/** Who may use a session and its connection, by which token, and until when. */
import { describe, expect, it } from "vitest";
import { mint } from "../../packages/server/src/auth/mint.ts";
import type { ServerOptions } from "../../packages/server/src/server-options.ts";
import { eventually } from "../support/eventually.ts";
import { type LiveNode, openNode } from "./nodes.ts";

const SECRET = "the secret of the default project";
const JSON_STREAM = { "content-type": "application/json" };

interface Claims {
  readonly sub?: string;
  readonly scope?: string;
  readonly streams?: readonly string[];
  readonly ttlSeconds?: number;
}

function guarded(options: ServerOptions = {}) {
  const projects = { default: { secrets: [SECRET] }, other: { secrets: [`${SECRET}!`] } };
  const node = openNode({ ...options, projects });
  const token = ({ scope = "read write", ttlSeconds = 3_600, ...claims }: Claims = {}) =>
    mint(SECRET, { scope, ttlSeconds, ...claims }, node.world.now());
  return { node, token };
}

/** A session of Ada's that follows a/b, and its token. */
async function hers(node: LiveNode, ada: string) {
  const admin = await mint(SECRET, { scope: "admin", ttlSeconds: 3_600 }, node.world.now());
  await node.done("PUT", "/v1/stream/a/b", { token: admin, headers: JSON_STREAM });
  const { sessionId, token } = await node.done("POST", "/v1/sessions", { token: ada, body: {} });
  await node.subscribe(sessionId, "a/b", ada);
  const append = (value: unknown) => node.done("POST", "/v1/stream/a/b", { token: admin, body: [value] });
  return { sessionId, sessionToken: token as string, append };
}

describe("a connection", () => {
  it("is given to the session's user only, so that no other caller is ever delivered to", async () => {
    const { node, token } = guarded();
    const { sessionId, append } = await hers(node, await token({ sub: "ada" }));
    for (const claims of [{ sub: "bob" }, {}]) {
      const reply = await node.admit(sessionId, "", { token: await token(claims) });
      expect([reply.status, reply.live]).toEqual([404, undefined]);
    }
    expect((await node.admit(sessionId)).status).toBe(401);
    const client = await node.connect(sessionId, { token: await token({ sub: "ada" }) });
    await append(1);
    await eventually(() => expect(client.payloads("a/b")).toEqual([1]));
    expect(node.app.live.hub.size).toBe(1);
  });

  it("cannot be told of by another caller: a heartbeat for another's session says that there is none", async () => {
    const { node, token } = guarded();
    const ada = await token({ sub: "ada" });
    const { sessionId } = await hers(node, ada);
    const [{ lastOffset }] = await node.done("GET", `/v1/session-offsets/${sessionId}`, { token: ada });
    const body = { sessionId, offsets: [{ streamId: "a/b", lastOffset: `${lastOffset.slice(0, -1)}9` }] };
    const answer = await node.call("POST", "/v1/heartbeat", { token: await token({ sub: "bob" }), body });
    expect(answer).toMatchObject({ status: 404, body: { code: "session-not-found" } });
  });

  it("opens with the token of its session in the address, and with no other token there", async () => {
    const { node, token } = guarded();
    const ada = await token({ sub: "ada" });
    const { sessionId, sessionToken, append } = await hers(node, ada);
    const client = await node.connect(sessionId, { query: `?token=${sessionToken}` });
    await append(1);
    await eventually(() => expect(client.payloads("a/b")).toEqual([1]));
    expect((await node.admit(sessionId, `?token=${ada}`)).status).toBe(401);
    expect((await node.admit(sessionId, `?token=${sessionToken}x`)).status).toBe(401);
    const other = await node.done("POST", "/v1/sessions", { token: ada, body: {} });
    expect((await node.admit(other.sessionId, `?token=${sessionToken}`)).status).toBe(403);
  });

  it("opens with the cookie, over SSE and WebSocket, from the server's own pages and those that CORS allows credentials", async () => {
    const { node, token } = guarded({ cors: { origins: ["https://app.example"], credentials: true } });
    const ada = await token({ sub: "ada" });
    const { sessionId } = await hers(node, ada);
    const statusFrom = async (origin: string | undefined, isUpgrade: boolean, cookie = `sluice_token=${ada}`) => {
      const headers: Record<string, string> = origin === undefined ? { cookie } : { cookie, origin };
      const { status } = await node.admit(sessionId, "", { headers, isUpgrade });
      return status;
    };
    for (const origin of ["http://sluice.test", "https://app.example"]) {
      expect([await statusFrom(origin, false), await statusFrom(origin, true)], origin).toEqual([200, 101]);
    }
    for (const origin of ["https://evil.example", "null"]) {
      expect([await statusFrom(origin, false), await statusFrom(origin, true)], origin).toEqual([403, 403]);
    }
    // A browser names the page of every WebSocket. Without its name the cookie opens what only reads.
    expect([await statusFrom(undefined, false), await statusFrom(undefined, true)]).toEqual([200, 403]);
    const bob = `sluice_token=${await token({ sub: "bob" })}`;
    expect(await statusFrom("http://sluice.test", true, bob)).toBe(404);
  });

  it("follows only the streams that its token sees", async () => {
    const { node, token } = guarded();
    const { sessionId, append } = await hers(node, await token({ sub: "ada" }));
    const client = await node.connect(sessionId, { token: await token({ sub: "ada", streams: ["c/#"] }) });
    await append(1);
    // Subscribed while it is connected, by a caller that may.
    const admin = await token({ scope: "admin" });
    for (const stream of ["b/d", "c/d"]) {
      await node.done("PUT", `/v1/stream/${stream}`, { token: admin, headers: JSON_STREAM });
      await node.subscribe(sessionId, stream, await token({ sub: "ada" }));
      await node.done("POST", `/v1/stream/${stream}`, { token: admin, body: [1] });
    }
    await eventually(() => expect(client.payloads("c/d")).toEqual([1]));
    expect(client.payloads("b/d")).toEqual([]);
    const full = await node.connect(sessionId, { token: await token({ sub: "ada" }) });
    await append(2);
    await eventually(() => expect(full.payloads("a/b")).toEqual([2]));
    expect(client.payloads("a/b")).toEqual([]);
  });

  it("ends with bye when its token ends, unless the token of the session is renewed", async () => {
    const { node, token } = guarded();
    const ada = await token({ sub: "ada" });
    const { sessionId, sessionToken } = await hers(node, ada);
    const client = await node.connect(sessionId, { query: `?token=${sessionToken}` });
    node.world.advance(590_000);
    await node.done("POST", "/v1/sessions", { token: ada, body: { sessionId } });
    await new Promise((resolve) => setImmediate(resolve));
    node.world.advance(20_000);
    expect(client.types).toEqual(["hello"]);
    node.world.advance(590_000);
    expect(await client.next("bye")).toMatchObject({ code: "token-expired", reconnect: true });
  });
});

describe("the token of a session", () => {
  it("suffices for the routes of its session and for reading what the session subscribes to, and for nothing else", async () => {
    const { node, token } = guarded();
    const { sessionId, sessionToken, append } = await hers(node, await token({ sub: "ada" }));
    await append(1);
    const ask = async (method: string, target: string, body?: unknown) =>
      (await node.call(method, target, { token: sessionToken, body })).status;
    const subscription = { sessionId, streamId: "a/b" };
    expect(await ask("POST", "/v1/subscriptions", subscription)).toBe(200);
    expect(await ask("POST", "/v1/heartbeat", { sessionId, offsets: [] })).toBe(200);
    expect(await ask("GET", `/v1/session-offsets/${sessionId}`)).toBe(200);
    expect(await ask("POST", "/v1/sessions", { sessionId })).toBe(200);
    expect(await ask("GET", "/v1/stream/a/b?offset=-1")).toBe(200);
    expect(await ask("DELETE", "/v1/subscriptions", subscription)).toBe(204);
    expect(await ask("GET", "/v1/stream/a/b?offset=-1")).toBe(403);
    expect(await ask("POST", "/v1/stream/a/b", [2])).toBe(403);
    expect(await ask("GET", "/v1/streams")).toBe(403);
    expect(await ask("DELETE", `/v1/session/${sessionId}`)).toBe(403);
    expect(await ask("POST", "/v1/sessions", {})).toBe(403);
    expect(await ask("GET", `/v1/other/session-offsets/${sessionId}`)).toBe(401);
  });

  it("stays within the scope and the streams of the caller that had it minted", async () => {
    const { node, token } = guarded();
    const ada = await token({ sub: "ada", scope: "write", streams: ["a/#"] });
    const { sessionId, sessionToken } = await hers(node, ada);
    expect((await node.call("GET", "/v1/stream/a/b?offset=-1", { token: sessionToken })).status).toBe(403);
    const elsewhere = { token: sessionToken, body: { sessionId, streamId: "b" } };
    expect((await node.call("POST", "/v1/subscriptions", elsewhere)).status).toBe(403);
  });

  it("lives ten minutes, and never longer than the credentials it was minted with, renewed or not", async () => {
    const { node, token } = guarded();
    const { sessionId, sessionToken } = await hers(node, await token({ sub: "ada", ttlSeconds: 900 }));
    node.world.advance(599_000);
    const renewed = await node.done("POST", "/v1/sessions", { token: sessionToken, body: { sessionId } });
    node.world.advance(1_000);
    const ask = async (used: string) =>
      (await node.call("GET", `/v1/session-offsets/${sessionId}`, { token: used })).body.code ?? "answered";
    expect(await ask(sessionToken)).toBe("token-expired");
    expect(await ask(renewed.token)).toBe("answered");
    node.world.advance(300_000);
    expect(await ask(renewed.token)).toBe("token-expired");
  });

  it("is verified with auth off too", async () => {
    const node = openNode();
    const { sessionId, token } = await node.done("POST", "/v1/sessions", { body: {} });
    const other = await node.mint();
    expect((await node.admit(sessionId, `?token=${token}`)).status).toBe(200);
    expect((await node.admit(other, `?token=${token}`)).status).toBe(403);
    expect((await node.admit(sessionId, "?token=sls_forged.x")).status).toBe(401);
    node.world.advance(600_000);
    expect((await node.admit(sessionId, `?token=${token}`)).status).toBe(401);
  });
});
