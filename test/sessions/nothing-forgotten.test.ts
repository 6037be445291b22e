/** Every session gets every message once and in order although single copies fail, and a failing session slows no other. */
import { expect, it } from "vitest";
import { describeAloneAndShared } from "../e2e/server.ts";
import { inline } from "./api.ts";
import type { Call, Fate } from "./core.ts";
import { type Stage, stage, subscribers, uuid } from "./stage.ts";

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

/** Copies to these sessions get this fate. */
const posts =
  (fate: Fate, ...sessions: string[]) =>
  ({ method, id }: Call): Fate | undefined =>
    method === "deliver" && (sessions.length === 0 || sessions.includes(id)) ? fate : undefined;

/** All sessions have exactly these, in this order, at last; and no session lags any more. */
async function allHave(on: Stage, sessions: readonly string[], messages: unknown[], stepMs = 500): Promise<void> {
  await on.until(async () => {
    for (const session of sessions) expect(await on.api.messages(session)).toEqual(messages);
    expect((await on.registry("s"))!.lagging).toEqual([]);
  }, stepMs);
}

async function followed(on: Stage, count: number): Promise<string[]> {
  await on.api.create("s");
  return subscribers(on.api, "s", count);
}

describeAloneAndShared("Nothing forgotten, nothing twice", (engine) => {
  it("a failed copy is not lost when the next one succeeds, and the order holds", async () => {
    const on = await stage(engine);
    const sessions = await followed(on, 3);
    on.core.fate = posts("refused", sessions[0]!);
    await on.api.published("s", "0");
    on.core.fate = () => undefined;
    await on.api.published("s", "1");
    await on.api.published("s", "2");
    await allHave(on, sessions, [0, 1, 2]);
  });

  it.each<Fate>(["refused", "lost", "stuck"])("every third copy is %s, for many publishes", async (fate) => {
    const on = await stage(engine, { internal: { fanout: { retryMs: 50 } } });
    const sessions = await followed(on, 4);
    let calls = 0;
    on.core.fate = (call) => (call.method === "deliver" && calls++ % 3 === 1 ? fate : undefined);
    const publishing = Promise.all(upTo(10).map((i) => on.api.publish("s", String(i))));
    const isDone = publishing.then(() => true);
    await on.until(async () => expect(await Promise.race([isDone, false])).toBe(true), 500);
    const { body: source } = await on.api.call("GET", "/stream/s?offset=-1");
    expect([...source].sort()).toEqual(upTo(10));
    on.core.fate = () => undefined;
    on.core.release();
    await allHave(on, sessions, source);
  });

  it("a copy that is stored after its timeout is stored once", async () => {
    const on = await stage(engine, { fanout: { timeoutMs: 1_000 } });
    const sessions = await followed(on, 2);
    on.core.fate = posts("stuck", sessions[0]!);
    const publishing = on.api.published("s", "0");
    await on.until(() => expect(on.core.pending).toBe(1), 0);
    on.pass(1_000);
    expect(await publishing).toEqual(inline(2, 1, 1));
    on.core.fate = () => undefined;
    await allHave(on, sessions, [0]);
    on.core.release();
    await on.api.published("s", "1");
    await allHave(on, sessions, [0, 1]);
  });

  it("after a crash between the source write and the fan-out, the next start fans out", async () => {
    const on = await stage(engine);
    const sessions = await followed(on, 3);
    on.core.fate = posts("refused");
    await on.api.append("s", "[0,1]");
    await on.restart();
    on.core.fate = () => undefined;
    await allHave(on, sessions, [0, 1]);
  });

  it("a laggard and its position survive a crash", async () => {
    const on = await stage(engine);
    const sessions = await followed(on, 3);
    on.core.fate = posts("refused", sessions[1]!);
    for (const i of upTo(3)) await on.api.published("s", String(i));
    expect((await on.registry("s"))!.lagging).toEqual([sessions[1]]);
    await on.restart();
    on.core.fate = () => undefined;
    await allHave(on, sessions, [0, 1, 2]);
  });

  it("appends through the stream's own door are fanned out as well", async () => {
    const on = await stage(engine);
    const sessions = await followed(on, 2);
    for (const i of upTo(5)) await on.api.append("s", String(i));
    await allHave(on, sessions, upTo(5));
  });

  it("concurrent publishes appear in every session in source order", async () => {
    const on = await stage(engine, { fanout: { queueThreshold: 5 } });
    const sessions = await followed(on, 5);
    const publish = (i: number) => on.api.publish("s", String(i));
    await Promise.all(upTo(30).map(publish));
    sessions.push(...(await subscribers(on.api, "s", 1)));
    // Now through the queue.
    await Promise.all(upTo(30).map(publish));
    const { body: source } = await on.api.call("GET", "/stream/s?offset=-1");
    expect(source).toHaveLength(60);
    await allHave(on, sessions.slice(0, 5), source);
    expect(await on.api.messages(sessions[5]!)).toEqual(source.slice(30));
  });

  it("a laggard that keeps failing is retried with growing delays, and never given up", async () => {
    const on = await stage(engine, { internal: { fanout: { retryMs: 100, maxRetryMs: 1_000 } } });
    const sessions = await followed(on, 2);
    on.core.fate = posts("refused", sessions[0]!);
    await on.api.published("s", "0");
    on.core.posts();
    const waits: number[] = [];
    for (let at = on.now(); waits.length < 8; ) {
      await on.until(() => expect(on.core.calls.length).toBeGreaterThan(0), 10);
      waits.push(on.now() - at);
      at = on.now();
      on.core.posts();
    }
    // Half to all of the wait, which doubles up to a second; the steps of the clock come on top.
    expect(Math.max(...waits)).toBeLessThan(1_200);
    expect(waits.at(-1)).toBeGreaterThanOrEqual(500);
    on.core.fate = () => undefined;
    await allHave(on, sessions, [0]);
  });
});

