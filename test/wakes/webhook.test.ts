/** Webhooks: what a receiver is told, how its answers and callbacks count, and when it is told again. */
import { createPublicKey, type JsonWebKey, verify } from "node:crypto";
import type { ServerOptions } from "@sluice/server";
import { expect, test } from "vitest";
import { WAKE_LIMITS } from "../../packages/server/src/wakes/defaults.ts";
import { answered, TestApp } from "./app.ts";

async function opened(config: object = {}, settings: ServerOptions = {}): Promise<TestApp> {
  const app = await TestApp.open(settings);
  await app.webhook("s", config);
  return app;
}

/** After this time without a result, an attempt that is not under way in this process counts as lost. */
const LOST_ATTEMPT_MS = WAKE_LIMITS.lostAttemptMs;
const DOWN = { kind: "failed", why: "down" } as const;

function callback(app: TestApp, more: object = {}, notified = app.receiver.last) {
  const { wake_id, generation, callback_token } = notified;
  return app.subscription("POST", "s/callback", { wake_id, generation, ...more }, callback_token);
}

test("a webhook is told what happened, signed so that the published keys verify it", async () => {
  const app = await opened();
  const tail = await app.append("events/a");
  await app.notified(1);
  const { request, body } = app.receiver.received[0]!;
  expect(request.url).toBe("https://receiver.example/hook");
  expect(body).toEqual({
    subscription_id: "s",
    wake_id: expect.stringMatching(/^w_[0-9a-f]{24}$/),
    generation: 1,
    streams: [{ path: "events/a", link_type: "glob", acked_offset: "-1", tail_offset: tail, has_pending: true }],
    callback_url: "http://sluice.test/v1/stream/__ds/subscriptions/s/callback",
    callback_token: expect.any(String),
  });
  const [, t, kid, signature] = /^t=(\d+),kid=(ds_[\w-]+),ed25519=([\w-]+)$/.exec(
    request.headers["Webhook-Signature"]!,
  )!;
  expect(Number(t)).toBe(Math.floor(app.world.now() / 1_000));
  const jwks = await app.call("GET", "/v1/stream/__ds/jwks.json");
  expect(jwks.headers["content-type"]).toBe("application/jwk-set+json");
  const jwk = jwks.body.keys.find((key: { kid: string }) => key.kid === kid) as JsonWebKey;
  const key = createPublicKey({ key: jwk, format: "jwk" });
  const isValid = (text: string) => verify(null, Buffer.from(text), key, Buffer.from(signature!, "base64url"));
  expect(isValid(`${t}.${request.body}`)).toBe(true);
  expect(isValid(`${t}.${request.body} `)).toBe(false);
});

test("an answer of done acknowledges exactly what was told", async () => {
  const app = await opened();
  let answer: (done: boolean) => void = () => {};
  app.receiver.reply = () => new Promise((resolve) => (answer = (done) => resolve(answered({ done }))));
  const told = await app.append("events/a");
  await app.notified(1);
  const later = await app.append("events/a");
  await app.quiet();
  answer(true);
  await app.notified(2);
  expect(await app.acked("s", "events/a")).toBe(told);
  expect(app.receiver.last.generation).toBe(2);
  expect(app.receiver.last.streams[0]).toMatchObject({ acked_offset: told, tail_offset: later });
  answer(true);
  await app.ackedUpTo("s", "events/a", later);
  await app.quiet();
  expect(app.receiver.received).toHaveLength(2);
});

test("the late answer to an earlier wake does not start a second attempt beside the one under way", async () => {
  const app = await opened();
  const answers: (() => void)[] = [];
  app.receiver.reply = () => new Promise((resolve) => answers.push(() => resolve(answered({}))));
  const told = await app.append("events/a");
  await app.notified(1);
  await app.append("events/a");
  await callback(app, { acks: [{ stream: "events/a", offset: told }], done: true });
  await app.notified(2);
  answers[0]!();
  await app.quiet();
  await app.advance(LOST_ATTEMPT_MS);
  expect(app.receiver.received).toHaveLength(2);
});

test("only an answer of done acknowledges", async () => {
  const app = await opened({ lease_ttl_ms: 1_000 });
  const bodies = ["", "null", "[]", '{"done":"true"}', '{"done":1}', "done", '{"done":true'];
  for (const [i, body] of bodies.entries()) {
    app.receiver.reply = { kind: "answered", status: 200, body };
    if (i === 0) await app.append("events/a");
    else await app.advance(1_000);
    await app.notified(i + 1);
    await app.quiet();
    expect(await app.acked("s", "events/a"), body).toBe("-1");
  }
});

test("a callback acknowledges, extends the lease, and ends the wake with done", async () => {
  const app = await opened({ lease_ttl_ms: 1_000 });
  const tail = await app.append("events/a");
  await app.notified(1);
  await app.quiet();
  const first = app.receiver.last;
  for (let i = 0; i < 3; i++) {
    await app.advance(900);
    expect((await callback(app)).body).toEqual({ ok: true, next_wake: false });
  }
  expect(app.receiver.received).toHaveLength(1);
  const done = await callback(app, { acks: [{ stream: "events/a", offset: tail }], done: true });
  expect(done.body).toEqual({ ok: true, next_wake: false });
  expect((await callback(app, { done: true }, first)).body.error.code).toBe("FENCED");
  await app.advance(5_000);
  expect(app.receiver.received).toHaveLength(1);
});

