import { expect, test } from "vitest";
import { formatToken, parseToken } from "../../packages/server/src/wakes/tokens.ts";
import { type Answer, TestApp } from "./app.ts";

async function opened(config: object = {}): Promise<TestApp> {
  const app = await TestApp.open();
  await app.call("PUT", "/v1/stream/wakes");
  await app.pullWake("s", config);
  return app;
}

interface Claimed {
  readonly wake_id: string;
  readonly generation: number;
  readonly token: string;
  readonly streams: readonly { path: string; tail_offset: string }[];
}

async function claimed(app: TestApp, worker = "worker-1"): Promise<Claimed> {
  const answer = await app.claim("s", worker);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
}

function ack(app: TestApp, { wake_id, generation, token }: Claimed, more: object = {}): Promise<Answer> {
  return app.subscription("POST", "s/ack", { wake_id, generation, ...more }, token);
}

const code = ({ status, body }: Answer) => `${status} ${body.error.code}`;

test("an append writes one wake event, and more appends write no other while it is open", async () => {
  const app = await opened();
  await app.append("events/a");
  await app.append("events/a");
  await app.append("events/b");
  await app.events(1);
  await app.quiet();
  const now = app.world.now();
  expect(await app.messages("wakes")).toEqual([
    { type: "wake", subscription_id: "s", stream: "events/a", generation: 1, ts: now },
  ]);
});

test("a wake event goes into a stream of any content type", async () => {
  const app = await TestApp.open();
  await app.call("PUT", "/v1/stream/plain", undefined, { "content-type": "text/plain" });
  await app.pullWake("s", { wake_stream: "plain" });
  await app.append("events/a");
  await app.until(async () => (await app.call("GET", "/v1/stream/plain")).body !== undefined);
  expect((await app.call("GET", "/v1/stream/plain")).body).toMatchObject({ type: "wake", subscription_id: "s" });
});

test("a claim lists the streams with what is acknowledged and where they end", async () => {
  const app = await opened({ lease_ttl_ms: 2_000 });
  const idle = await app.append("events/idle");
  const first = await claimed(app);
  await ack(app, first, { acks: [{ stream: "events/idle", offset: idle }], done: true });
  const tail = await app.append("events/a");
  const answer = await app.claim("s");
  expect(answer.body).toMatchObject({ wake_id: expect.stringMatching(/^w_/), generation: 2, lease_ttl_ms: 2_000 });
  expect(answer.body.streams).toEqual([
    { path: "events/a", link_type: "glob", acked_offset: "-1", tail_offset: tail, has_pending: true },
    { path: "events/idle", link_type: "glob", acked_offset: idle, tail_offset: idle, has_pending: false },
  ]);
});

test("a claim right after an append finds its work, told or not", async () => {
  const app = await opened();
  for (let i = 1; i <= 20; i++) {
    const offset = await app.append("events/a");
    const claim = await claimed(app);
    expect(claim.generation).toBe(i);
    expect((await ack(app, claim, { acks: [{ stream: "events/a", offset }], done: true })).body).toEqual({
      ok: true,
      next_wake: false,
    });
  }
});

test("a wake has one holder", async () => {
  const app = await opened();
  await app.append("events/a");
  const { generation } = await claimed(app, "worker-1");
  const second = await app.claim("s", "worker-2");
  expect(code(second)).toBe("409 ALREADY_CLAIMED");
  expect(second.body.error).toMatchObject({ current_holder: "worker-1", generation });
});

test("of many claims at once exactly one wins", async () => {
  const app = await opened();
  await app.append("events/a");
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => app.claim("s", `worker-${i}`)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(19);
});

test("without work there is nothing to claim, and later work is told again", async () => {
  const app = await opened();
  expect(code(await app.claim("s"))).toBe("409 NO_PENDING_WORK");
  await app.append("events/a");
  await app.events(1);
  await app.call("DELETE", "/v1/stream/events/a");
  expect(code(await app.claim("s"))).toBe("409 NO_PENDING_WORK");
  await app.append("events/b");
  await app.events(2);
  expect((await app.messages("wakes"))[1]).toMatchObject({ stream: "events/b", generation: 2 });
});

test("an empty stream is no work", async () => {
  const app = await opened();
  await app.call("PUT", "/v1/stream/events/a");
  await app.quiet();
  expect(code(await app.claim("s"))).toBe("409 NO_PENDING_WORK");
  expect(await app.messages("wakes")).toEqual([]);
});

