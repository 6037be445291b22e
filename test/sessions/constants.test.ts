/** Every constant of fan-out and sessions: its default, and that it is a setting which takes effect. `faults-and-kills` runs under the defaults. */
import { withDefaults } from "@sluice/server";
import { describe, expect, it } from "vitest";
import type { FanoutHeaders } from "./api.ts";
import { stage, subscribers, uuid } from "./stage.ts";

const settings = withDefaults();

const mode = ({ mode }: FanoutHeaders) => mode;

describe("Defaults", () => {
  it.each([
    ["DEFAULT_SESSION_TTL_SECONDS", settings.sessionTtlSeconds, 1_800],
    ["FANOUT_BATCH_SIZE", settings.internal.fanout.batch, 50],
    ["FANOUT_QUEUE_THRESHOLD", settings.fanout.queueThreshold, 200],
    ["FANOUT_QUEUE_BATCH_SIZE", settings.internal.fanout.queueBatch, 50],
    ["MAX_INLINE_FANOUT", settings.fanout.maxInline, 1_000],
    ["FANOUT_RPC_TIMEOUT_MS", settings.fanout.timeoutMs, 10_000],
    ["CIRCUIT_BREAKER_FAILURE_THRESHOLD", settings.fanout.breakerFailures, 5],
    ["CIRCUIT_BREAKER_RECOVERY_MS", settings.fanout.breakerRecoveryMs, 60_000],
    ["a queue is bound", settings.fanout.queue, true],
    ["clean-up interval", settings.internal.session.cleanupMs, 300_000],
    ["sessions per clean-up batch", settings.internal.session.cleanupSessions, 10],
    ["registries per clean-up batch", settings.internal.session.cleanupStreams, 20],
  ])("%s is %s", (_, is, wanted) => expect(is).toBe(wanted));
});

describe("Constants", () => {
  it("a session lives for 1,800 seconds by default", async () => {
    const { api, now, pass } = await stage("memory");
    const alice = uuid();
    await api.create("s");
    expect((await api.subscribed(alice, "s")).body.expiresAt).toBe(now() + 1_800_000);
    pass(1_799_999);
    expect((await api.session(alice)).status).toBe(200);
    pass(180_001);
    expect((await api.session(alice)).status).toBe(404);
  });

  it("the TTL of sessions is a setting", async () => {
    const { api, now, pass } = await stage("memory", { sessionTtlSeconds: 60 });
    const alice = uuid();
    await api.create("s");
    expect((await api.subscribed(alice, "s")).body.expiresAt).toBe(now() + 60_000);
    expect((await api.touch(alice)).body.expiresAt).toBe(now() + 60_000);
    pass(66_000);
    expect((await api.session(alice)).status).toBe(404);
  });

  it("the threshold of the queue is a setting", async () => {
    const { api } = await stage("memory", { fanout: { queueThreshold: 1 } });
    await api.create("s");
    await api.subscribed(uuid(), "s");
    expect(mode(await api.published("s", "1"))).toBe("inline");
    await api.subscribed(uuid(), "s");
    expect(mode(await api.published("s", "1"))).toBe("queued");
  });

  it("the limit of inline fan-out is a setting", async () => {
    const { api } = await stage("memory", { fanout: { queue: false, maxInline: 1 } });
    await api.create("s");
    await api.subscribed(uuid(), "s");
    expect(mode(await api.published("s", "1"))).toBe("inline");
    await api.subscribed(uuid(), "s");
    expect(mode(await api.published("s", "1"))).toBe("skipped");
  });

  it("the failure threshold and the recovery time of the circuit breaker are settings", async () => {
    const { api, core, pass } = await stage("memory", { fanout: { breakerFailures: 1, breakerRecoveryMs: 1_000 } });
    await api.create("s");
    await subscribers(api, "s", 1);
    core.fate = ({ method }) => (method === "deliver" ? "refused" : undefined);
    expect(mode(await api.published("s", "1"))).toBe("inline");
    expect(mode(await api.published("s", "1"))).toBe("circuit-open");
    pass(999);
    expect(mode(await api.published("s", "1"))).toBe("circuit-open");
    pass(1);
    core.fate = () => undefined;
    expect(mode(await api.published("s", "1"))).toBe("inline");
  });
});
