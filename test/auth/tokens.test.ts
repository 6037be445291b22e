import { createPublicKey } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { TokenIdentity } from "../../packages/server/src/auth/identity.ts";
import { mint } from "../../packages/server/src/auth/mint.ts";
import type { ServerOptions } from "../../packages/server/src/server-options.ts";
import { type Answer, AuthApp, SECRET } from "./app.ts";
import { keyPair, signed, signedBy } from "./signing.ts";

const LIST = "/v1/p/streams";
const list = (app: AuthApp, token: string): Promise<Answer> => app.call("GET", LIST, { token });
const inAnHour = (app: AuthApp) => Math.floor(app.world.now() / 1_000) + 3_600;
const rememberedBy = (app: AuthApp) => (app.app.identity as TokenIdentity).remembered;

function appWith(project: object, more: object = {}, internal: object = {}): AuthApp {
  return new AuthApp({ projects: { p: project }, auth: more, internal: { auth: internal } });
}

describe("secrets", () => {
  it("count side by side, so that one can replace another", async () => {
    const app = appWith({
      secrets: ["the old secret, which is still in use", "the new secret, which is to replace it"],
    });
    for (const secret of ["the old secret, which is still in use", "the new secret, which is to replace it"]) {
      expect((await list(app, await app.token({}, secret))).status).toBe(200);
    }
    expect((await list(app, await app.token({}, "a third one"))).body.code).toBe("token-invalid");
  });

  it("belong to one project: a project without keys is closed when another project has keys", async () => {
    const app = new AuthApp();
    for (const project of ["open", "never-heard-of", "default"]) {
      const answer = await app.call("GET", `/v1/${project}/streams`, { token: await app.token() });
      expect(answer).toMatchObject({ status: 401, body: { code: "unauthenticated" } });
      expect(answer.body.detail).toContain("has no keys");
    }
    for (const project of ["__proto__", "constructor", "toString"]) {
      expect((await app.call("GET", `/v1/${project}/streams`, { token: await app.token() })).status).toBe(401);
    }
  });

  it("are not required when no project has any, or auth is off", async () => {
    const settings: ServerOptions[] = [
      { projects: {} },
      { projects: { p: {} } },
      { projects: { p: { secrets: [SECRET] } }, auth: { off: true } },
    ];
    for (const options of settings) {
      const app = new AuthApp(options);
      expect((await app.call("GET", LIST)).status).toBe(200);
      expect((await app.call("GET", LIST, { token: "nonsense" })).status).toBe(200);
    }
  });
});

describe("a token is refused", () => {
  const refused = async (app: AuthApp, token: string, says: string, code = "token-invalid") => {
    const answer = await list(app, token);
    expect(answer).toMatchObject({ status: 401, body: { code } });
    expect(answer.body.detail).toContain(says);
    // The refusal repeats no part of the token.
    for (const part of token.split(".")) if (part.length > 8) expect(answer.text).not.toContain(part);
    expect(rememberedBy(app)).toBe(0);
  };

  it("without a signature, in any spelling of the algorithm none", async () => {
    const app = new AuthApp();
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const claims = { scope: "admin", exp: inAnHour(app) };
    for (const alg of ["none", "None", "NONE", "nOnE", ""]) {
      await refused(app, `${part({ alg })}.${part(claims)}.`, "not a signed JWT");
      await refused(app, `${part({ alg })}.${part(claims)}.AAAA`, "");
    }
  });

  it("when its algorithm is not that of the key, because a public key is no secret", async () => {
    const pair = await keyPair("k", "RS256");
    const app = appWith({ jwks: { keys: [pair.jwk] } });
    const claims = { scope: "admin", exp: inAnHour(app) };
    expect((await list(app, await signedBy(pair, claims))).status).toBe(200);
    const pem = createPublicKey(pair.privateKey).export({ type: "spki", format: "pem" }).toString();
    const again = appWith({ jwks: { keys: [pair.jwk] } });
    for (const secret of [pem, pem.trim(), JSON.stringify(pair.jwk), pair.jwk.n!]) {
      await refused(again, signed(claims, secret, { kid: "k" }), "not signed with a key of this project");
    }
    const withSecret = appWith({ secrets: [SECRET], jwks: { keys: [pair.jwk] } });
    await refused(withSecret, signed(claims, pem, { kid: "k" }), "not signed with a key of this project");
  });

  it("when it names another algorithm than it was signed with", async () => {
    const app = new AuthApp();
    const claims = { scope: "admin", exp: inAnHour(app) };
    for (const alg of ["HS384", "HS512", "RS256", "ES256", "EdDSA", "A128KW", "dir", "x"]) {
      await refused(app, signed(claims, SECRET, { alg }), "");
    }
    await refused(app, signed(claims, SECRET, { crit: ["b64"], b64: false }), "");
  });

  it("without an expiry, and with one that is not a number", async () => {
    const app = new AuthApp();
    await refused(app, signed({ scope: "admin" }), "exp");
    for (const exp of ["9999999999", null, true, [], {}]) {
      await refused(app, signed({ scope: "admin", exp: exp as never }), "exp");
    }
  });

  it("before its time", async () => {
    const app = new AuthApp();
    const nbf = Math.floor(app.world.now() / 1_000) + 60;
    await refused(app, signed({ scope: "admin", exp: inAnHour(app), nbf }), "not valid yet");
  });

  it("with claims of the wrong type, and the refusal names the claim", async () => {
    const app = new AuthApp();
    const exp = inAnHour(app);
    await refused(app, signed({ exp, scope: ["admin"] as never }), "scope");
    await refused(app, signed({ exp, scope: "admin", sub: 7 as never }), "sub");
    await refused(app, signed({ exp, scope: "admin", project: ["p"] }), "project");
    for (const streams of ["a/#", {}, null, [1], [""], ["a/#/b"], ["a+"], Array(101).fill("a"), ["x".repeat(1_025)]]) {
      await refused(app, signed({ exp, scope: "admin", streams }), "streams");
    }
  });

  it("when it was made for another audience, if the project names its own", async () => {
    const app = appWith({ secrets: [SECRET], issuer: "https://login.example", audience: "sluice" });
    const good = { scope: "admin", exp: inAnHour(app), iss: "https://login.example", aud: ["other", "sluice"] };
    for (const wrong of [{ aud: "other" }, { aud: undefined }, { aud: [] }]) {
      await refused(app, signed({ ...good, ...wrong }), "aud");
    }
    for (const wrong of [{ iss: "https://evil.example" }, { iss: undefined }]) {
      await refused(app, signed({ ...good, ...wrong }), "iss");
    }
    expect((await list(app, signed(good))).status).toBe(200);
  });

  it("when it is malformed or too long", async () => {
    const app = new AuthApp();
    const whole = await app.token();
    for (const token of [
      "x",
      "..",
      "a.b",
      "a.b.c.d",
      "ä.ö.ü",
      whole.slice(0, -4),
      `${whole}.x`,
      `${whole}=`,
      `x${whole}`,
    ]) {
      await refused(app, token, "");
    }
    await refused(app, "a".repeat(100_000), "longer than 4096 characters");
    await refused(app, signed({ exp: inAnHour(app), scope: "read", pad: "p".repeat(5_000) }), "longer than 4096");
    const [head, , signature] = whole.split(".");
    await refused(
      app,
      `${head}.${Buffer.from('{"scope":"admin","exp":99999999999}').toString("base64url")}.${signature}`,
      "",
    );
  });
});

