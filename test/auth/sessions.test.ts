import { describe, expect, it } from "vitest";
import type { AuthorizeVerdict } from "../../packages/server/src/auth/callback-identity.ts";
import { type Answer, type Asked, AuthApp } from "./app.ts";
import { SESSION_ID as HERS, MATRIX } from "./matrix.ts";

const UNKNOWN = "00000000-0000-4000-8000-000000000000";
const INBOX = `/v1/p/stream/session:${HERS}`;

interface SessionCall extends Asked {
  readonly name: string;
  readonly method: string;
  readonly target: string;
  readonly others: "unknown" | "forbidden";
}

/** Every way to name a session: the matrix routes with a session, and the reads of its stream. */
const CALLS: readonly SessionCall[] = [
  ...Object.entries(MATRIX).flatMap(([name, { method, target, body, others }]) =>
    others === undefined ? [] : [{ name, method, target, body, others }],
  ),
  ...[
    ["GET", INBOX],
    ["HEAD", INBOX],
    ["GET", `${INBOX}?offset=-1`],
    ["GET", `${INBOX}?offset=now`],
    ["GET", `${INBOX}?offset=-1&format=envelope`],
    ["GET", `${INBOX}?offset=now&live=long-poll`],
    ["GET", `${INBOX}?offset=-1&live=sse`],
    ["GET", INBOX.replace("session:", "session%3A")],
    ["HEAD", `/v1/p/session/${HERS}`],
  ].map(([method, target]) => ({
    name: `${method} ${target}`,
    method: method!,
    target: target!,
    others: "unknown" as const,
  })),
];

/** The same call on another session. */
function about(call: SessionCall, id: string): SessionCall {
  const { body, ...rest } = JSON.parse(JSON.stringify(call).replaceAll(HERS, id)) as SessionCall;
  return body === undefined ? rest : { ...rest, body };
}

function withoutId({ status, headers, text }: Answer, id: string): unknown {
  return { status, headers, text: text.replaceAll(id, "ID") };
}

async function herSession(app: AuthApp, claims: { sub?: string } = { sub: "ada" }): Promise<string> {
  const token = await app.token(claims);
  await app.prepare("PUT", "/v1/p/stream/a/b", { token });
  await app.prepare("POST", "/v1/p/subscribe", { token, body: { sessionId: HERS, streamId: "a/b" } });
  await app.prepare("POST", "/v1/p/publish/a/b", { token, body: [1] });
  return token;
}

const ask = (app: AuthApp, { method, target, body }: SessionCall, token: string | undefined) =>
  app.call(method, target, { token, ...(body !== undefined && { body }) });

describe("another owner's session", () => {
  it.each(CALLS)("is $others to $name by a caller that does not own it", async (call) => {
    const app = new AuthApp();
    const hers = await herSession(app);
    const before = (await app.call("GET", `/v1/p/session/${HERS}`, { token: hers })).body;
    app.world.advance(1_000);
    for (const sub of ["bob", "Ada", "ada ", undefined]) {
      const token = await app.token(sub === undefined ? {} : { sub });
      const answer = await ask(app, call, token);
      if (call.others === "forbidden") {
        expect(answer).toMatchObject({ status: 403, body: { code: "forbidden" } });
        continue;
      }
      expect(answer.status).toBe(404);
      const unknown = await ask(app, about(call, UNKNOWN), token);
      expect(withoutId(answer, HERS)).toEqual(withoutId(unknown, UNKNOWN));
    }
    // The refused call changed nothing.
    expect((await app.call("GET", `/v1/p/session/${HERS}`, { token: hers })).body).toEqual(before);
    expect(app.reports).toEqual([]);
  });

  it.each(CALLS)("allows $name to its owner and to an admin", async (call) => {
    for (const [sub, scope] of [
      ["ada", "read write"],
      ["root", "admin"],
      [undefined, "admin"],
    ] as const) {
      const app = new AuthApp();
      await herSession(app);
      const token = await app.token({ sub, scope });
      const replying = app.reply(call.method, call.target, { token, body: call.body });
      if (call.target.includes("long-poll")) await app.prepare("POST", "/v1/p/publish/a/b", { body: [2] });
      expect([200, 204], `${sub} ${scope}`).toContain((await replying).status);
    }
  });

  it("belongs to tokens without sub when such a token made it", async () => {
    const app = new AuthApp();
    await herSession(app, {});
    const get = async (sub?: string) =>
      (await app.call("GET", `/v1/p/session/${HERS}`, { token: await app.token(sub === undefined ? {} : { sub }) }))
        .status;
    expect(await get()).toBe(200);
    for (const sub of ["ada", "undefined", "null", ""]) expect(await get(sub), JSON.stringify(sub)).toBe(404);
  });

  it("belongs to its owner in its project only: the same id is free in another", async () => {
    const app = new AuthApp({ auth: { off: true } });
    for (const project of ["p", "q"]) {
      await app.call("PUT", `/v1/${project}/stream/s`);
      const body = { sessionId: HERS, streamId: "s" };
      expect((await app.call("POST", `/v1/${project}/subscribe`, { body })).body.isNewSession).toBe(true);
    }
    await app.call("DELETE", `/v1/p/session/${HERS}`);
    expect((await app.call("GET", `/v1/q/session/${HERS}`)).status).toBe(200);
  });

  it("is free for another owner once it was deleted", async () => {
    const app = new AuthApp();
    const hers = await herSession(app);
    await app.prepare("DELETE", `/v1/p/session/${HERS}`, { token: hers });
    const bob = await app.token({ sub: "bob" });
    const body = { sessionId: HERS, streamId: "a/b" };
    expect((await app.call("POST", "/v1/p/subscribe", { token: bob, body })).body.isNewSession).toBe(true);
    expect((await app.call("GET", `${INBOX}?offset=-1`, { token: bob })).body).toEqual([]);
    expect((await app.call("GET", `${INBOX}?offset=-1`, { token: hers })).status).toBe(404);
  });
});

