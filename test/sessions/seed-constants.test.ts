/** Every constant of the table: its default, and that it is a setting which takes effect. */
import { withDefaults } from "@sluice/server";
import { afterEach, describe, expect, it, vi } from "vitest";
import { LocalQueue } from "../../packages/server/src/sessions/queue.ts";
import { describeOnEngines } from "../e2e/server.ts";
import { type FanoutHeaders, inline } from "./api.ts";
import { type Stage, stage, subscribers, uuid } from "./stage.ts";

afterEach(() => vi.restoreAllMocks());

const settings = withDefaults();
const ADMIN = { subject: undefined, isAdmin: true };

/** Subscribes many without a request for each. */
async function crowd({ app, api }: Stage, count: number): Promise<string[]> {
  await api.create("s");
  const sessions = Array.from({ length: count }, uuid).sort();
  const { service } = app.sessions;
  const subscribe = (sessionId: string) =>
    service.subscribe("default", { sessionId, streamId: "s", format: "raw", from: undefined }, ADMIN);
  for (const { kind } of await Promise.all(sessions.map(subscribe))) expect(kind).toBe("joined");
  return sessions;
}

const mode = ({ mode }: FanoutHeaders) => mode;

describe("Defaults", () => {
  it.each([
    ["DEFAULT_SESSION_TTL_SECONDS", settings.sessionTtlSeconds, 1_800],
    ["FANOUT_BATCH_SIZE", settings.fanout.batch, 50],
    ["FANOUT_QUEUE_THRESHOLD", settings.fanout.queueThreshold, 200],
    ["FANOUT_QUEUE_BATCH_SIZE", settings.fanout.queueBatch, 50],
    ["MAX_INLINE_FANOUT", settings.fanout.maxInline, 1_000],
    ["FANOUT_RPC_TIMEOUT_MS", settings.fanout.timeoutMs, 10_000],
    ["CIRCUIT_BREAKER_FAILURE_THRESHOLD", settings.fanout.breakerFailures, 5],
    ["CIRCUIT_BREAKER_RECOVERY_MS", settings.fanout.breakerRecoveryMs, 60_000],
    ["messages per send", settings.fanout.queueSend, 100],
    ["a queue is bound", settings.fanout.queue, true],
    ["clean-up interval", settings.session.cleanupMs, 300_000],
    ["sessions per clean-up batch", settings.session.cleanupSessions, 10],
    ["registries per clean-up batch", settings.session.cleanupStreams, 20],
  ])("%s is %s", (_, is, wanted) => expect(is).toBe(wanted));
});

