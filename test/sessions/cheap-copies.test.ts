/** The cost of copies in bytes and commits, and that a copy outlives its source. */
import { describe, expect, it } from "vitest";
import type { Effect, Message } from "../../packages/server/src/engine/contract.ts";
import { describeAloneAndShared } from "../e2e/server.ts";
import { type Stage, stage, subscribers } from "./stage.ts";

const SESSIONS = 50;
const KIB = 1_024;

function messageBytes({ payload, attributes = {} }: Message): number {
  return payload.length + JSON.stringify(attributes).length;
}

function effectBytes(effect: Effect): number {
  if (effect.op === "append") return effect.messages.reduce((sum, message) => sum + messageBytes(message), 0);
  return effect.op === "put" ? effect.value.length : 0;
}

/** What was written for the sessions by one publish, on average for a copy. */
async function bytesPerCopy({ api, trouble }: Stage, size: number): Promise<number> {
  trouble.committed.length = 0;
  await api.published("s", JSON.stringify("x".repeat(size - 2)));
  const copies = trouble.committed.filter(({ entity }) => entity.kind === "session");
  const bytes = copies.flatMap(({ effects }) => effects).reduce((sum, effect) => sum + effectBytes(effect), 0);
  return bytes / SESSIONS;
}

/** How often the journal was flushed so far, and what was written to it. */
function journalOf({ engine }: Stage): { flushes: number; bytes: number } {
  const seen = { flushes: 0, bytes: 0 };
  for (const metric of engine.metrics!()) {
    if (metric.name === "sluice_journal_fsync_seconds" && metric.kind === "histogram") {
      metric.read(({ count }) => {
        seen.flushes = count;
      });
    }
    if (metric.name === "sluice_journal_bytes_total" && metric.kind === "counter") {
      metric.read((bytes) => {
        seen.bytes = bytes;
      });
    }
  }
  return seen;
}

describeAloneAndShared("Copies are cheap", (engine) => {
  it("above 1 KiB the bytes written per copy do not depend on the payload", async () => {
    const on = await stage(engine);
    await on.api.create("s");
    const sessions = await subscribers(on.api, "s", SESSIONS);
    const small = await bytesPerCopy(on, KIB);
    const costs: number[] = [];
    for (const size of [KIB + 1, 4 * KIB, 64 * KIB]) costs.push(await bytesPerCopy(on, size));
    expect(small).toBeGreaterThan(KIB);
    for (const cost of costs) expect(cost).toBeLessThan(KIB / 2);
    // The notes differ by the digits of a size at most.
    expect(Math.max(...costs) - Math.min(...costs)).toBeLessThan(16);
    const lengths = (await on.api.messages(sessions[7]!)).map((text) => (text as string).length + 2);
    expect(lengths).toEqual([KIB, KIB + 1, 4 * KIB, 64 * KIB]);
  });

  it("a large payload is written once for all copies", async () => {
    const on = await stage(engine);
    await on.api.create("s");
    await subscribers(on.api, "s", SESSIONS);
    on.trouble.committed.length = 0;
    await on.api.published("s", JSON.stringify("x".repeat(10 * KIB)));
    const large = on.trouble.committed.filter(({ effects }) => effects.some((one) => effectBytes(one) > 10 * KIB));
    expect(large.map(({ entity }) => entity.kind).sort()).toEqual(["fanout", "stream"]);
  });

  it("the size from which a payload is shared is a setting", async () => {
    const on = await stage(engine, { internal: { fanout: { shareBytes: 100 } } });
    await on.api.create("s");
    await subscribers(on.api, "s", SESSIONS);
    expect(await bytesPerCopy(on, 100)).toBeGreaterThan(100);
    const [one, other] = [await bytesPerCopy(on, 101), await bytesPerCopy(on, 900)];
    expect(Math.abs(one - other)).toBeLessThan(16);
  });

  it("a fan-out takes one commit per session and a few more, however many streams its sessions follow", async () => {
    const on = await stage(engine);
    await on.api.create("s");
    await subscribers(on.api, "s", SESSIONS);
    await on.api.published("s", "0");
    on.trouble.committed.length = 0;
    await on.api.published("s", "[1,2,3,4,5]");
    const kinds = on.trouble.committed.map(({ entity }) => entity.kind);
    expect(kinds.filter((kind) => kind === "session")).toHaveLength(SESSIONS);
    expect(kinds.length - SESSIONS).toBeLessThanOrEqual(3);
  });
});