test("done ends the wake, and tells whether another follows", async () => {
  const app = await opened();
  const offset = await app.append("events/a");
  const first = await claimed(app);
  await app.append("events/b");
  const answer = await ack(app, first, { acks: [{ stream: "events/a", offset }], done: true });
  expect(answer.body).toEqual({ ok: true, next_wake: true });
  await app.until(async () => (await app.messages("wakes")).some(({ generation }) => generation === 2));
  const second = await claimed(app);
  expect(second.generation).toBe(2);
  const rest = [{ path: "events/b", offset: second.streams[0]!.tail_offset }];
  expect((await ack(app, second, { acks: rest, done: true })).body).toEqual({ ok: true, next_wake: false });
  expect(await app.acked("s", "events/a")).toBe(offset);
});

test("an ack is a heartbeat: it extends the lease", async () => {
  const app = await opened({ lease_ttl_ms: 1_000 });
  await app.append("events/a");
  const claim = await claimed(app);
  for (let i = 0; i < 5; i++) {
    await app.advance(900);
    expect((await ack(app, claim)).status).toBe(200);
  }
  expect(code(await app.claim("s", "worker-2"))).toBe("409 ALREADY_CLAIMED");
});

test("the end of the lease fences its holder and tells of the work anew", async () => {
  const app = await opened({ lease_ttl_ms: 1_000 });
  await app.append("events/a");
  await app.events(1);
  const claim = await claimed(app);
  await app.advance(999);
  expect(await app.messages("wakes")).toHaveLength(1);
  await app.advance(1);
  await app.events(2);
  expect((await app.messages("wakes"))[1]).toMatchObject({ generation: claim.generation + 1 });
  expect(code(await ack(app, claim))).toBe("409 FENCED");
  expect((await claimed(app, "worker-2")).generation).toBe(claim.generation + 1);
});

test("a lease that has ended is over even before anybody has noticed", async () => {
  const app = await opened({ lease_ttl_ms: 1_000 });
  await app.append("events/a");
  const claim = await claimed(app);
  await app.app.stop();
  app.world.advance(1_000);
  expect(code(await ack(app, claim))).toBe("409 FENCED");
  expect(await claimed(app, "worker-2")).toMatchObject({ generation: 2 });
});

test("a release gives the work back", async () => {
  const app = await opened();
  await app.append("events/a");
  const { wake_id, generation, token } = await claimed(app);
  expect((await app.subscription("POST", "s/release", { wake_id, generation }, token)).status).toBe(204);
  await app.until(async () => (await app.messages("wakes")).some((event) => event.generation === 2));
  expect(code(await app.subscription("POST", "s/release", { wake_id, generation }, token))).toBe("409 FENCED");
  expect((await claimed(app, "worker-2")).generation).toBe(2);
});

test("token, generation and wake id must all be the current ones", async () => {
  const app = await opened();
  await app.append("events/a");
  const { wake_id, generation, token } = await claimed(app);
  const good = { wake_id, generation };
  const real = parseToken(token)!;
  const secret = formatToken({
    ...real,
    secret: `${real.secret.slice(0, -1)}${real.secret.endsWith("A") ? "B" : "A"}`,
  });
  const older = formatToken({ ...real, generation: generation - 1 });
  for (const action of ["ack", "release"]) {
    const said = (body: object, shown: string) => app.subscription("POST", `s/${action}`, body, shown);
    expect(code(await said({ ...good, wake_id: "w_0" }, token))).toBe("409 FENCED");
    expect(code(await said({ ...good, generation: generation + 1 }, token))).toBe("409 FENCED");
    expect(code(await said(good, secret))).toBe("409 FENCED");
    expect(code(await said(good, older))).toBe("409 FENCED");
  }
  expect((await app.subscription("POST", "s/ack", good, token)).status).toBe(200);
});

test("a token that is missing, malformed, expired or another's is refused as such", async () => {
  const app = await opened({ lease_ttl_ms: 600_000 });
  await app.append("events/a");
  const claim = await claimed(app);
  const { wake_id, generation, token } = claim;
  const real = parseToken(token)!;
  const others = formatToken({ ...real, subscription: "t" });
  for (const shown of [undefined, "nonsense", "a.b", `${token}.x`, others, "x".repeat(5_000)]) {
    const answer = await app.subscription("POST", "s/ack", { wake_id, generation }, shown);
    expect(code(answer), shown).toBe("401 TOKEN_INVALID");
    expect(answer.headers["www-authenticate"]).toMatch(/^Bearer/);
  }
  for (let i = 0; i < 6; i++) {
    await app.advance(599_000);
    expect((await ack(app, claim)).status).toBe(200);
  }
  await app.advance(10_000);
  // An hour has passed; the lease would last longer.
  expect(code(await ack(app, claim))).toBe("401 TOKEN_EXPIRED");
  const prolonged = formatToken({ ...real, until: real.until * 2 });
  const forged = await app.subscription("POST", "s/ack", { wake_id, generation }, prolonged);
  expect(code(forged)).toBe("401 TOKEN_EXPIRED");
});