describeOnEngines("Constants", (engine) => {
  it("DEFAULT_SESSION_TTL_SECONDS: 1800", async () => {
    const { api, now, pass } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    expect((await api.subscribed(alice, "s")).body.expiresAt).toBe(now() + 1_800_000);
    pass(1_799_999);
    expect((await api.session(alice)).status).toBe(200);
    pass(180_001);
    expect((await api.session(alice)).status).toBe(404);
  });

  it("DEFAULT_SESSION_TTL_SECONDS: a setting", async () => {
    const { api, now, pass } = await stage(engine, { sessionTtlSeconds: 60 });
    const alice = uuid();
    await api.create("s");
    expect((await api.subscribed(alice, "s")).body.expiresAt).toBe(now() + 60_000);
    expect((await api.touch(alice)).body.expiresAt).toBe(now() + 60_000);
    pass(66_000);
    expect((await api.session(alice)).status).toBe(404);
  });

  it("FANOUT_BATCH_SIZE: 50 copies at a time; FANOUT_QUEUE_THRESHOLD: 200 inline, 201 queued", async () => {
    const on = await stage(engine);
    await crowd(on, 200);
    on.core.atOnce = 0;
    expect(await on.api.published("s", "1")).toEqual(inline(200));
    expect(on.core.atOnce).toBe(50);
    await on.api.subscribed(uuid(), "s");
    expect(await on.api.published("s", "2")).toEqual({ count: 201, successes: 0, failures: 0, mode: "queued" });
    await on.until(() => expect(on.points.filter(({ blobs }) => blobs[2] === "fanout")).toHaveLength(2), 0);
  });

  it("FANOUT_QUEUE_THRESHOLD: a setting", async () => {
    const { api } = await stage(engine, { fanout: { queueThreshold: 1 } });
    await api.create("s");
    await api.subscribed(uuid(), "s");
    expect(mode(await api.published("s", "1"))).toBe("inline");
    await api.subscribed(uuid(), "s");
    expect(mode(await api.published("s", "1"))).toBe("queued");
  });

  it("FANOUT_QUEUE_BATCH_SIZE: 50 sessions per queue message, 100 messages per send", async () => {
    const sendBatch = vi.spyOn(LocalQueue.prototype as unknown as { sendBatch(): void }, "sendBatch");
    // A queue message for each session makes the second limit visible without ten thousand of them.
    for (const [queueBatch, sessions, sends] of [
      [undefined, 120, [[50, 50, 20]]],
      [1, 101, [Array(100).fill(1), [1]]],
    ] as const) {
      const on = await stage(engine, { fanout: { queueThreshold: 100, queueBatch } });
      await crowd(on, sessions);
      sendBatch.mockClear();
      await on.api.published("s", "1");
      await on.until(() => expect(on.points.filter(({ blobs }) => blobs[2] === "fanout")).toHaveLength(1), 0);
      const sent = sendBatch.mock.calls as unknown as [{ sessions: unknown[] }[]][];
      expect(sent.map(([messages]) => messages.map(({ sessions: { length } }) => length))).toEqual(sends);
    }
  });

  it("MAX_INLINE_FANOUT: without a queue, 1000 inline and 1001 skipped", async () => {
    const on = await stage(engine, { fanout: { queue: false } });
    await crowd(on, 1_000);
    expect(await on.api.published("s", "1")).toEqual(inline(1_000));
    const last = uuid();
    await on.api.subscribed(last, "s");
    expect(await on.api.published("s", "2")).toEqual({ count: 1_001, successes: 0, failures: 0, mode: "skipped" });
    await on.until(() => expect(on.points.filter(({ blobs }) => blobs[2] === "fanout")).toHaveLength(2), 0);
    expect(await on.api.messages(last)).toEqual([2]);
  });

  it("MAX_INLINE_FANOUT: a setting", async () => {
    const { api } = await stage(engine, { fanout: { queue: false, maxInline: 1 } });
    await api.create("s");
    await api.subscribed(uuid(), "s");
    expect(mode(await api.published("s", "1"))).toBe("inline");
    await api.subscribed(uuid(), "s");
    expect(mode(await api.published("s", "1"))).toBe("skipped");
  });

  it("FANOUT_RPC_TIMEOUT_MS: 10 s", async () => {
    const { api, core, pass, until, points } = await stage(engine);
    await api.create("s");
    await subscribers(api, "s", 1);
    core.fate = ({ method }) => (method === "postStream" ? "stuck" : undefined);
    const publishing = api.published("s", "1");
    await until(() => expect(core.pending).toBe(1), 0);
    pass(9_999);
    await api.session(uuid());
    expect(points.filter(({ blobs }) => blobs[2] === "publish")).toEqual([]);
    pass(1);
    expect(await publishing).toEqual(inline(1, 0, 1));
  });

  it("CIRCUIT_BREAKER_FAILURE_THRESHOLD and CIRCUIT_BREAKER_RECOVERY_MS: settings", async () => {
    const { api, core, pass } = await stage(engine, { fanout: { breakerFailures: 1, breakerRecoveryMs: 1_000 } });
    await api.create("s");
    await subscribers(api, "s", 1);
    core.fate = ({ method }) => (method === "postStream" ? "refused" : undefined);
    expect(mode(await api.published("s", "1"))).toBe("inline");
    expect(mode(await api.published("s", "1"))).toBe("circuit-open");
    pass(999);
    expect(mode(await api.published("s", "1"))).toBe("circuit-open");
    pass(1);
    core.fate = () => undefined;
    expect(mode(await api.published("s", "1"))).toBe("inline");
  });
});
