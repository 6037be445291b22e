import { expect, it } from "vitest";
import type { Action } from "../../packages/server/src/core/action.ts";
import { AuthApp } from "./app.ts";

const STREAM = "/v1/p/stream/";
const SUBSCRIPTION = `${STREAM}__ds/subscriptions/s`;

async function withTopic(app = new AuthApp()): Promise<AuthApp> {
  await app.prepare("PUT", `${STREAM}a/b`, { headers: { "stream-shards": "2" } });
  await app.prepare("PUT", `${STREAM}a/wakes`);
  return app;
}

/** A request to a shard, and its answer to a caller that may use the topic. */
const ROWS = [
  { method: "GET", path: "a/b/$shard/0?offset=-1", right: 200 },
  { method: "GET", path: "a%2Fb%2F%24shard%2F0?offset=-1", right: 200 },
  { method: "HEAD", path: "a/b/$shard/1", right: 200 },
  { method: "POST", path: "a/b/$shard/0", right: 204 },
  { method: "POST", path: "a/b", right: 204 },
  { method: "PUT", path: "a/c?", right: 201, headers: { "stream-forked-from": "a/b/$shard/0" } },
  // No caller may delete a shard; a caller without access to the topic does not even learn that.
  { method: "DELETE", path: "a/b/$shard/0", right: 403, code: "reserved-name" },
];

for (const { method, path, right, code, headers } of ROWS) {
  it(`${method} ${path} is decided as on the topic`, async () => {
    const ask = async (streams: string[]) => {
      const app = await withTopic();
      const token = await app.token({ streams });
      return app.call(method, STREAM + path, {
        token,
        headers: headers ?? {},
        ...(method === "POST" && { body: [1] }),
      });
    };
    for (const streams of [["a/#"], ["a/+"], ["a/b", "a/c"], ["#"]]) {
      const answer = await ask(streams);
      expect(answer.status, `${streams}: ${answer.text}`).toBe(right);
      if (code !== undefined) expect(answer.body.code).toBe(code);
    }
    // The last two filters would match the path of the shard as an ordinary stream.
    for (const streams of [[], ["b/#"], ["a"], ["a/b/+/+"], ["a/b/$shard/#"], ["a/b/$shard/0"]]) {
      const answer = await ask(["a/c", ...streams]);
      expect(answer, String(streams)).toMatchObject({ status: 403, body: { code: "forbidden" } });
    }
  });
}

it("a listing shows shards to a caller that may see their topic", async () => {
  const app = await withTopic();
  const listed = async (...streams: string[]) => {
    const { body } = await app.call("GET", "/v1/p/streams", { token: await app.token({ streams }) });
    return body.streams.map(({ path }: { path: string }) => path);
  };
  const all = ["a/b", "a/b/$shard/0", "a/b/$shard/1"];
  expect(await listed("a/b")).toEqual(all);
  expect(await listed("a/+")).toEqual([...all, "a/wakes"]);
  expect(await listed("a/b/+/+")).toEqual([]);
  expect(await listed("a/b/$shard/0")).toEqual([]);
});

it("a pattern of a wake subscription that names shards needs access to their topics", async () => {
  const subscribe = async (pattern: string, ...streams: string[]) => {
    const app = await withTopic();
    const token = await app.token({ streams: ["a/wakes", ...streams] });
    const body = { type: "pull-wake", pattern, wake_stream: "a/wakes" };
    return (await app.call("PUT", SUBSCRIPTION, { token, body })).status;
  };
  expect(await subscribe("a/b/$shard/*", "a/b")).toBe(201);
  expect(await subscribe("a/*/$shard/*", "a/+")).toBe(201);
  expect(await subscribe("a/**", "a/#")).toBe(201);
  expect(await subscribe("a/b/*/*", "a/b/+/+")).toBe(201);
  expect(await subscribe("a/b/$shard/*", "a/b/+/+")).toBe(403);
  expect(await subscribe("a/b/$shard/**", "a/b/$shard/#")).toBe(403);
  expect(await subscribe("a/*/$shard/*", "a/b")).toBe(403);
});

it("a callback is asked about the topic, not the shard", async () => {
  const asked: (string | undefined)[] = [];
  const authorize = ({ stream }: Action) => {
    asked.push(stream);
    return true;
  };
  const app = new AuthApp({ authorize });
  for (const path of ["a/b/$shard/0", "a/b", "a/b/$shard/x"]) await app.call("GET", STREAM + path);
  await app.call("PUT", `${STREAM}f`, { headers: { "stream-forked-from": "a/b/$shard/1" } });
  expect(asked).toEqual(["a/b", "a/b", "a/b/$shard/x", "f", "a/b"]);
});