describe("a callback of the embedding program, for sessions", () => {
  const users: Record<string, AuthorizeVerdict> = {
    ada: { subject: "ada" },
    bob: { subject: "bob" },
    root: { subject: "root", admin: true },
    boss: { admin: true },
    guest: true,
    confined: { subject: "ada", streams: ["x/#"] },
  };

  async function appOfAda(): Promise<(user: string, method: string, target: string, body?: object) => Promise<Answer>> {
    const app = new AuthApp({ authorize: (_, request) => users[request.header("x-user") ?? ""] ?? "unauthenticated" });
    const call = (user: string, method: string, target: string, body?: object) =>
      app.call(method, target, { headers: { "x-user": user }, body });
    await call("ada", "PUT", "/v1/p/stream/a/b");
    expect((await call("ada", "POST", "/v1/p/subscribe", { sessionId: HERS, streamId: "a/b" })).status).toBe(200);
    return call;
  }

  it("names the owner with subject, opens all sessions with admin, and names no owner with true", async () => {
    const call = await appOfAda();
    for (const [user, status] of [
      ["ada", 200],
      ["bob", 404],
      ["root", 200],
      ["boss", 200],
      ["guest", 404],
      ["confined", 200],
    ] as const) {
      expect((await call(user, "GET", `/v1/p/session/${HERS}`)).status, user).toBe(status);
      expect((await call(user, "GET", `${INBOX}?offset=-1`)).status, user).toBe(status);
    }
    expect((await call("stranger", "GET", `/v1/p/session/${HERS}`)).status).toBe(401);
  });

  it("confines subscriptions with streams", async () => {
    const call = await appOfAda();
    await call("ada", "PUT", "/v1/p/stream/x/y");
    const subscribe = (streamId: string) => call("confined", "POST", "/v1/p/subscribe", { sessionId: HERS, streamId });
    expect((await subscribe("a/b")).status).toBe(403);
    expect((await subscribe("x/y")).status).toBe(200);
  });

  it.each<[string, unknown]>([
    ["a subject that is no string", { subject: 7 }],
    ["an admin that is no yes or no", { subject: "ada", admin: "yes" }],
    ["a misspelt field", { subjekt: "ada" }],
    ["an empty object", {}],
  ])("never allows a request with %s: the answer is 500, and the fault is reported", async (_, verdict) => {
    const app = new AuthApp({ authorize: () => verdict as AuthorizeVerdict });
    expect((await app.call("GET", `/v1/p/session/${HERS}`)).status).toBe(500);
    expect(app.reports).toHaveLength(1);
  });
});

describe("a token that is confined to some streams", () => {
  it("may subscribe and publish to those, and may read its session whichever streams that follows", async () => {
    const app = new AuthApp();
    await herSession(app);
    await app.prepare("PUT", "/v1/p/stream/x/y");
    const token = await app.token({ sub: "ada", streams: ["x/#"] });
    const subscribe = async (streamId: string) =>
      (await app.call("POST", "/v1/p/subscribe", { token, body: { sessionId: HERS, streamId } })).status;
    expect(await subscribe("x/y")).toBe(200);
    expect(await subscribe("a/b")).toBe(403);
    expect(await subscribe("none")).toBe(403);
    expect((await app.call("POST", "/v1/p/publish/a/b", { token, body: [1] })).status).toBe(403);
    expect((await app.call("POST", "/v1/p/publish/x/y", { token, body: [2] })).status).toBe(204);
    expect((await app.call("GET", `${INBOX}?offset=-1`, { token })).body).toEqual([1, 2]);
    expect((await app.call("GET", `/v1/p/session/${HERS}`, { token })).body.subscriptions).toHaveLength(2);
    const left = await app.call("DELETE", "/v1/p/unsubscribe", { token, body: { sessionId: HERS, streamId: "a/b" } });
    expect(left.status).toBe(204);
  });
});