describe("Copies are cheap, in the journal of the disk", () => {
  it("a fan-out is a few flushes, not one per session, and a large payload adds to it twice and not a hundred times", async () => {
    const on = await stage("disk");
    await on.api.create("s");
    await subscribers(on.api, "s", SESSIONS);
    const costOf = async (size: number) => {
      const before = journalOf(on);
      await on.api.published("s", JSON.stringify("x".repeat(size - 2)));
      const after = journalOf(on);
      return { flushes: after.flushes - before.flushes, bytes: after.bytes - before.bytes };
    };
    await costOf(2 * KIB);
    const [one, other] = [await costOf(2 * KIB), await costOf(66 * KIB)];
    for (const { flushes } of [one, other]) {
      expect(flushes).toBeGreaterThan(0);
      expect(flushes).toBeLessThanOrEqual(15);
    }
    // Once in the stream and once for all copies; frames are padded to blocks.
    expect(other.bytes - one.bytes).toBeLessThan(3 * 64 * KIB);
    expect(one.bytes / SESSIONS).toBeLessThan(2 * KIB);
  });
});

describeAloneAndShared("A copy outlives its source", (engine) => {
  const LARGE = "x".repeat(3 * KIB);

  it("trimming the source removes no copy, small or large", async () => {
    const { api, until } = await stage(engine);
    await api.create("s", "application/json", { "Stream-Max-Messages": "5" });
    const sessions = await subscribers(api, "s", 3);
    const sent: unknown[] = [];
    for (let i = 0; i < 40; i++) {
      sent.push(i % 2 ? i : `${i} ${LARGE}`);
      await api.published("s", JSON.stringify(sent.at(-1)));
    }
    // The hold of fan-out moves every few seconds; the append after that cuts.
    await until(async () => {
      sent.push("again");
      await api.published("s", JSON.stringify("again"));
      expect((await api.call("GET", "/stream/s?offset=-1")).body.length).toBeLessThan(10);
    }, 2_000);
    for (const session of sessions) expect(await api.messages(session)).toEqual(sent);
  });

  it("deleting the source, or recreating it, removes no copy", async () => {
    const { api, until, registry } = await stage(engine);
    await api.create("s");
    const sessions = await subscribers(api, "s", 3);
    const sent = [1, LARGE, 2];
    for (const message of sent) await api.published("s", JSON.stringify(message));
    await api.call("DELETE", "/stream/s");
    await until(async () => expect((await api.session(sessions[0]!)).body.subscriptions).toEqual([]));
    for (const session of sessions) expect(await api.messages(session)).toEqual(sent);
    await api.create("s");
    const [other] = await subscribers(api, "s", 1);
    await api.published("s", JSON.stringify(`new ${LARGE}`));
    for (const session of sessions) expect(await api.messages(session)).toEqual(sent);
    expect(await api.messages(other!)).toEqual([`new ${LARGE}`]);
    expect((await registry("s"))!.subscribers).toContain(other);
  });

  it("unsubscribing removes no copy, neither the session's own nor those of other sessions", async () => {
    const { api, pass, until, registry } = await stage(engine);
    await api.create("s");
    const [left, deleted, kept] = (await subscribers(api, "s", 3)) as [string, string, string];
    await api.published("s", JSON.stringify(LARGE));
    await api.unsubscribe(left, "s");
    await api.delete(deleted);
    await api.unsubscribe(kept, "s");
    // Time for whatever is tidied up.
    pass(600_000);
    await until(async () => expect(await api.messages(left)).toEqual([LARGE]));
    expect(await api.messages(kept)).toEqual([LARGE]);
    await api.delete(left);
    await api.delete(kept);
    expect(await registry("s")).toBeUndefined();
  });

  it("a shared payload is removed when no session borrows it any more", async () => {
    const on = await stage(engine);
    await on.api.create("s");
    const [first, second] = await subscribers(on.api, "s", 2);
    for (let i = 0; i < 3; i++) await on.api.published("s", JSON.stringify(LARGE));
    expect((await on.registry("s"))!.lent).toBe(3);
    await on.api.delete(first!);
    const later = await subscribers(on.api, "s", 2);
    await on.api.published("s", JSON.stringify(LARGE));
    await on.api.delete(second!);
    await on.until(async () => expect((await on.registry("s"))!.lent).toBe(1), 10_000);
    for (const session of later) expect(await on.api.messages(session)).toEqual([LARGE]);
  });

  it("the source keeps what a lagging session has not got yet, beyond its retention", async () => {
    const on = await stage(engine);
    await on.api.create("s", "application/json", { "Stream-Max-Messages": "5" });
    const sessions = await subscribers(on.api, "s", 2);
    on.core.fate = ({ method, id }) => (method === "deliver" && id === sessions[0] ? "refused" : undefined);
    const sent = Array.from({ length: 40 }, (_, i) => i);
    for (const i of sent) await on.api.published("s", String(i));
    on.core.fate = () => undefined;
    await on.until(async () => {
      for (const session of sessions) expect(await on.api.messages(session)).toEqual(sent);
    }, 1_000);
    expect((await on.api.session(sessions[0]!)).body.subscriptions[0].missed).toBeUndefined();
    await on.api.published("s", "40");
    await on.until(async () => {
      await on.api.append("s", "41");
      expect((await on.api.call("GET", "/stream/s?offset=-1")).body.length).toBeLessThan(10);
    }, 2_000);
  });

  it("beyond a limit in bytes the source is trimmed, the lagging session is told its gap, and the rest follows", async () => {
    const on = await stage(engine, { stream: { holdBytes: 10 } });
    await on.api.create("s", "application/json", { "Stream-Max-Messages": "5" });
    const sessions = await subscribers(on.api, "s", 2);
    const lag = async (messages: readonly number[]) => {
      on.core.fate = ({ method, id }) => (method === "deliver" && id === sessions[0] ? "refused" : undefined);
      for (const i of messages) await on.api.published("s", String(i));
      on.core.fate = () => undefined;
      await on.until(async () => expect((await on.registry("s"))!.lagging).toEqual([]), 1_000);
      const [{ missed }] = (await on.api.session(sessions[0]!)).body.subscriptions;
      return { missed, got: (await on.api.messages(sessions[0]!)) as number[] };
    };
    const sent = Array.from({ length: 40 }, (_, i) => i);
    const { missed, got } = await lag(sent.slice(0, 20));
    expect(got.length).toBeGreaterThan(0);
    expect(got).toEqual(sent.slice(20 - got.length, 20));
    expect(missed.through > missed.after).toBe(true);
    // A second gap does not make the first be forgotten.
    const then = await lag(sent.slice(20));
    const since = then.got.slice(got.length);
    expect(then.got.slice(0, got.length)).toEqual(got);
    expect(since.length).toBeLessThan(20);
    expect(since).toEqual(sent.slice(40 - since.length));
    expect(then.missed.after).toBe(missed.after);
    expect(then.missed.through > missed.through).toBe(true);
    expect((await on.api.session(sessions[1]!)).body.subscriptions[0].missed).toBeUndefined();
  });

  it("the number of messages that an inbox keeps is a setting, and a reader before them is told", async () => {
    const { api } = await stage(engine, { session: { keptMessages: 10 } });
    await api.create("s");
    const [session] = await subscribers(api, "s", 1);
    await api.published("s", "0");
    const offset = (await api.inbox(session!)).headers.get("stream-next-offset")!;
    for (let i = 1; i < 40; i++) await api.published("s", String(i));
    const { status, headers } = await api.inbox(session!, `?offset=${offset}`);
    expect([status, headers.has("stream-earliest-offset")]).toEqual([410, true]);
    const kept = (await api.messages(session!)) as number[];
    expect(kept.length).toBeLessThanOrEqual(12);
    expect(kept.at(-1)).toBe(39);
  });
});
