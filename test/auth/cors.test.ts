import { createServer, withDefaults } from "@sluice/server";
import { describe, expect, it } from "vitest";
import { exchange } from "../e2e/raw-http.ts";
import { serverForTest } from "../e2e/server.ts";
import { SECRET } from "./app.ts";

const PAGE = "https://app.example";
const from = (origin: string, more: Record<string, string> = {}) => ({ headers: { Origin: origin, ...more } });
const TEXT = { "Content-Type": "text/plain" };

describe("CORS", () => {
  it("allows no origin by default, and still answers preflights", async () => {
    const { url } = await serverForTest("memory", { projects: { p: { secrets: [SECRET] } } });
    for (const path of ["/v1/stream/s", "/v1/p/streams", "/nowhere", "/health"]) {
      const preflight = await fetch(url + path, {
        method: "OPTIONS",
        ...from(PAGE, { "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization" }),
      });
      expect(preflight.status).toBe(204);
      expect(preflight.headers.get("access-control-allow-methods")).toContain("PUT");
      expect(preflight.headers.get("access-control-allow-headers")).toContain("Authorization");
      expect(preflight.headers.get("access-control-max-age")).toBe("86400");
      expect(preflight.headers.has("access-control-allow-origin")).toBe(false);
    }
    const answer = await fetch(`${url}/health`, from(PAGE));
    expect(answer.headers.has("access-control-allow-origin")).toBe(false);
    expect(answer.headers.has("vary")).toBe(false);
  });

  it("names an allowed origin in every answer, refusals and event streams included, and never another origin", async () => {
    const cors = { origins: [PAGE, "http://localhost:5173"], credentials: true };
    const internal = { cors: { maxAgeSeconds: 60 } };
    const projects = { p: { secrets: [SECRET] } };
    const { url } = await serverForTest("memory", { cors, internal, stream: { bodyBytes: 10 } });
    const locked = await serverForTest("memory", { cors, projects });
    const stream = `${url}/v1/stream/s`;
    const asks: [number, string, RequestInit][] = [
      [201, stream, { method: "PUT", ...from(PAGE, TEXT) }],
      [204, stream, { method: "POST", body: "x", ...from(PAGE, TEXT) }],
      [413, stream, { method: "POST", body: "x".repeat(11), ...from(PAGE, TEXT) }],
      [200, `${stream}?offset=-1`, from(PAGE)],
      [400, `${stream}?offset=x`, from(PAGE)],
      [405, stream, { method: "PATCH", ...from(PAGE) }],
      [404, `${url}/nowhere`, from(PAGE)],
      [404, `${url}/v1/stream/__ds/subscriptions/none`, from(PAGE)],
      [204, stream, { method: "OPTIONS", ...from(PAGE) }],
      [401, `${locked.url}/v1/p/stream/s`, from(PAGE)],
    ];
    for (const [status, address, init] of asks) {
      const { headers, status: answered } = await fetch(address, init);
      expect(answered, address).toBe(status);
      expect(headers.get("access-control-allow-origin"), address).toBe(PAGE);
      expect(headers.get("access-control-allow-credentials")).toBe("true");
      expect(headers.get("access-control-expose-headers")).toContain("Stream-Next-Offset");
      expect(headers.get("vary"), address).toMatch(/(^|, )Origin$/);
    }
    const abort = new AbortController();
    const live = await fetch(`${stream}?offset=-1&live=sse`, {
      signal: abort.signal,
      ...from("http://localhost:5173"),
    });
    expect(live.headers.get("access-control-allow-origin")).toBe("http://localhost:5173");
    abort.abort();
    for (const origin of ["https://evil.example", "null", `${PAGE}.evil`, `${PAGE}:443`, "HTTPS://APP.EXAMPLE"]) {
      const { headers } = await fetch(`${stream}?offset=-1`, from(origin));
      expect(headers.has("access-control-allow-origin"), origin).toBe(false);
      expect(headers.has("access-control-allow-credentials")).toBe(false);
      expect(headers.get("vary")).toBe("Authorization, Cookie, Accept-Encoding, Origin");
    }
    const plain = await fetch(`${stream}?offset=-1`);
    expect(plain.headers.get("vary")).toBe("Authorization, Cookie, Accept-Encoding, Origin");
    const preflight = await fetch(stream, { method: "OPTIONS", ...from(PAGE) });
    expect(preflight.headers.get("access-control-max-age")).toBe("60");
  });

  it("lets every page read with *, without cookies", async () => {
    const { url, port } = await serverForTest("memory", { cors: { origins: ["*"] } });
    const { headers } = await fetch(`${url}/health`, from("https://anywhere.example"));
    expect(headers.get("access-control-allow-origin")).toBe("*");
    expect(headers.has("access-control-allow-credentials")).toBe(false);
    const refused = await exchange(
      port,
      "GET /v1/stream/none HTTP/1.1\r\nHost: localhost\r\nOrigin: https://x.example\r\n\r\n",
    );
    expect(refused.headers.get("access-control-allow-origin")).toBe("*");
  });

  it("refuses to start with * and credentials, or with a malformed origin", async () => {
    const start = createServer({ port: 0, memory: true, cors: { origins: [PAGE, "*"], credentials: true } });
    await expect(start).rejects.toThrow(/cors.*\*/);
    for (const origin of [
      "app.example",
      "https://app.example/",
      "https://app.example/x",
      "HTTPS://app.example",
      "null",
      "",
      "file://",
    ]) {
      expect(() => withDefaults({ cors: { origins: [origin] } }), origin).toThrow("cors.origins");
    }
    expect(() => withDefaults({ internal: { cors: { maxAgeSeconds: Number.NaN } } })).toThrow(
      "internal.cors.maxAgeSeconds",
    );
  });
});

