import { describe, expect, it } from "vitest";
import { AuthApp, ORIGIN } from "./app.ts";

const STREAM = "/v1/p/stream/s";
const cors = { origins: ["https://app.example"], credentials: true };

describe("the cookie", () => {
  const withCookie = async (app: AuthApp, method: string, headers: Record<string, string> = {}) => {
    const cookie = `theme=dark; sluice_token=${await app.token()}; x=y`;
    return app.call(method, STREAM, { headers: { cookie, ...headers } });
  };

  it("counts like the header for reading, without an Origin or with an allowed one", async () => {
    const app = new AuthApp({ cors });
    await app.prepare("PUT", STREAM);
    for (const headers of [{}, { origin: ORIGIN }, { origin: "https://app.example" }] as Record<string, string>[]) {
      expect((await withCookie(app, "GET", headers)).status).toBe(200);
      expect((await withCookie(app, "HEAD", headers)).status).toBe(200);
    }
  });

  it("needs an Origin to write, the server's own or an allowed one", async () => {
    for (const [i, origin] of [ORIGIN, "https://app.example"].entries()) {
      const app = new AuthApp({ cors });
      expect((await withCookie(app, "PUT", { origin })).status, `${i}`).toBe(201);
      expect((await withCookie(app, "DELETE", { origin })).status).toBe(204);
    }
    const app = new AuthApp({ cors });
    const answer = await withCookie(app, "PUT");
    expect(answer).toMatchObject({ status: 403, body: { code: "forbidden" } });
    expect(answer.body.detail).toContain("needs an Origin");
  });

  it.each([
    "https://evil.example",
    "null",
    "",
    "http://app.example",
    "https://app.example:444",
    "https://app.example.evil",
  ])("is refused from pages of the origin %j", async (origin) => {
    const app = new AuthApp({ cors });
    await app.prepare("PUT", STREAM);
    for (const method of ["GET", "HEAD", "PUT", "POST", "DELETE"]) {
      expect((await withCookie(app, method, { origin })).status).toBe(403);
    }
    // A page with a header of its own counts like any client, because no browser sends that header by itself.
    expect((await app.call("GET", STREAM, { token: await app.token(), headers: { origin } })).status).toBe(200);
  });

  it("is refused from pages that CORS lets read without credentials, * included", async () => {
    for (const origins of [["https://app.example"], ["*"]]) {
      const app = new AuthApp({ cors: { origins, credentials: false } });
      expect((await withCookie(app, "PUT", { origin: "https://app.example" })).status).toBe(403);
    }
  });

  it("is accepted from pages of the public address", async () => {
    const app = new AuthApp({ publicUrl: "https://streams.example" });
    expect((await withCookie(app, "PUT", { origin: "https://streams.example" })).status).toBe(201);
  });

  it("does not count when two cookies have its name, or the name differs", async () => {
    const app = new AuthApp();
    const token = await app.token();
    for (const cookie of [
      `sluice_token=${token}; sluice_token=${token}`,
      `xsluice_token=${token}`,
      `sluice_token`,
      "",
    ]) {
      expect((await app.call("GET", STREAM, { headers: { cookie } })).status, cookie).toBe(401);
    }
  });

  it("yields to the header", async () => {
    const app = new AuthApp();
    const cookie = `sluice_token=${await app.token()}`;
    expect((await app.call("PUT", STREAM, { token: "x.y.z", headers: { cookie, origin: ORIGIN } })).status).toBe(401);
  });
});

describe("a token in the address", () => {
  it("is refused when it is an ordinary token, in every spelling of the parameter", async () => {
    const app = new AuthApp();
    await app.prepare("PUT", STREAM);
    const token = await app.token();
    for (const target of [
      `${STREAM}?token=${token}`,
      `${STREAM}?offset=-1&live=sse&token=${token}`,
      `${STREAM}?%74oken=${token}`,
    ]) {
      const answer = await app.call("GET", target);
      expect(answer).toMatchObject({ status: 401, body: { code: "token-invalid" } });
      expect(answer.body.detail).toContain("session token");
      expect(answer.text).not.toContain(token.slice(-20));
    }
    const cookie = `sluice_token=${token}`;
    expect((await app.call("GET", `${STREAM}?token=${token}`, { headers: { cookie } })).status).toBe(401);
  });
});