test("a receiver that accepts and then says nothing is told again when its lease ends", async () => {
  const app = await opened({ lease_ttl_ms: 1_000 });
  await app.append("events/a");
  await app.notified(1);
  await app.quiet();
  const first = app.receiver.last;
  await app.advance(1_000);
  await app.notified(2);
  expect(app.receiver.last).toMatchObject({ generation: 2 });
  expect(app.receiver.last.wake_id).not.toBe(first.wake_id);
  expect((await callback(app, {}, first)).body.error.code).toBe("FENCED");
  expect((await callback(app)).status).toBe(200);
});

test("failures are retried after one second, doubling up to a minute, give or take a fifth", async () => {
  const app = await opened();
  app.receiver.reply = DOWN;
  await app.append("events/a");
  await app.notified(1);
  for (const base of [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
    await app.quiet();
    const attempts = app.receiver.received.length;
    const shown = await app.shown("s");
    expect(shown).toMatchObject({ status: "failed", retry_count: attempts });
    const waitMs = Date.parse(shown.next_attempt_at) - app.world.now();
    expect(waitMs).toBeGreaterThanOrEqual(base * 0.8);
    expect(waitMs).toBeLessThanOrEqual(base * 1.2);
    await app.advance(waitMs - 1);
    expect(app.receiver.received).toHaveLength(attempts);
    await app.advance(1);
    await app.notified(attempts + 1);
  }
  const ids = new Set(app.receiver.received.map(({ body }) => `${body.wake_id} ${body.generation}`));
  expect(ids.size).toBe(1);
  app.receiver.reply = answered({ done: true });
  await app.advance(72_000);
  await app.until(async () => (await app.shown("s")).status === "active");
  expect((await app.shown("s")).retry_count).toBe(0);
});

test("every answer but a success is a failure", async () => {
  for (const status of [199, 301, 302, 307, 400, 404, 410, 429, 500, 503]) {
    const app = await opened();
    app.receiver.reply = answered({ done: true }, status);
    await app.append("events/a");
    await app.until(async () => (await app.shown("s")).status === "failed", String(status));
    expect(await app.acked("s", "events/a")).toBe("-1");
  }
});

test("a receiver that calls back although its answer got lost is not told again", async () => {
  const app = await opened({ lease_ttl_ms: 600_000 });
  app.receiver.reply = DOWN;
  await app.append("events/a");
  await app.until(async () => (await app.shown("s")).status === "failed");
  expect((await callback(app)).status).toBe(200);
  expect(await app.shown("s")).toMatchObject({ status: "active", retry_count: 0 });
  await app.advance(120_000);
  expect(app.receiver.received).toHaveLength(1);
});

test("a slow attempt is not joined by a second one, however long it takes", async () => {
  const app = await opened();
  let answer: () => void = () => {};
  app.receiver.reply = () => new Promise((resolve) => (answer = () => resolve(answered({ done: true }))));
  await app.append("events/a");
  await app.notified(1);
  for (let i = 0; i < 10; i++) await app.advance(20_000);
  expect(app.receiver.received).toHaveLength(1);
  answer();
  await app.ackedUpTo("s", "events/a");
});

test("a hundred attempts are under way at most, and each of the others gets its turn", async () => {
  const app = await TestApp.open();
  for (let i = 0; i < 120; i++) await app.webhook(`s${i}`);
  let underWay = 0;
  let most = 0;
  app.receiver.reply = async () => {
    most = Math.max(most, ++underWay);
    await app.quiet();
    underWay--;
    return answered({ done: true });
  };
  await app.append("events/a");
  await app.notified(120);
  expect(most).toBe(100);
  const told = new Set(app.receiver.received.map(({ body }) => body.subscription_id));
  expect(told.size).toBe(120);
});

test("a wake takes on at most as many streams as the limit, and the others follow in the next wakes", async () => {
  const app = await opened({}, { internal: { wake: { streamsPerWake: 10 } } });
  app.receiver.reply = answered({ done: true });
  const config = { contentType: "application/json" };
  const payloads = [new TextEncoder().encode("1")];
  const create = (i: number) => app.app.streams.create("default", `events/${i}`, { config, closed: false, payloads });
  await Promise.all(Array.from({ length: 25 }, (_, i) => create(i)));
  await app.until(async () => (await app.shown("s")).streams.length === 25);
  await app.until(async () => {
    const { streams } = (await app.shown("s")) as { streams: { acked_offset: string }[] };
    return streams.every(({ acked_offset }) => acked_offset !== "-1");
  });
  expect(app.receiver.received.length).toBeGreaterThanOrEqual(3);
  for (const { body } of app.receiver.received) expect(body.streams.length).toBeLessThanOrEqual(10);
});

test("a stream that is deleted under a wake does not come back with its acknowledgement", async () => {
  const app = await opened();
  let answer: () => void = () => {};
  app.receiver.reply = () => new Promise((resolve) => (answer = () => resolve(answered({ done: true }))));
  await app.append("events/a");
  await app.notified(1);
  await app.call("DELETE", "/v1/stream/events/a");
  await app.until(async () => (await app.shown("s")).streams.length === 0);
  answer();
  await app.quiet();
  expect((await app.shown("s")).streams).toEqual([]);
});