describe("the server's own session paths", () => {
  const reserved = { status: 403, body: { code: "reserved-name" } };

  async function withAll(): Promise<{ app: AuthApp; tokens: (string | undefined)[] }> {
    const app = new AuthApp();
    await herSession(app);
    return { app, tokens: [await app.token({ sub: "ada" }), await app.token({ scope: "admin" })] };
  }

  it("cannot be written, created or deleted, by their owner or by an admin", async () => {
    const { app, tokens } = await withAll();
    for (const token of tokens) {
      for (const path of [`session:${HERS}`, `session:${UNKNOWN}`, "session:x", `session%3A${HERS}`]) {
        expect(await app.call("PUT", `/v1/p/stream/${path}`, { token })).toMatchObject(reserved);
        expect(await app.call("POST", `/v1/p/stream/${path}`, { token, body: [1] })).toMatchObject(reserved);
        expect(await app.call("DELETE", `/v1/p/stream/${path}`, { token })).toMatchObject(reserved);
        expect(await app.call("POST", `/v1/p/publish/${path}`, { token, body: [1] })).toMatchObject(reserved);
      }
    }
    expect((await app.call("GET", `${INBOX}?offset=-1`, { token: tokens[0] })).body).toEqual([1]);
  });

  it("appear in no listing", async () => {
    const { app, tokens } = await withAll();
    for (const token of tokens) {
      for (const query of [
        "",
        "?prefix=session",
        "?prefix=session:",
        "?filter=%23",
        "?filter=%2B",
        "?filter=session:%2B",
      ]) {
        const { status, text } = await app.call("GET", `/v1/p/streams${query}`, { token });
        expect(status === 200 || status === 400, text).toBe(true);
        expect(text).not.toContain(HERS);
      }
    }
  });

  it("can be neither followed, nor forked, nor named by a wake subscription", async () => {
    const { app, tokens } = await withAll();
    await app.prepare("PUT", "/v1/p/stream/w");
    for (const token of tokens) {
      const body = { sessionId: UNKNOWN, streamId: `session:${HERS}` };
      expect(await app.call("POST", "/v1/p/subscribe", { token, body })).toMatchObject(reserved);
      for (const source of [`session:${HERS}`, INBOX]) {
        const fork = await app.call("PUT", "/v1/p/stream/f", { token, headers: { "stream-forked-from": source } });
        expect(fork.status, fork.text).toBeGreaterThanOrEqual(400);
        expect((await app.call("HEAD", "/v1/p/stream/f", { token })).status).toBe(404);
      }
      for (const wake of [
        { type: "pull-wake", streams: [`session:${HERS}`], wake_stream: "w" },
        { type: "pull-wake", streams: ["a/b"], wake_stream: `session:${HERS}` },
      ]) {
        const put = await app.call("PUT", "/v1/p/stream/__ds/subscriptions/s", { token, body: wake });
        expect(put.status, put.text).toBeGreaterThanOrEqual(400);
      }
    }
  });

  it("match no wake pattern", async () => {
    const { app, tokens } = await withAll();
    const token = tokens[1]!;
    for (const pattern of ["**", "*", "session*", `session:${HERS}`]) {
      const put = await app.call("PUT", "/v1/p/stream/__ds/subscriptions/all", {
        token,
        body: { type: "pull-wake", pattern, wake_stream: "wakes" },
      });
      if (put.status >= 400) continue;
      await app.prepare("POST", "/v1/p/publish/a/b", { body: [2] });
      const { body } = await app.call("GET", "/v1/p/stream/__ds/subscriptions/all", { token });
      expect(JSON.stringify(body.streams), pattern).not.toContain("session:");
      await app.prepare("DELETE", "/v1/p/stream/__ds/subscriptions/all");
    }
  });

  it("are protected by reserving every Producer-Id that starts with fanout:", async () => {
    const { app, tokens } = await withAll();
    for (const token of tokens) {
      for (const id of ["fanout:a/b", "fanout:", "fanout:x"]) {
        const headers = { "producer-id": id, "producer-epoch": "1", "producer-seq": "0" };
        for (const target of ["/v1/p/stream/a/b", "/v1/p/publish/a/b"]) {
          expect(await app.call("POST", target, { token, headers, body: [1] })).toMatchObject(reserved);
        }
      }
      const headers = { "producer-id": "fan-out", "producer-epoch": "1", "producer-seq": "0" };
      expect((await app.call("POST", "/v1/p/publish/a/b", { token, headers, body: [1] })).status).toBeLessThan(300);
    }
  });
});