describeAloneAndShared("A failing session slows no other", (engine) => {
  it("a session that is gone is no failure, and never opens the circuit for the others", async () => {
    const on = await stage(engine, { fanout: { breakerFailures: 1 } });
    const [alive] = await followed(on, 1);
    for (const i of upTo(10)) {
      const dead = uuid();
      await on.api.subscribed(dead, "s");
      on.core.fate = posts("stale", dead);
      expect(await on.api.published("s", String(i))).toEqual(inline(2, 1, 0));
    }
    expect(await on.api.messages(alive!)).toEqual(upTo(10));
  });

  it("when every session of a stream is gone, the circuit stays closed and the registry is removed", async () => {
    const on = await stage(engine, { fanout: { breakerFailures: 1 } });
    await followed(on, 3);
    on.core.fate = posts("stale");
    // The round may have removed all subscribers before the publish counts them.
    expect([inline(3, 0, 0), inline(0)]).toContainEqual(await on.api.published("s", "0"));
    await on.until(async () => expect(await on.registry("s")).toBeUndefined(), 0);
    on.core.fate = () => undefined;
    await subscribers(on.api, "s", 1);
    expect(await on.api.published("s", "1")).toEqual(inline(1));
  });

  it("an outage never deletes a subscriber", async () => {
    const on = await stage(engine);
    const sessions = await followed(on, 5);
    for (const fate of ["refused", "lost", "refused"] as const) {
      on.core.fate = posts(fate);
      await on.api.published("s", "1");
      on.pass(60_000);
      await on.sweep();
    }
    expect((await on.registry("s"))!.subscribers).toEqual(sessions);
    on.core.fate = () => undefined;
    await allHave(on, sessions, [1, 1, 1], 5_000);
    expect(await on.api.published("s", "2")).toEqual(inline(5));
  });

  it("an outage of the store never deletes a subscriber either", async () => {
    const on = await stage(engine);
    const sessions = await followed(on, 3);
    await on.api.append("s", "0");
    await allHave(on, sessions, [0]);
    on.trouble.fate = ({ entity }) => (entity.kind === "stream" ? undefined : "refused");
    expect((await on.api.publish("s", "1")).status).toBe(204);
    on.pass(10_000);
    await on.sweep();
    on.trouble.fate = undefined;
    await allHave(on, sessions, [0, 1], 5_000);
    on.reports.length = 0;
  });

  it("a session that is stuck does not delay the others, which have everything while it has nothing", async () => {
    const on = await stage(engine, { fanout: { timeoutMs: 1_000_000_000 } });
    const sessions = await followed(on, 3);
    const [stuck, ...others] = sessions as [string, string, string];
    on.core.fate = posts("stuck", stuck);
    const publishing = upTo(5).map((i) => on.api.append("s", String(i)));
    await Promise.all(publishing);
    const { body: source } = await on.api.call("GET", "/stream/s?offset=-1");
    await on.until(async () => {
      for (const session of others) expect(await on.api.messages(session)).toEqual(source);
      expect((await on.registry("s"))!.lagging).toEqual([stuck]);
    });
    expect(await on.api.messages(stuck)).toEqual([]);
    // A publish does not wait for a session that is known to lag.
    expect(await on.api.published("s", "5")).toEqual(inline(3, 2, 1));
    on.core.fate = () => undefined;
    on.core.release();
    await allHave(on, sessions, [...source, 5], 5_000);
  });

  it("a stream whose sessions are all stuck delays no other stream", async () => {
    const on = await stage(engine, { fanout: { queueThreshold: 3 }, internal: { fanout: { queueConsumers: 1 } } });
    const stuck = await followed(on, 4);
    await on.api.create("other");
    const well = await subscribers(on.api, "other", 4);
    on.core.fate = posts("stuck", ...stuck);
    await on.api.published("s", "0");
    await on.api.published("other", "1");
    await on.until(async () => {
      for (const session of well) expect(await on.api.messages(session)).toEqual([1]);
    });
    on.core.fate = () => undefined;
    on.core.release();
    await allHave(on, stuck, [0], 5_000);
  });
});