describe("a token that was verified", () => {
  it("is remembered, and expires on the exact millisecond", async () => {
    const app = appWith({ secrets: [SECRET] }, { clockSkewSeconds: 5 });
    const token = await app.token({ ttlSeconds: 60 });
    expect((await list(app, token)).status).toBe(200);
    expect(rememberedBy(app)).toBe(1);
    app.world.advance(64_999);
    expect((await list(app, token)).status).toBe(200);
    app.world.advance(1);
    expect(await list(app, token)).toMatchObject({ status: 401, body: { code: "token-expired" } });
    expect(rememberedBy(app)).toBe(0);
  });

  it("is admitted without a promise from then on", async () => {
    const app = new AuthApp();
    const token = await app.token();
    const credentials = {
      authorization: `Bearer ${token}`,
      cookieToken: undefined,
      addressToken: undefined,
      request: {} as never,
    };
    const identify = () => app.app.identity.identify("p", credentials);
    const first = identify();
    expect(first).toBeInstanceOf(Promise);
    expect(identify()).toBeInstanceOf(Promise);
    const access = await first;
    expect(identify()).toBe(access);
    expect(access.demand({ action: "streams.list", need: "read", project: "p" })).toBeUndefined();
  });

  it("may be evicted for another, because the cache is bounded", async () => {
    const app = appWith({ secrets: [SECRET] }, {}, { cacheTokens: 10 });
    const tokens = await Promise.all(Array.from({ length: 50 }, (_, i) => app.token({ sub: `user ${i}` })));
    for (const token of [...tokens, ...tokens]) {
      expect((await list(app, token)).status).toBe(200);
      expect(rememberedBy(app)).toBeLessThanOrEqual(10);
    }
    expect(rememberedBy(app)).toBe(10);
  });

  it("is remembered for its own project only", async () => {
    const app = new AuthApp();
    const token = await app.token({ scope: "admin" });
    expect((await list(app, token)).status).toBe(200);
    expect((await app.call("GET", "/v1/q/streams", { token })).status).toBe(401);
  });

  it("may be sent with any number of spaces and in any case of Bearer", async () => {
    const app = new AuthApp();
    const token = await app.token();
    for (const authorization of [
      `bearer ${token}`,
      `BEARER   ${token}`,
      `Bearer   ${token}`,
      `Bearer ${token}`,
      `Bearer ${token} `,
      `bearer ${token}  `,
    ]) {
      expect((await app.call("GET", LIST, { headers: { authorization } })).status).toBe(200);
    }
    for (const authorization of [
      "",
      "Bearer",
      "Bearer ",
      `Basic ${token}`,
      token,
      `Bearer ${token}, Bearer ${token}`,
    ]) {
      expect((await app.call("GET", LIST, { headers: { authorization } })).status, authorization.slice(0, 9)).toBe(401);
    }
  });
});

describe("minting", () => {
  it("writes the requested claims", async () => {
    const request = { scope: "read,write", ttlSeconds: 60, sub: "ada", project: "p", streams: ["a/#"] };
    const token = await mint(SECRET, request, 5_000);
    const claims = JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString());
    expect(claims).toEqual({ scope: "read write", sub: "ada", project: "p", streams: ["a/#"], iat: 5, exp: 65 });
  });

  it.each([
    [{ scope: "" }, "scope must be"],
    [{ scope: "read,wirte" }, "wirte is not one of"],
    [{ ttlSeconds: 0 }, "time to live"],
    [{ ttlSeconds: Number.NaN }, "time to live"],
    [{ streams: ["a#"] }, "streams[0]"],
  ])("refuses %j with a reason", async (wrong, says) => {
    await expect(mint(SECRET, { scope: "read", ttlSeconds: 60, ...wrong }, 0)).rejects.toThrow(says);
    await expect(mint("", { scope: "read", ttlSeconds: 60 }, 0)).rejects.toThrow("secret is empty");
  });
});
