import { describe, expect, it } from "vitest";
import type { Authorize, AuthorizeVerdict } from "../../packages/server/src/auth/callback-identity.ts";
import type { Action } from "../../packages/server/src/core/action.ts";
import { AuthApp } from "./app.ts";

const STREAM = "/v1/p/stream/a/b";

function appWith(authorize: Authorize): AuthApp {
  return new AuthApp({ authorize });
}

describe("a callback of the embedding program", () => {
  it("decides instead of tokens, synchronously or asynchronously, on the parsed action", async () => {
    for (const later of [false, true]) {
      const asked: Action[] = [];
      const app = appWith((action, request) => {
        asked.push(action);
        const verdict = request.header("x-user") === "ada";
        return later ? Promise.resolve(verdict) : verdict;
      });
      expect((await app.call("PUT", "/v1/p/stream/a%2Fb", { headers: { "x-user": "ada" } })).status).toBe(201);
      expect(await app.call("PUT", STREAM)).toMatchObject({ status: 403, body: { code: "forbidden" } });
      expect(await app.call("PUT", STREAM, { token: await app.token({ scope: "admin" }) })).toMatchObject({
        status: 403,
      });
      expect(asked[0]).toMatchObject({ action: "stream.create", project: "p", stream: "a/b" });
    }
  });

  it("may answer with any thenable", async () => {
    const later = (verdict: boolean) =>
      // biome-ignore lint/suspicious/noThenProperty: a thenable is the case under test.
      ({ then: (resolve: (value: boolean) => void) => resolve(verdict) }) as PromiseLike<boolean>;
    expect((await appWith(() => later(true)).call("PUT", STREAM)).status).toBe(201);
    expect((await appWith(() => later(false)).call("PUT", STREAM)).status).toBe(403);
  });

  it("can answer that it does not know the caller", async () => {
    const answer = await appWith(() => "unauthenticated").call("GET", STREAM);
    expect(answer).toMatchObject({ status: 401, body: { code: "unauthenticated" } });
    expect(answer.headers["www-authenticate"]).toBe("Bearer");
  });

  it.each<[string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("no database");
      },
    ],
    ["rejects", () => Promise.reject(new Error("no database"))],
    ["returns nothing", () => undefined],
    ["returns null", () => null],
    ["returns a word", () => "yes"],
    ["returns a number", () => 1],
    ["returns an object of another kind", () => ({ allowed: true })],
    ["returns filters that are none", () => ({ streams: ["a#"] })],
    ["returns nothing later", () => Promise.resolve()],
  ])("never allows a request when it %s: the answer is 500, and the fault is reported", async (_, wrong) => {
    const app = appWith(wrong as () => AuthorizeVerdict);
    const answer = await app.call("PUT", STREAM);
    expect(answer).toMatchObject({ status: 500, body: { code: "internal" } });
    expect(answer.text).not.toContain("database");
    expect(app.reports).toHaveLength(1);
  });

  it("is not asked about routes that are open to every caller", async () => {
    const app = appWith(() => false);
    for (const path of ["/health", "/ready", "/openapi.json", "/v1/p/stream/__ds/jwks.json"]) {
      expect((await app.call("GET", path)).status).toBe(200);
    }
    expect((await app.call("OPTIONS", STREAM)).status).toBe(204);
  });

  it("is asked again for every stream that a header or body names", async () => {
    const asked: string[] = [];
    const app = appWith(({ action, stream, pattern }) => {
      asked.push(`${action} ${stream ?? pattern?.text ?? ""}`.trim());
      return stream !== "secret";
    });
    await app.call("PUT", "/v1/p/stream/a");
    asked.length = 0;
    const headers = { "stream-forked-from": "/v1/p/stream/a" };
    expect((await app.call("PUT", "/v1/p/stream/f", { headers })).status).toBe(201);
    expect(asked).toEqual(["stream.create f", "stream.read a"]);
    const fork = { headers: { "stream-forked-from": "secret" } };
    expect((await app.call("PUT", "/v1/p/stream/g", fork)).status).toBe(403);
    asked.length = 0;
    const body = { type: "pull-wake", pattern: "a/**", streams: ["x"], wake_stream: "w" };
    expect((await app.call("PUT", "/v1/p/stream/__ds/subscriptions/s", { body })).status).toBe(201);
    expect(asked).toEqual([
      "ds.subscription.put",
      "ds.subscription.link x",
      "ds.subscription.link a/**",
      "stream.append w",
    ]);
    const add = { body: { streams: ["y", "secret"] } };
    expect((await app.call("POST", "/v1/p/stream/__ds/subscriptions/s/streams", add)).status).toBe(403);
  });

  it("can confine the caller to topic filters", async () => {
    const app = appWith(() => ({ streams: ["a/#"] }));
    expect((await app.call("PUT", STREAM)).status).toBe(201);
    expect((await app.call("PUT", "/v1/p/stream/b")).status).toBe(403);
    const allowing = appWith(() => true);
    expect((await allowing.call("PUT", "/v1/p/stream/b")).status).toBe(201);
    const { body } = await app.call("GET", "/v1/p/streams");
    expect(body.streams.map(({ path }: { path: string }) => path)).toEqual(["a/b"]);
  });
});