test("acks are checked, and one that cannot be takes the others with it", async () => {
  const app = await opened();
  const early = await app.append("events/a");
  const late = await app.append("events/a");
  const other = await app.append("events/b");
  const claim = await claimed(app);
  expect((await ack(app, claim, { acks: [{ stream: "events/a", offset: late }] })).status).toBe(200);
  const beyond = `${other.slice(0, -1)}9`;
  for (const [stream, offset] of [
    ["events/missing", late],
    ["events/a", early],
    ["events/a", "-1"],
    ["events/a", "now"],
    ["events/b", beyond],
  ]) {
    const acks = [
      { stream: "events/b", offset: other },
      { stream, offset },
    ];
    expect(code(await ack(app, claim, { acks, done: true })), `${stream} ${offset}`).toBe("409 INVALID_OFFSET");
  }
  expect(await app.acked("s", "events/b")).toBe("-1");
  expect(await app.acked("s", "events/a")).toBe(late);
  expect((await ack(app, claim, { acks: [{ stream: "events/a", offset: late }] })).status).toBe(200);
});

test("what is wrong with a word of the holder is named", async () => {
  const app = await opened();
  await app.append("events/a");
  const { wake_id, generation, token } = await claimed(app);
  const good = { wake_id, generation };
  const cases: [object, string][] = [
    [{ generation }, "wake_id"],
    [{ wake_id, generation: "1" }, "generation"],
    [{ ...good, done: "yes" }, "done"],
    [{ ...good, acks: {} }, "acks"],
    [{ ...good, acks: [{ stream: "a" }] }, "acks[0].offset"],
    [{ ...good, acks: [{ offset: "a" }] }, "acks[0].stream"],
    [{ ...good, acks: [{ stream: "a", offset: "b", at: 1 }] }, "acks[0].at"],
    [{ ...good, acks: Array(1_001).fill({ stream: "a", offset: "b" }) }, "acks must have at most 1000"],
    [{ ...good, ack: [] }, "ack"],
  ];
  for (const [body, named] of cases) {
    const answer = await app.subscription("POST", "s/ack", body, token);
    expect(code(answer)).toBe("400 INVALID_REQUEST");
    expect(answer.body.detail).toContain(named);
  }
  for (const worker of [undefined, "", 7, "a\nb", "x".repeat(257)]) {
    expect(code(await app.subscription("POST", "s/claim", { worker }))).toBe("400 INVALID_REQUEST");
  }
});

test("claims, acks and releases are for pull-wake subscriptions", async () => {
  const app = await TestApp.open();
  await app.webhook("s");
  await app.append("events/a");
  await app.notified(1);
  const { wake_id, generation, callback_token } = app.receiver.last;
  const word = { wake_id, generation };
  expect(code(await app.claim("s"))).toBe("400 INVALID_REQUEST");
  expect(code(await app.subscription("POST", "s/ack", word, callback_token))).toBe("400 INVALID_REQUEST");
  expect(code(await app.subscription("POST", "s/release", word, callback_token))).toBe("400 INVALID_REQUEST");
});

test("a missing wake stream is waited for, and the wake told as soon as it appears", async () => {
  const app = await TestApp.open();
  await app.pullWake("s");
  await app.append("events/a");
  await app.until(async () => (await app.shown("s")).status === "failed");
  await app.advance(10_000);
  expect((await app.shown("s")).retry_count).toBeGreaterThan(1);
  await app.call("PUT", "/v1/stream/wakes");
  await app.events(1);
  await app.until(async () => (await app.shown("s")).status === "active");
  expect(await app.messages("wakes")).toHaveLength(1);
  expect((await app.shown("s")).retry_count).toBe(0);
});

test("a wake stream that cannot be written to is tried again until it can be claimed or written", async () => {
  const app = await opened();
  await app.call("POST", "/v1/stream/wakes", undefined, { "stream-closed": "true" });
  await app.append("events/a");
  await app.until(async () => (await app.shown("s")).status === "failed");
  const claim = await claimed(app);
  expect((await app.shown("s")).status).toBe("active");
  expect(
    (await ack(app, claim, { acks: [{ path: "events/a", offset: claim.streams[0]!.tail_offset }], done: true })).body,
  ).toEqual({
    ok: true,
    next_wake: false,
  });
});

test("a pattern that matches its own wake stream does not wake itself", async () => {
  const app = await TestApp.open();
  await app.call("PUT", "/v1/stream/wakes");
  await app.pullWake("s", { pattern: "**" });
  const offset = await app.append("a");
  await app.events(1);
  const claim = await claimed(app);
  expect(claim.streams.map(({ path }) => path)).toEqual(["a"]);
  expect((await ack(app, claim, { acks: [{ stream: "a", offset }], done: true })).body.next_wake).toBe(false);
  await app.quiet();
  expect(await app.messages("wakes")).toHaveLength(1);
});
