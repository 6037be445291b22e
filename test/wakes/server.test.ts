import { createServer, type RunningServer, type ServerOptions } from "@sluice/server";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually, serverForTest } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { receiver } from "./receiver.ts";

const JSON_TYPE = { "content-type": "application/json" };

describe.each(["disk", "redis"])("Wake subscriptions on %s", (engine) => {
  let redis: ReturnType<typeof sharedRedis>;
  let directory: ReturnType<typeof temporaryDir>;
  let server: RunningServer;
  let reports: string[];

  const open = async () => {
    const report = (what: string, fault: unknown) => void reports.push(`${what}: ${fault}`);
    const place = engine === "redis" ? { redis } : { data: directory.dir };
    server = await createServer({ port: 0, ...place, drainMs: 2_000, log: false, report });
  };
  const restart = async () => {
    await server.close();
    await open();
  };

  beforeEach(async () => {
    directory = temporaryDir();
    redis = sharedRedis();
    reports = [];
    await open();
  });
  afterEach(async () => {
    await server.close();
    directory.remove();
    expect(reports).toEqual([]);
  });

  async function call(method: string, path: string, body?: unknown, token?: string) {
    const headers = { ...JSON_TYPE, ...(token ? { authorization: `Bearer ${token}` } : {}) };
    const url = `${server.url}/v1/stream/${path}`;
    const response = await fetch(url, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    // biome-ignore lint/suspicious/noExplicitAny: bodies are whatever the test expects of them.
    const parsed: any = text === "" ? undefined : JSON.parse(text);
    return { status: response.status, body: parsed, tail: response.headers.get("stream-next-offset")! };
  }
  const subscription = (method: string, rest: string, body?: unknown, token?: string) =>
    call(method, `__ds/subscriptions/${rest}`, body, token);

  test("a claim, its lease and its token outlive the process", async () => {
    await call("PUT", "wakes");
    const config = { type: "pull-wake", pattern: "events/*", wake_stream: "wakes", lease_ttl_ms: 600_000 };
    expect((await subscription("PUT", "s", config)).status).toBe(201);
    const { tail } = await call("PUT", "events/a", { n: 1 });
    const { wake_id, generation, token } = (await subscription("POST", "s/claim", { worker: "w1" })).body;
    await restart();
    const busy = await subscription("POST", "s/claim", { worker: "w2" });
    expect(busy.body.error).toMatchObject({ code: "ALREADY_CLAIMED", current_holder: "w1", generation });
    const acks = [{ stream: "events/a", offset: tail }];
    const done = await subscription("POST", "s/ack", { wake_id, generation, acks, done: true }, token);
    expect(done.body).toEqual({ ok: true, next_wake: false });
    await restart();
    expect((await subscription("GET", "s")).body.streams).toEqual([
      { path: "events/a", link_type: "glob", acked_offset: tail },
    ]);
    await call("POST", "events/a", { n: 2 });
    expect((await subscription("POST", "s/claim", { worker: "w2" })).body.generation).toBe(generation + 1);
  });

  test("a failing webhook is tried again after a restart, and the same key signs", async () => {
    const hook = await receiver();
    hook.status = 503;
    const config = { type: "webhook", pattern: "events/*", streams: ["named"], webhook: { url: hook.url } };
    const created = await subscription("PUT", "s", config);
    const { tail } = await call("PUT", "events/a", { n: 1 });
    await eventually(async () => expect((await subscription("GET", "s")).body.status).toBe("failed"));
    await server.close();
    const before = hook.received.length;
    hook.status = 200;
    hook.answer = { done: true };
    await open();
    const shown = (await subscription("GET", "s")).body;
    expect(shown.webhook.signing.kid).toBe(created.body.webhook.signing.kid);
    await eventually(() => expect(hook.received.length).toBeGreaterThan(before));
    const [first, last] = [hook.received[0]!, hook.received.at(-1)!];
    expect(last).toMatchObject({ wake_id: first.wake_id, generation: first.generation });
    await eventually(async () => {
      const { status, retry_count, streams } = (await subscription("GET", "s")).body;
      expect({ status, retry_count }).toEqual({ status: "active", retry_count: 0 });
      expect(streams).toContainEqual({ path: "events/a", link_type: "glob", acked_offset: tail });
    });
    await call("PUT", "named", { n: 1 });
    await eventually(() => expect(hook.received.at(-1)).toMatchObject({ generation: first.generation + 1 }));
  });

  test("a deleted subscription stays deleted", async () => {
    const config = { type: "pull-wake", pattern: "events/*", wake_stream: "wakes" };
    await subscription("PUT", "s", config);
    await subscription("DELETE", "s");
    await restart();
    expect((await subscription("GET", "s")).status).toBe(404);
    expect((await subscription("PUT", "s", config)).status).toBe(201);
  });
});

describe("A public address", () => {
  const publicUrl = "https://streams.example.com";
  const subscribe = async (name: string, hook: string, options: ServerOptions = {}) => {
    const { url } = await serverForTest("memory", { publicUrl, ...options });
    const streams = `${url}/v1/stream`;
    const body = JSON.stringify({ type: "webhook", pattern: "events/*", webhook: { url: hook } });
    const answer = await fetch(`${streams}/__ds/subscriptions/${name}`, { method: "PUT", headers: JSON_TYPE, body });
    // biome-ignore lint/suspicious/noExplicitAny: bodies are whatever the test expects of them.
    return { streams, told: (await answer.json()) as any };
  };

  test("by default, a server with one refuses a webhook on its own machine", async () => {
    const { told } = await subscribe("s", "http://127.0.0.1:1/hook");
    expect(told.error.code).toBe("WEBHOOK_URL_REJECTED");
  });

  test("is in the links that a webhook gets", async () => {
    const hook = await receiver();
    const { streams, told } = await subscribe("a b", hook.url, { webhook: { allowLoopback: true } });
    expect(told.webhook.signing.jwks_url).toBe(`${publicUrl}/v1/stream/__ds/jwks.json`);
    await fetch(`${streams}/events/a`, { method: "PUT", headers: JSON_TYPE, body: JSON.stringify({ n: 1 }) });
    await eventually(() => expect(hook.received).toHaveLength(1));
    const { callback_url } = hook.received[0]!;
    expect(callback_url).toBe(`${publicUrl}/v1/stream/__ds/subscriptions/a%20b/callback`);
  });
});
