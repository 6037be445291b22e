/** Wake subscriptions through HTTP: creating, confirming, linking, deleting, and what is refused. */
import { expect, test } from "vitest";
import { formatToken, parseToken } from "../../packages/server/src/wakes/tokens.ts";
import { type Answer, TestApp } from "./app.ts";

function expectProblem(answer: Answer, status: number, code: string, wireCode: string): void {
  expect(answer.status, JSON.stringify(answer.body)).toBe(status);
  expect(answer.headers["content-type"]).toBe("application/problem+json");
  const { title, detail, retryable } = answer.body;
  expect(answer.body).toMatchObject({ type: `urn:sluice:problem:${code}`, status, code });
  expect([typeof title, typeof detail, typeof retryable]).toEqual(["string", "string", "boolean"]);
  expect(answer.body.error).toMatchObject({ code: wireCode, message: detail });
}

test("the same PUT again confirms, another one is refused", async () => {
  const app = await TestApp.open();
  expect((await app.pullWake("s", { streams: ["b", "a", "b"], description: "d" })).status).toBe(201);
  const again = await app.pullWake("s", { streams: ["a", "b"], description: "d" });
  expect(again.status).toBe(200);
  expect(again.body).toMatchObject({
    id: "s",
    type: "pull-wake",
    pattern: "events/*",
    wake_stream: "wakes",
    description: "d",
  });
  expect(again.body).toMatchObject({ status: "active", lease_ttl_ms: 30_000, created_at: "2026-01-01T00:00:00.000Z" });
  for (const change of [
    { description: "e" },
    { streams: ["a"] },
    { streams: ["a", "c"] },
    { lease_ttl_ms: 5_000 },
    { wake_stream: "w" },
  ]) {
    const answer = await app.pullWake("s", { streams: ["a", "b"], description: "d", ...change });
    expectProblem(answer, 409, "subscription-already-exists", "SUBSCRIPTION_ALREADY_EXISTS");
  }
});

test("streams that exist are linked at their tail, and nothing wakes for what they hold already", async () => {
  const app = await TestApp.open();
  const tail = await app.append("events/old");
  const named = await app.append("named/old");
  await app.append("elsewhere/old");
  await app.webhook("s", { streams: ["named/old", "named/missing"] });
  expect((await app.shown("s")).streams).toEqual([
    { path: "events/old", link_type: "glob", acked_offset: tail },
    { path: "named/missing", link_type: "explicit", acked_offset: "0000000000000000_0000000000000000" },
    { path: "named/old", link_type: "explicit", acked_offset: named },
  ]);
  await app.quiet();
  expect(app.receiver.received).toEqual([]);
  await app.append("named/missing");
  await app.notified(1);
  expect(app.receiver.last.streams.filter((stream) => stream.has_pending).map(({ path }) => path)).toEqual([
    "named/missing",
  ]);
});

test("projects do not see each other's subscriptions, streams and keys", async () => {
  const app = await TestApp.open();
  const config = { type: "webhook", pattern: "**", webhook: { url: "https://receiver.example/" } };
  const created = await app.call("PUT", "/v1/acme/stream/__ds/subscriptions/s", config);
  expect(created.status).toBe(201);
  expect(created.body.webhook.signing.jwks_url).toBe("http://sluice.test/v1/acme/stream/__ds/jwks.json");
  expect((await app.subscription("GET", "s")).status).toBe(404);
  await app.append("events/a");
  await app.quiet();
  expect(app.receiver.received).toEqual([]);
  expect((await app.call("GET", "/v1/stream/__ds/jwks.json")).body).toEqual({ keys: [] });
  await app.call("PUT", "/v1/acme/stream/a", { n: 1 });
  await app.notified(1);
  expect(app.receiver.last.callback_url).toBe("http://sluice.test/v1/acme/stream/__ds/subscriptions/s/callback");
});

