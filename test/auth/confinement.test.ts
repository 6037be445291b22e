import { describe, expect, it } from "vitest";
import { AuthApp } from "./app.ts";

const STREAM = "/v1/p/stream/";
const SUBSCRIPTION = `${STREAM}__ds/subscriptions/s`;

async function appWithStreams(...paths: string[]): Promise<AuthApp> {
  const app = new AuthApp();
  for (const path of paths) await app.prepare("PUT", STREAM + path);
  return app;
}

describe("a fork", () => {
  it("needs source and target within the confinement, and the right to read the source", async () => {
    const app = await appWithStreams("a/x", "b/x");
    const token = await app.token({ streams: ["a/#"] });
    const fork = (to: string, from: string, by = token) =>
      app.call("PUT", STREAM + to, { token: by, headers: { "stream-forked-from": from } });
    for (const from of ["b/x", "/v1/p/stream/b/x", "/v1/p/stream/b%2Fx", "b/none"]) {
      expect(await fork("a/f", from)).toMatchObject({ status: 403, body: { code: "forbidden" } });
    }
    expect((await fork("b/f", "a/x")).status).toBe(403);
    expect((await fork("a/f", "a/x")).status).toBe(201);
    expect((await fork("a/g", "/v1/p/stream/a%2Fx")).status).toBe(201);
    expect((await fork("a/h", "a/x", await app.token({ scope: "write" }))).status).toBe(403);
  });
});

describe("a spelling of the path", () => {
  it("makes no difference to the confinement", async () => {
    const app = await appWithStreams("a/x", "b/x");
    const token = await app.token({ streams: ["a/#"] });
    const status = async (path: string) => (await app.call("GET", path, { token })).status;
    for (const path of ["/v1/p/stream/b/x", "/v1/p/stream/b%2Fx", "/v1/p/stream/%62/x", "/v1/p/stream/a/../b/x"]) {
      expect(await status(path), path).toBe(path.includes("..") ? 400 : 403);
    }
    for (const path of ["/v1/p/stream/a/x", "/v1/p/stream/a%2Fx", "/v1/p/stream/%61/x"]) {
      expect(await status(path), path).toBe(200);
    }
    // A wildcard in a path is an ordinary character.
    expect(await status("/v1/p/stream/+/x")).toBe(403);
    expect(await status("/v1/p/stream/%23")).toBe(403);
  });
});

describe("a listing", () => {
  const listed = async (app: AuthApp, query: string, streams: readonly string[]) => {
    const names: string[] = [];
    let after = "";
    for (let i = 0; i < 1_000; i++) {
      const { status, body } = await app.call("GET", `/v1/p/streams?${query}&after=${encodeURIComponent(after)}`, {
        token: await app.token({ streams }),
      });
      expect(status).toBe(200);
      names.push(...body.streams.map(({ path }: { path: string }) => path));
      if (body.next === undefined) return names;
      names.push(`(${body.next})`);
      after = body.next;
    }
    throw new Error("it does not end");
  };
  const paths = ["a", "a/1", "a/2/x", "a/2/y", "ab", "b/1", "b/2", "c", "d/1/x", "d/2/y", "d/3/x", "ä/1"];

  it("shows the streams within the confinement, in order, each once", async () => {
    const app = await appWithStreams(...paths);
    expect(await listed(app, "", ["#"])).toEqual(paths);
    expect(await listed(app, "", ["a/#"])).toEqual(["a", "a/1", "a/2/x", "a/2/y"]);
    expect(await listed(app, "", ["b/#", "a/2/+", "a/2/x", "nothing/#"])).toEqual(["a/2/x", "a/2/y", "b/1", "b/2"]);
    expect(await listed(app, "", ["+"])).toEqual(["a", "ab", "c"]);
    expect(await listed(app, "", ["ä/#", "c"])).toEqual(["c", "ä/1"]);
    expect(await listed(app, "", [])).toEqual([]);
  });

  it("is narrowed further by prefix and filter, and never widened", async () => {
    const app = await appWithStreams(...paths);
    expect(await listed(app, "prefix=a/2", ["a/#"])).toEqual(["a/2/x", "a/2/y"]);
    expect(await listed(app, "prefix=b", ["a/#"])).toEqual([]);
    expect(await listed(app, "filter=%2B/%2B/x", ["d/#", "b/#"])).toEqual(["d/1/x", "d/3/x"]);
    expect(await listed(app, "filter=%23", ["c"])).toEqual(["c"]);
  });

  it("names no stream outside the confinement in its cursor", async () => {
    const app = await appWithStreams(...paths);
    for (const limit of [1, 2, 3]) {
      const names = await listed(app, `limit=${limit}`, ["d/+/x", "a/2/#"]);
      const allowed = ["a/2/x", "a/2/y", "d/1/x", "d/3/x"];
      expect(names.filter((name) => !name.startsWith("("))).toEqual(allowed);
      for (const name of names) expect(allowed).toContain(name.replace(/[()]/g, ""));
    }
  });

  it("is refused, or ends its page early, when too many streams outside the confinement lie between", async () => {
    const app = await appWithStreams();
    const create = app.app.streams.create.bind(app.app.streams);
    const config = { contentType: "text/plain", ttlSeconds: undefined, expiresAt: undefined, retention: undefined };
    for (let i = 0; i < 10_050; i++) await create("p", `t/${i}/other`, { config, closed: false, payloads: [] });
    const answer = await app.call("GET", "/v1/p/streams", { token: await app.token({ streams: ["t/+/mine"] }) });
    expect(answer).toMatchObject({ status: 400, body: { code: "bad-query" } });
    expect(answer.text).not.toContain('other"');
    expect(answer.body.detail).toContain("longer prefix");
    // The page shows the streams found before them, and the next page starts at a name that the caller knows.
    await app.prepare("PUT", `${STREAM}t/!/mine`);
    const first = await app.call("GET", "/v1/p/streams", { token: await app.token({ streams: ["t/+/mine"] }) });
    expect(first).toMatchObject({ status: 200, body: { streams: [{ path: "t/!/mine" }], next: "t/!/mine" } });
  });
});

