import { createServer as createHttpServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { JWTPayload } from "jose";
import { describe, expect, it, onTestFinished } from "vitest";
import { keysFetcher } from "../../packages/server/src/auth/fetch-keys.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { withDefaults } from "../../packages/server/src/server-options.ts";
import { eventually, openServer } from "../e2e/server.ts";
import { type Answer, AuthApp, SECRET } from "./app.ts";
import { type KeyPair, keyPair, signed, signedBy } from "./signing.ts";

const URL_OF_KEYS = "https://keys.example/jwks.json";
const LIST = "/v1/p/streams";

const setOf = (...pairs: KeyPair[]) => JSON.stringify({ keys: pairs.map(({ jwk }) => jwk) });

function appWith(internal: object = {}, auth: object = {}): AuthApp {
  const projects = { p: { jwks: URL_OF_KEYS, secrets: [SECRET] } };
  return new AuthApp({ projects, auth, internal: { auth: internal } });
}

function claimsAt(app: AuthApp, more: JWTPayload = {}): JWTPayload {
  return { scope: "read", exp: Math.floor(app.world.now() / 1_000) + 24 * 3_600, ...more };
}

const list = (app: AuthApp, token: string): Promise<Answer> => app.call("GET", LIST, { token });

describe("keys given with the options", () => {
  it.each(["RS256", "ES256", "EdDSA"] as const)("verify %s", async (alg) => {
    const [ours, theirs] = [await keyPair("a", alg), await keyPair("a", alg)];
    const app = new AuthApp({ projects: { p: { jwks: { keys: [ours.jwk as never] } } } });
    expect((await list(app, await signedBy(ours, claimsAt(app)))).status).toBe(200);
    expect((await list(app, await signedBy(theirs, claimsAt(app)))).body.code).toBe("token-invalid");
    // This project has no secrets, so a token signed with one does not count.
    expect((await list(app, signed(claimsAt(app)))).body.code).toBe("token-invalid");
  });

  it("are tried one by one when the token does not name its key", async () => {
    const pairs = [await keyPair("a"), await keyPair("b"), await keyPair("c")];
    const app = new AuthApp({ projects: { p: { jwks: { keys: pairs.map(({ jwk }) => jwk as never) } } } });
    for (const pair of pairs) {
      expect((await list(app, await signedBy(pair, claimsAt(app), { kid: undefined }))).status).toBe(200);
    }
    const stranger = await keyPair("d");
    expect((await list(app, await signedBy(stranger, claimsAt(app), { kid: undefined }))).status).toBe(401);
  });

  it("are refused at the start when they are private keys, secrets, or no keys at all", async () => {
    const { jwk } = await keyPair("a");
    const check = (jwks: unknown) => () => withDefaults({ projects: { p: { jwks: jwks as never } } });
    expect(check({ keys: [jwk] })).not.toThrow();
    for (const wrong of [
      { keys: [{ ...jwk, d: "x" }] },
      { keys: [{ kty: "oct", k: "AAAA" }] },
      { keys: [] },
      {},
      "no",
      "ftp://x/y",
    ]) {
      expect(check(wrong)).toThrow("projects.p.jwks");
    }
    expect(() => withDefaults({ projects: { p: { secrets: [""] } } })).toThrow("projects.p.secrets");
  });
});

describe("published keys", () => {
  it("are fetched once for many tokens, and again when they have grown old", async () => {
    const pair = await keyPair("a");
    const app = appWith({}, { jwksCacheSeconds: 600 });
    app.published.set(URL_OF_KEYS, setOf(pair));
    expect(app.fetched).toHaveLength(0);
    const tokens = await Promise.all(
      Array.from({ length: 20 }, (_, i) => signedBy(pair, claimsAt(app, { sub: `${i}` }))),
    );
    const answers = await Promise.all(tokens.map((token) => list(app, token)));
    expect(answers.map(({ status }) => status)).toEqual(tokens.map(() => 200));
    expect(app.fetched).toHaveLength(1);
    app.world.advance(599_000);
    expect((await list(app, tokens[0]!)).status).toBe(200);
    expect(app.fetched).toHaveLength(1);
    app.world.advance(1_000);
    expect((await list(app, tokens[0]!)).status).toBe(200);
    expect(app.fetched).toHaveLength(2);
  });

  it("that are new are found by the first token that names them; retired keys stop counting, for remembered tokens too", async () => {
    const [old, next] = [await keyPair("old"), await keyPair("next")];
    const app = appWith({ jwksCooldownSeconds: 10 });
    app.published.set(URL_OF_KEYS, setOf(old));
    const [byOld, byNext] = [await signedBy(old, claimsAt(app)), await signedBy(next, claimsAt(app))];
    expect((await list(app, byOld)).status).toBe(200);
    app.published.set(URL_OF_KEYS, setOf(old, next));
    app.world.advance(10_000);
    expect((await list(app, byNext)).status).toBe(200);
    expect((await list(app, byOld)).status).toBe(200);
    app.published.set(URL_OF_KEYS, setOf(next));
    app.world.advance(600_000);
    expect((await list(app, byOld)).body.code).toBe("token-invalid");
    expect((await list(app, byNext)).status).toBe(200);
  });

  it("that were withdrawn stop counting as soon as any token makes the server fetch again", async () => {
    const [old, next] = [await keyPair("old"), await keyPair("next")];
    const app = appWith({ jwksCooldownSeconds: 10 }, { jwksCacheSeconds: 600 });
    app.published.set(URL_OF_KEYS, setOf(old));
    const byOld = await signedBy(old, claimsAt(app));
    expect((await list(app, byOld)).status).toBe(200);
    app.published.set(URL_OF_KEYS, setOf(next));
    app.world.advance(10_000);
    expect((await list(app, byOld)).status).toBe(200);
    expect((await list(app, await signedBy(next, claimsAt(app)))).status).toBe(200);
    expect((await list(app, byOld)).status).toBe(401);
  });

  it("are not fetched more often than the cool-down allows, whichever tokens come", async () => {
    const [ours, stranger] = [await keyPair("ours"), await keyPair("stranger")];
    const app = appWith({ jwksCooldownSeconds: 10 });
    app.published.set(URL_OF_KEYS, setOf(ours));
    for (let i = 0; i < 20; i++) {
      const token = await signedBy({ ...stranger, kid: `stranger ${i}` }, claimsAt(app));
      expect((await list(app, token)).status).toBe(401);
    }
    expect(app.fetched).toHaveLength(1);
    app.world.advance(10_000);
    expect((await list(app, await signedBy(stranger, claimsAt(app)))).status).toBe(401);
    expect(app.fetched).toHaveLength(2);

    const forgetful = appWith({ jwksCooldownSeconds: 10 }, { jwksCacheSeconds: 1 });
    forgetful.published.set(URL_OF_KEYS, setOf(ours));
    const token = await signedBy(ours, claimsAt(forgetful));
    for (let i = 0; i < 5; i++) {
      expect((await list(forgetful, token)).status).toBe(200);
      forgetful.world.advance(1_900);
    }
    expect(forgetful.fetched).toHaveLength(1);
    forgetful.world.advance(500);
    expect((await list(forgetful, token)).status).toBe(200);
    expect(forgetful.fetched).toHaveLength(2);
  });

  it("that cannot be fetched cause 503 for tokens that need them, and for no other token", async () => {
    const pair = await keyPair("a");
    const app = appWith({ jwksCooldownSeconds: 10 });
    const token = await signedBy(pair, claimsAt(app));
    for (let i = 0; i < 3; i++) {
      const answer = await list(app, token);
      expect(answer).toMatchObject({ status: 503, body: { code: "keys-unavailable", retryable: true } });
      expect(answer.headers["retry-after"]).toBe("10");
      expect(answer.text).not.toContain("keys.example");
    }
    expect(app.fetched).toHaveLength(1);
    expect((await list(app, signed(claimsAt(app)))).status).toBe(200);
    expect((await list(app, "x.y.z")).status).toBe(401);
    const control = await app.call("GET", "/v1/p/stream/__ds/subscriptions/s", { token });
    expect(control).toMatchObject({ status: 503, headers: { "retry-after": "10" } });
    app.published.set(URL_OF_KEYS, setOf(pair));
    app.world.advance(10_000);
    expect((await list(app, token)).status).toBe(200);
  });

  it("grow old and are fetched again on time while the machine's clock is set back by an hour", async () => {
    const [old, next] = [await keyPair("old"), await keyPair("next")];
    const app = appWith({ jwksCooldownSeconds: 10 }, { jwksCacheSeconds: 600 });
    app.published.set(URL_OF_KEYS, setOf(old));
    const byOld = await signedBy(old, claimsAt(app));
    expect((await list(app, byOld)).status).toBe(200);
    app.world.setClock(-3_600_000);
    app.published.set(URL_OF_KEYS, setOf(next));
    app.world.advance(10_000);
    expect((await list(app, await signedBy(next, claimsAt(app)))).status).toBe(200);
    app.published.set(URL_OF_KEYS, setOf(old));
    app.world.advance(600_000);
    expect((await list(app, byOld)).status).toBe(200);
    expect(app.fetched).toHaveLength(3);
  });

  it("still count for a while when they cannot be fetched again, and then stop counting", async () => {
    const [pair, stranger] = [await keyPair("a"), await keyPair("b")];
    const app = appWith({ jwksStaleSeconds: 3_600, jwksCooldownSeconds: 10 }, { jwksCacheSeconds: 600 });
    app.published.set(URL_OF_KEYS, setOf(pair));
    const token = await signedBy(pair, claimsAt(app));
    expect((await list(app, token)).status).toBe(200);
    app.published.delete(URL_OF_KEYS);
    app.world.advance(600_000);
    for (let i = 0; i < 5; i++) expect((await list(app, token)).status).toBe(200);
    expect(app.fetched).toHaveLength(2);
    // The key may have been published since, so the answer is 503 and not 401.
    expect((await list(app, await signedBy(stranger, claimsAt(app)))).status).toBe(503);
    app.world.advance(3_000_000);
    expect((await list(app, token)).status).toBe(503);
  });

  it.each(["", "no JSON", "[]", "{}", '{"keys":7}', "null"])("are empty when %j is published", async (text) => {
    const pair = await keyPair("a");
    const app = appWith();
    app.published.set(URL_OF_KEYS, text);
    expect((await list(app, await signedBy(pair, claimsAt(app)))).status).toBe(503);
    expect(app.reports.join()).toContain("fetching the keys of project p failed");
  });

  it("count only if they are public: a published secret is no key", async () => {
    const app = appWith();
    const k = Buffer.from("published by mistake").toString("base64url");
    app.published.set(URL_OF_KEYS, JSON.stringify({ keys: [{ kty: "oct", k, kid: "a", alg: "HS256" }] }));
    const token = signed(claimsAt(app), "published by mistake", { kid: "a" });
    expect((await list(app, token)).status).toBe(401);
  });
});

describe("over the network,", () => {
  /** Serves the result of `answer` at an address of its own. */
  async function publisher(
    answer: (url: string) => { status?: number; body?: string; headers?: Record<string, string> } | "hang",
  ) {
    const server: Server = createHttpServer((request, response) => {
      const says = answer(request.url!);
      if (says !== "hang") response.writeHead(says.status ?? 200, says.headers).end(says.body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  it("keys rotate while the server runs", async () => {
    const [old, next] = [await keyPair("old", "RS256"), await keyPair("next", "EdDSA")];
    let body = setOf(old);
    const jwks = await publisher(() => ({ body }));
    const fixture = await openServer("memory", {
      projects: { p: { jwks } },
      auth: { jwksCacheSeconds: 1 },
      internal: { auth: { jwksCooldownSeconds: 0 } },
    });
    onTestFinished(() => fixture.close());
    const status = async (pair: KeyPair) => {
      const token = await signedBy(pair, { scope: "read", exp: Math.floor(Date.now() / 1_000) + 600 });
      return (await fetch(`${fixture.url}${LIST}`, { headers: { Authorization: `Bearer ${token}` } })).status;
    };
    expect([await status(old), await status(next)]).toEqual([200, 401]);
    body = setOf(old, next);
    expect([await status(old), await status(next)]).toEqual([200, 200]);
    body = setOf(next);
    await eventually(async () => expect([await status(old), await status(next)]).toEqual([401, 200]));
  });

  it("a fetch is bounded in time and size, follows no redirect, and says why it failed", async () => {
    const base = await publisher((url) => {
      if (url === "/slow") return "hang";
      if (url === "/large") return { body: "x".repeat(300_000) };
      if (url === "/moved") return { status: 302, headers: { Location: "/fine" } };
      if (url === "/error") return { status: 500, body: "secret inner detail" };
      return { body: "{}" };
    });
    const fetchKeys = keysFetcher(realWorld());
    const why = async (path: string, timeoutMs = 20_000) => {
      const fetched = await fetchKeys(base + path, timeoutMs);
      return fetched.kind === "failed" ? fetched.why : fetched.text;
    };
    expect(await why("/fine")).toBe("{}");
    expect(await why("/slow", 50)).toContain("no response within 50 ms");
    expect(await why("/large")).toContain("more than 262144 bytes");
    expect(await why("/moved")).toContain("cannot be fetched");
    expect(await why("/error")).toBe("the server of the key set answered with status 500");
    const unreachable = await fetchKeys("http://user:hunter2@127.0.0.1:1/", 20_000);
    expect(unreachable.kind).toBe("failed");
    expect(JSON.stringify(unreachable)).not.toContain("hunter2");
  });
});