test("what is wrong with a body is named", async () => {
  const app = await TestApp.open();
  const pull = { type: "pull-wake", pattern: "a/*", wake_stream: "w" };
  const cases: [unknown, string][] = [
    ["", "the body must be JSON"],
    ["[]", "the body must be a JSON object"],
    [{ ...pull, type: "push" }, "type"],
    [{ ...pull, patern: "x" }, "patern"],
    [{ ...pull, pattern: 7 }, "pattern"],
    [{ ...pull, pattern: "a*" }, "pattern"],
    [{ ...pull, pattern: "" }, "pattern"],
    [{ ...pull, pattern: undefined }, "pattern or streams"],
    [{ ...pull, streams: "a" }, "streams"],
    [{ ...pull, streams: ["a", 1] }, "streams[1]"],
    [{ ...pull, streams: ["$reserved"] }, "streams[0]"],
    [{ ...pull, streams: ["a\nb"] }, "streams[0]"],
    [{ ...pull, streams: ["a\ud800"] }, "streams[0]"],
    [{ ...pull, pattern: "a/\udfff" }, "pattern"],
    [{ ...pull, wake_stream: "\udc00\ud800" }, "wake_stream"],
    [{ ...pull, description: "\ud800." }, "description"],
    [{ type: "webhook", pattern: "a", webhook: { url: "https://a.example/\ud800" } }, "webhook.url"],
    [{ ...pull, streams: ["w"] }, "wake_stream"],
    [{ ...pull, streams: Array.from({ length: 1_001 }, (_, i) => `s${i}`) }, "streams must have at most 1000"],
    [{ ...pull, wake_stream: undefined }, "wake_stream"],
    [{ ...pull, wake_stream: "__ds/x" }, "wake_stream"],
    [{ ...pull, webhook: { url: "https://a.example" } }, "webhook"],
    [{ ...pull, lease_ttl_ms: 999 }, "lease_ttl_ms"],
    [{ ...pull, lease_ttl_ms: 600_001 }, "lease_ttl_ms"],
    [{ ...pull, lease_ttl_ms: "1000" }, "lease_ttl_ms"],
    [{ ...pull, description: 1 }, "description"],
    [{ type: "webhook", pattern: "a" }, "webhook"],
    [{ type: "webhook", pattern: "a", webhook: {} }, "webhook.url"],
    [{ type: "webhook", pattern: "a", webhook: { url: "https://a.example", secret: "x" } }, "webhook.secret"],
    [{ type: "webhook", pattern: "a", webhook: { url: "https://a.example" }, wake_stream: "w" }, "wake_stream"],
  ];
  for (const [body, named] of cases) {
    const answer = await app.subscription("PUT", "s", body);
    expectProblem(answer, 400, "bad-body", "INVALID_REQUEST");
    expect(answer.body.detail).toContain(named);
  }
  expect((await app.subscription("GET", "s")).status).toBe(404);
});

test("unsafe targets are refused when the subscription is made", async () => {
  const app = await TestApp.open({ webhook: { allowLoopback: false } });
  for (const url of ["http://localhost/hook", "https://10.0.0.1/", "https://u:p@example.com/", "http://example.com/"]) {
    expectProblem(await app.webhook("s", { webhook: { url } }), 400, "webhook-url-rejected", "WEBHOOK_URL_REJECTED");
  }
});

test("a body of more than 64 KiB is refused", async () => {
  const app = await TestApp.open();
  const answer = await app.pullWake("s", { description: "x".repeat(64 * 1_024) });
  expectProblem(answer, 413, "too-large", "TOO_LARGE");
});

test("an id has 1 to 256 bytes and no control characters", async () => {
  const app = await TestApp.open();
  expect((await app.pullWake("x".repeat(256))).status).toBe(201);
  expect((await app.pullWake(encodeURIComponent("ключ / 1"))).body.id).toBe("ключ / 1");
  for (const id of ["", "x".repeat(257), "%C3%BC".repeat(129), "a%0Ab", "a%7Fb", "%E0%A4%A"]) {
    expectProblem(await app.pullWake(id), 400, "bad-request", "INVALID_REQUEST");
  }
});

test("addresses and methods that do not exist are refused", async () => {
  const app = await TestApp.open();
  await app.pullWake("s");
  for (const path of [
    "",
    "nothing",
    "subscriptions/s/nothing",
    "subscriptions/s/claim/x",
    "subscriptions/s/toString",
  ]) {
    expectProblem(await app.call("POST", `/v1/stream/__ds/${path}`, {}), 404, "no-route", "NO_ROUTE");
  }
  const post = await app.subscription("POST", "s");
  expectProblem(post, 405, "method-not-allowed", "METHOD_NOT_ALLOWED");
  expect(post.headers.allow).toBe("PUT, GET, HEAD, DELETE, OPTIONS");
  expect((await app.subscription("GET", "s/claim")).status).toBe(405);
  expect((await app.call("POST", "/v1/stream/__ds/jwks.json")).status).toBe(405);
});

test("a subscription that does not exist is not found, and deleting it is fine", async () => {
  const app = await TestApp.open();
  const token = "x";
  const word = { wake_id: "w", generation: 1 };
  const answers = [
    await app.subscription("GET", "s"),
    await app.subscription("POST", "s/streams", { streams: ["a"] }),
    await app.subscription("DELETE", "s/streams/a"),
    await app.claim("s"),
    await app.subscription("POST", "s/ack", word, token),
    await app.subscription("POST", "s/callback", word, token),
    await app.subscription("POST", "s/release", word, token),
  ];
  for (const answer of answers) expectProblem(answer, 404, "subscription-not-found", "SUBSCRIPTION_NOT_FOUND");
  expect((await app.subscription("DELETE", "s")).status).toBe(204);
});