describe("a subscription", () => {
  const put = async (app: AuthApp, body: object, streams: readonly string[] = ["a/#"]) =>
    app.call("PUT", SUBSCRIPTION, { token: await app.token({ streams }), body: { type: "pull-wake", ...body } });

  it("may name only streams within the confinement, in its body and in its pattern", async () => {
    const app = await appWithStreams("a/x", "b/x");
    const own = { wake_stream: "a/wakes" };
    for (const body of [
      { ...own, streams: ["b/x"] },
      { ...own, streams: ["a/x", "b/x"] },
      { ...own, streams: ["/b/x"] },
      { ...own, pattern: "**" },
      { ...own, pattern: "*" },
      { ...own, pattern: "*/x" },
      { ...own, pattern: "**/x" },
      { ...own, pattern: "b/**" },
      { ...own, streams: ["a/x"], pattern: "ab" },
      { streams: ["a/x"], wake_stream: "b/wakes" },
    ]) {
      expect(await put(app, body), JSON.stringify(body)).toMatchObject({ status: 403, body: { code: "forbidden" } });
    }
    expect((await app.prepare("DELETE", SUBSCRIPTION)).status).toBe(204);
    for (const body of [
      { ...own, streams: ["a/x"] },
      { ...own, pattern: "a/**" },
      { ...own, pattern: "a/*/x/**" },
      { ...own, pattern: "a" },
    ]) {
      expect((await put(app, body)).status, JSON.stringify(body)).toBe(201);
      await app.prepare("DELETE", SUBSCRIPTION);
    }
  });

  it("that also follows streams outside the confinement is out of reach, and reveals none of them", async () => {
    const app = await appWithStreams("a/x", "hidden/x");
    const token = await app.token({ streams: ["a/#"] });
    await put(app, { streams: ["a/x"], wake_stream: "a/wakes" });
    expect((await app.call("GET", SUBSCRIPTION, { token })).status).toBe(200);
    await app.prepare("POST", `${SUBSCRIPTION}/streams`, { body: { streams: ["hidden/x"] } });
    const asks: [string, string, unknown?][] = [
      ["GET", ""],
      ["PUT", "", { type: "pull-wake", streams: ["a/x"], wake_stream: "a/wakes" }],
      ["POST", "/streams", { streams: ["a/y"] }],
      ["DELETE", "/streams/a/x"],
      ["DELETE", "/streams/hidden/x"],
      ["POST", "/claim", { worker: "w" }],
      ["DELETE", ""],
    ];
    for (const [method, rest, body] of asks) {
      const answer = await app.call(method, SUBSCRIPTION + rest, { token, body });
      expect(answer, `${method} ${rest}`).toMatchObject({ status: 403, body: { code: "forbidden" } });
      expect(answer.body.error).toMatchObject({ code: "FORBIDDEN" });
      expect(answer.text).not.toContain("hidden");
    }
    const { body } = await app.prepare("GET", SUBSCRIPTION);
    expect(body.streams.map(({ path }: { path: string }) => path)).toEqual(["a/x", "hidden/x"]);
  });
});