describe("a server without keys that listens on loopback", () => {
  const DEV_PAGES = ["http://localhost:5173", "http://127.0.0.1:3000", "http://[::1]:8080", "http://app.localhost"];

  it("lets pages of this machine read and write, from any port, and no other page", async () => {
    const { url } = await serverForTest("memory");
    const stream = `${url}/v1/stream/s`;
    for (const page of DEV_PAGES) {
      const written = await fetch(stream, { method: "PUT", ...from(page, TEXT) });
      expect([200, 201]).toContain(written.status);
      for (const { headers } of [written, await fetch(`${stream}?offset=-1`, from(page))]) {
        expect(headers.get("access-control-allow-origin")).toBe(page);
        expect(headers.get("access-control-expose-headers")).toContain("Stream-Next-Offset");
        expect(headers.get("vary")).toContain("Origin");
      }
    }
    const foreign = await fetch(`${stream}?offset=-1`, from(PAGE));
    expect([foreign.status, foreign.headers.has("access-control-allow-origin")]).toEqual([200, false]);
  });

  it("refuses writes of foreign pages, also those that a browser sends without a preflight", async () => {
    const { url } = await serverForTest("memory");
    const stream = `${url}/v1/stream/s`;
    await fetch(stream, { method: "PUT", headers: TEXT, body: "kept" });
    for (const origin of [PAGE, "null"]) {
      for (const method of ["POST", "PUT", "DELETE"]) {
        const refused = await fetch(stream, { method, body: "x", ...from(origin, TEXT) });
        expect(await refused.json()).toMatchObject({
          status: 403,
          code: "origin-not-allowed",
          detail: expect.stringContaining(origin === "null" ? "from localhost" : "cors.origins"),
        });
      }
    }
    expect((await fetch(stream, { method: "OPTIONS", ...from(PAGE) })).status).toBe(204);
    expect(await (await fetch(`${stream}?offset=-1`)).text()).toBe("kept");
  });

  it("refuses requests under a foreign name, as DNS rebinding sends them, unless http.hosts has it", async () => {
    const rebound = (port: number, method = "GET") =>
      exchange(port, `${method} /v1/streams HTTP/1.1\r\nHost: rebound.example:${port}\r\n\r\n`, method);
    const { port } = await serverForTest("memory");
    const refused = await rebound(port);
    expect(JSON.parse(refused.body.toString())).toMatchObject({
      status: 403,
      code: "host-not-allowed",
      detail: expect.stringContaining("http.hosts"),
    });
    expect((await rebound(port, "OPTIONS")).status).toBe(204);
    const named = await serverForTest("memory", { http: { hosts: ["rebound.example"] } });
    expect((await rebound(named.port)).status).toBe(200);
    const elsewhere = await serverForTest("memory", { host: "0.0.0.0", auth: { off: true } });
    expect((await rebound(elsewhere.port)).status).toBe(200);
    const strict = await serverForTest("memory", { host: "0.0.0.0", auth: { off: true }, http: { hosts: ["sluice"] } });
    expect((await rebound(strict.port)).status).toBe(403);
  });
});