test("explicit streams come and go, and what the pattern linked stays", async () => {
  const app = await TestApp.open();
  const tail = await app.append("events/a");
  await app.pullWake("s");
  const other = await app.append("other/b");
  expect((await app.subscription("POST", "s/streams", { streams: ["events/a", "other/b", "/other/c"] })).status).toBe(
    204,
  );
  expect((await app.shown("s")).streams).toEqual([
    { path: "events/a", link_type: "explicit", acked_offset: tail },
    { path: "other/b", link_type: "explicit", acked_offset: other },
    { path: "other/c", link_type: "explicit", acked_offset: "0000000000000000_0000000000000000" },
  ]);
  for (const path of ["events/a", "other/b"]) {
    expect((await app.subscription("DELETE", `s/streams/${encodeURIComponent(path)}`)).status).toBe(204);
  }
  expect((await app.subscription("DELETE", "s/streams/other/c")).status).toBe(204);
  expect((await app.shown("s")).streams).toEqual([{ path: "events/a", link_type: "glob", acked_offset: tail }]);
  await app.append("other/b");
  await app.append("other/c");
  await app.quiet();
  expect((await app.claim("s")).body.error.code).toBe("NO_PENDING_WORK");
  const own = await app.subscription("POST", "s/streams", { streams: ["wakes"] });
  expectProblem(own, 400, "bad-body", "INVALID_REQUEST");
});

test("a stream added by name wakes when something is appended to it", async () => {
  const app = await TestApp.open();
  await app.webhook("s");
  await app.append("named");
  await app.subscription("POST", "s/streams", { streams: ["named"] });
  await app.quiet();
  expect(app.receiver.received).toEqual([]);
  await app.append("named");
  await app.notified(1);
});

test("streams beyond the limit of links are refused, all of one request together", async () => {
  const app = await TestApp.open({ wake: { links: 10 } });
  await app.pullWake("s", { pattern: undefined, streams: ["first"] });
  const names = Array.from({ length: 10 }, (_, i) => `n/${i}`);
  expectProblem(
    await app.subscription("POST", "s/streams", { streams: names }),
    409,
    "too-many-links",
    "TOO_MANY_LINKS",
  );
  expect((await app.shown("s")).streams).toHaveLength(1);
  expect((await app.subscription("POST", "s/streams", { streams: names.slice(1) })).status).toBe(204);
  expect((await app.shown("s")).streams).toHaveLength(10);
});

test("a pattern that matches more streams than the limit is refused, and later streams wait for room", async () => {
  const app = await TestApp.open({ wake: { links: 10 }, internal: { wake: { streamsPerWake: 4 } } });
  const { streams } = app.app;
  const config = { contentType: "application/json" };
  const create = (i: number) => streams.create("default", `events/${i}`, { config, closed: false, payloads: [] });
  await Promise.all(Array.from({ length: 11 }, (_, i) => create(i)));
  expectProblem(await app.pullWake("s"), 409, "too-many-links", "TOO_MANY_LINKS");
  await streams.delete("default", "events/9");
  expect((await app.pullWake("s")).status).toBe(201);

  await app.append("events/9");
  await app.until(() => app.reports.length > 0);
  expect(app.reports).toEqual([
    expect.stringContaining("more streams match the wake subscription default/s than can be linked"),
  ]);
  expect((await app.claim("s")).body.error.code).toBe("NO_PENDING_WORK");
  await streams.delete("default", "events/1");
  await app.append("events/9");
  const claimed = await app.claim("s");
  // Pending streams come first, however many others there are.
  expect(claimed.body.streams).toHaveLength(4);
  expect(claimed.body.streams[0]).toMatchObject({ path: "events/9", acked_offset: "-1", has_pending: true });
  expect(app.reports).toHaveLength(1);
});

test("a deleted id can be used again, and tokens of the old subscription are fenced", async () => {
  const app = await TestApp.open();
  await app.pullWake("s");
  await app.append("events/a");
  const old = (await app.claim("s")).body;
  expect((await app.subscription("DELETE", "s")).status).toBe(204);
  expect((await app.subscription("GET", "s")).status).toBe(404);
  expect((await app.pullWake("s", { description: "new" })).status).toBe(201);
  await app.append("events/a");
  const fresh = (await app.claim("s")).body;
  expect(fresh.generation).toBe(old.generation);
  const { wake_id, generation } = fresh;
  const { incarnation } = parseToken(old.token)!;
  // Even with everything else right, a token of an earlier incarnation is not enough.
  const mixed = formatToken({ ...parseToken(fresh.token)!, incarnation });
  for (const token of [old.token, mixed]) {
    const answer = await app.subscription("POST", "s/ack", { wake_id, generation, done: true }, token);
    expectProblem(answer, 409, "fenced", "FENCED");
  }
  expect((await app.subscription("POST", "s/ack", { wake_id, generation, done: true }, fresh.token)).status).toBe(200);
});

test("deleting ends what is under way", async () => {
  const app = await TestApp.open();
  await app.webhook("s", { streams: ["named"] });
  app.receiver.reply = { kind: "failed", why: "down" };
  await app.append("events/a");
  await app.notified(1);
  await app.quiet();
  expect(app.known).toEqual({ size: 1, explicitLinks: 1 });
  await app.subscription("DELETE", "s");
  expect(app.known).toEqual({ size: 0, explicitLinks: 0 });
  await app.append("events/a");
  await app.advance(120_000);
  expect(app.receiver.received).toHaveLength(1);
  expect(await app.engine.due(0, 10)).toEqual([]);
});
