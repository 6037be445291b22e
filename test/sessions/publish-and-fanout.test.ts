/** The way of a message from its publisher into session streams: the flow, the modes, what is retried and what is removed. */
import { expect, it } from "vitest";
import { describeAloneAndShared } from "../e2e/server.ts";
import { inline } from "./api.ts";
import { stage, subscribers, uuid } from "./stage.ts";

/** The time of a session, and the tenth that it may be late. */
const EXPIRED_MS = 1_800_000 * 1.1;
const SMALL_QUEUE = { fanout: { queueThreshold: 3 } };
const deferred = (count: number, mode: string) => ({ count, successes: 0, failures: 0, mode });

describeAloneAndShared("Publish and fan-out flow", (engine) => {
  it("a publish appends to the source stream, with and without subscribers", async () => {
    const { api } = await stage(engine);
    await api.create("s");
    expect(await api.published("s", "1")).toEqual(inline(0));
    await api.subscribed(uuid(), "s");
    expect(await api.published("s", "[2,3]")).toEqual(inline(1));
    expect((await api.call("GET", "/stream/s?offset=-1")).body).toEqual([1, 2, 3]);
    expect((await api.publish("none", "1")).status).toBe(404);
  });

  it("the source and every copy have the publisher's bytes, small and large", async () => {
    const { api } = await stage(engine);
    await api.create("bin", "application/octet-stream");
    const sessions = await subscribers(api, "bin", 3);
    const pieces = [10, 1_024, 1_025, 70_000].map((size) =>
      Uint8Array.from({ length: size }, (_, i) => (i * 7 + size) % 256),
    );
    for (const piece of pieces) await api.published("bin", piece, "application/octet-stream");
    const whole = Buffer.concat(pieces);
    for (const path of ["bin", ...sessions.map((id) => `session:${id}`)]) {
      const response = await fetch(`${api.base}/stream/${path}?offset=-1`);
      expect(response.headers.get("content-type")).toBe("application/octet-stream");
      expect(Buffer.from(await response.arrayBuffer()).equals(whole), path).toBe(true);
    }
  });

  it("every copy has the number of its fan-out, which only grows and survives a restart", async () => {
    const { api, core, restart } = await stage(engine);
    await api.create("room/1");
    await subscribers(api, "room/1", 2);
    await api.published("room/1", "1");
    await api.published("room/1", "2");
    await restart();
    await api.published("room/1", "3");
    // A slow session is sent the same copy again.
    const copies = new Set(core.posts().map(({ id, copy }) => `${copy!.fanoutSeq} ${id}`));
    expect([...copies].map((one) => Number(one.split(" ")[0]))).toEqual([1, 1, 2, 2, 3, 3]);
  });

  it("a publish reaches the sessions that follow the stream at that moment", async () => {
    const { api, core } = await stage(engine);
    await api.create("s");
    const [alice, bob] = (await subscribers(api, "s", 2)) as [string, string];
    await api.published("s", "1");
    await api.unsubscribe(bob, "s");
    await api.published("s", "2");
    const carol = uuid();
    await api.subscribed(carol, "s");
    await api.published("s", "3");
    const sent = new Set(core.posts().map(({ id, copy }) => `${copy!.fanoutSeq} ${id}`));
    expect([...sent].sort()).toEqual([`1 ${alice}`, `1 ${bob}`, `2 ${alice}`, `3 ${alice}`, `3 ${carol}`].sort());
  });

  it("each session gets one copy of each message, in order", async () => {
    const { api } = await stage(engine);
    await api.create("s");
    const sessions = await subscribers(api, "s", 5);
    for (let i = 0; i < 5; i++) expect(await api.published("s", String(i))).toEqual(inline(5));
    for (const session of sessions) expect(await api.messages(session)).toEqual([0, 1, 2, 3, 4]);
  });

  it("a fan-out that fails never fails its publish", async () => {
    const { api, core, until } = await stage(engine);
    await api.create("s");
    const sessions = await subscribers(api, "s", 3);
    core.fate = ({ method }) => (method === "deliver" ? "refused" : undefined);
    expect(await api.published("s", "1")).toEqual(inline(3, 0, 3));
    expect((await api.call("GET", "/stream/s?offset=-1")).body).toEqual([1]);
    core.fate = () => undefined;
    await until(async () => {
      for (const session of sessions) expect(await api.messages(session)).toEqual([1]);
    });
  });
});

describeAloneAndShared("Inline vs queued", (engine) => {
  it("up to the threshold of the queue, copies are made within the publish request", async () => {
    const { api, core } = await stage(engine, SMALL_QUEUE);
    await api.create("s");
    const sessions = await subscribers(api, "s", 3);
    expect(await api.published("s", "1")).toEqual(inline(3));
    expect(core.pending).toBe(0);
    for (const session of sessions) expect(await api.messages(session)).toEqual([1]);
  });

  it("above the threshold, copies are queued and made after the publish is answered", async () => {
    const { api, core, until } = await stage(engine, SMALL_QUEUE);
    await api.create("s");
    const sessions = await subscribers(api, "s", 4);
    core.fate = ({ method }) => (method === "deliver" ? "stuck" : undefined);
    expect(await api.published("s", "1")).toEqual(deferred(4, "queued"));
    for (const session of sessions) expect(await api.messages(session)).toEqual([]);
    core.fate = () => undefined;
    core.release();
    await until(async () => {
      for (const session of sessions) expect(await api.messages(session)).toEqual([1]);
    });
  });

  it("above the inline limit without a queue, the publish does not wait and the copies follow", async () => {
    const { api, core, until } = await stage(engine, { fanout: { queue: false, queueThreshold: 1, maxInline: 3 } });
    await api.create("s");
    const sessions = await subscribers(api, "s", 3);
    expect(await api.published("s", "1")).toEqual(inline(3));
    sessions.push(...(await subscribers(api, "s", 1)));
    core.fate = ({ method }) => (method === "deliver" ? "stuck" : undefined);
    expect(await api.published("s", "2")).toEqual(deferred(4, "skipped"));
    expect((await api.call("GET", "/stream/s?offset=-1")).body).toEqual([1, 2]);
    core.fate = () => undefined;
    core.release();
    await until(async () => {
      for (const [i, session] of sessions.entries()) {
        expect(await api.messages(session)).toEqual(i < 3 ? [1, 2] : [2]);
      }
    });
  });

  it("with an open circuit, the publish does not wait and the copies follow", async () => {
    const { api, core, until } = await stage(engine, { fanout: { breakerFailures: 2 } });
    await api.create("s");
    const sessions = await subscribers(api, "s", 2);
    core.fate = ({ method }) => (method === "deliver" ? "refused" : undefined);
    for (let i = 1; i <= 2; i++) expect(await api.published("s", String(i))).toEqual(inline(2, 0, 2));
    expect(await api.published("s", "3")).toEqual(deferred(2, "circuit-open"));
    expect((await api.call("GET", "/stream/s?offset=-1")).body).toEqual([1, 2, 3]);
    core.fate = () => undefined;
    await until(async () => {
      for (const session of sessions) expect(await api.messages(session)).toEqual([1, 2, 3]);
    });
  });
});

describeAloneAndShared("Producer deduplication in fan-out", (engine) => {
  it("a queued copy has the number of its fan-out and the name of its stream", async () => {
    const { api, core, until } = await stage(engine, SMALL_QUEUE);
    await api.create("a:b.c");
    const sessions = await subscribers(api, "a:b.c", 4);
    await api.published("a:b.c", "1");
    await until(async () => expect(await api.messages(sessions[3]!)).toEqual([1]));
    const { copy } = core.posts()[0]!;
    expect([copy!.stream, copy!.fanoutSeq]).toEqual(["a:b.c", 1]);
  });

  it("a copy that is retried because its reply was lost is stored once", async () => {
    const { api, core, until, registry } = await stage(engine);
    await api.create("s");
    const sessions = await subscribers(api, "s", 3);
    core.fate = ({ method, id }) => (method === "deliver" && id !== sessions[0] ? "lost" : undefined);
    expect(await api.published("s", "1")).toEqual(inline(3, 1, 2));
    expect((await registry("s"))!.lagging).toEqual(sessions.slice(1));
    core.fate = () => undefined;
    await until(async () => expect((await registry("s"))!.lagging).toEqual([]));
    expect(await api.published("s", "2")).toEqual(inline(3));
    for (const session of sessions) expect(await api.messages(session)).toEqual([1, 2]);
  });
});

describeAloneAndShared("Stale subscriber auto-clean-up", (engine) => {
  it("sessions that a fan-out does not find are removed from the registry in one commit", async () => {
    const { api, registry, trouble, pass } = await stage(engine);
    await api.create("s");
    const gone = await subscribers(api, "s", 3);
    pass(EXPIRED_MS);
    // Expired, and no clean-up has come by.
    const [alive] = await subscribers(api, "s", 1);
    expect((await registry("s"))!.subscribers).toEqual([...gone, alive].sort());
    trouble.committed.length = 0;
    expect(await api.published("s", "1")).toEqual(inline(4, 1, 0));
    expect(await registry("s")).toMatchObject({ count: 1, subscribers: [alive] });
    const removing = trouble.committed.filter(({ effects }) =>
      effects.some((effect) => effect.op === "drop" && effect.table === "subscriber"),
    );
    expect(removing).toHaveLength(1);
    expect(await api.published("s", "2")).toEqual(inline(1));
  });

  it("sessions that a queue consumer does not find are removed too", async () => {
    const { api, registry, pass, until } = await stage(engine, SMALL_QUEUE);
    await api.create("s");
    await subscribers(api, "s", 3);
    pass(EXPIRED_MS);
    const [alive] = await subscribers(api, "s", 1);
    expect(await api.published("s", "1")).toEqual(deferred(4, "queued"));
    await until(async () => expect(await registry("s")).toMatchObject({ count: 1, subscribers: [alive] }));
    expect(await api.messages(alive!)).toEqual([1]);
  });

  it("a failed copy is counted and its session kept, although a stale session is removed beside it", async () => {
    const { api, core, registry, until } = await stage(engine);
    await api.create("s");
    const [stale, failing, well] = (await subscribers(api, "s", 3)) as [string, string, string];
    core.fate = ({ method, id }) => {
      if (method !== "deliver" || id === well) return undefined;
      return id === stale ? "stale" : "refused";
    };
    expect(await api.published("s", "1")).toEqual(inline(3, 1, 1));
    expect(await registry("s")).toMatchObject({ subscribers: [failing, well].sort(), lagging: [failing] });
    core.fate = () => undefined;
    await until(async () => expect(await api.messages(failing)).toEqual([1]));
  });
});

describeAloneAndShared("Queue consumer", (engine) => {
  it("a queued payload arrives byte by byte", async () => {
    const { api, until } = await stage(engine, SMALL_QUEUE);
    await api.create("bin", "application/octet-stream");
    const sessions = await subscribers(api, "bin", 4);
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    await api.published("bin", bytes, "application/octet-stream");
    await until(async () => {
      for (const session of sessions) {
        const response = await fetch(`${api.base}/stream/session:${session}?offset=-1`);
        expect(new Uint8Array(await response.arrayBuffer())).toEqual(bytes);
      }
    });
  });

  it("a queued copy that is stuck ends at its timeout, as an inline copy does", async () => {
    const { api, core, pass, registry, until } = await stage(engine, {
      fanout: { queueThreshold: 3 },
      internal: { fanout: { graceMs: 60_000 } },
    });
    await api.create("s");
    const sessions = await subscribers(api, "s", 4);
    core.fate = ({ method, id }) => (method === "deliver" && id === sessions[0] ? "stuck" : undefined);
    await api.published("s", "1");
    await until(() => expect(core.calls.length - core.pending).toBeGreaterThanOrEqual(11), 0);
    expect((await registry("s"))!.lagging).toEqual([]);
    pass(10_000);
    await until(async () => expect((await registry("s"))!.lagging).toEqual([sessions[0]]), 0);
  });

  it("a queue message is done when each of its copies succeeded or found no session", async () => {
    const { api, core, registry, until, pass } = await stage(engine, SMALL_QUEUE);
    await api.create("s");
    const sessions = await subscribers(api, "s", 4);
    core.fate = ({ method, id }) => (method === "deliver" && id === sessions[0] ? "stale" : undefined);
    await api.published("s", "1");
    await until(async () => expect((await registry("s"))!.subscribers).toEqual(sessions.slice(1)), 0);
    expect(
      core
        .posts()
        .map(({ id }) => id)
        .sort(),
    ).toEqual(sessions);
    for (let i = 0; i < 20; i++) {
      pass(10_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(core.posts()).toEqual([]);
  });

  it("failed copies of a queue message, and no others, are retried until they succeed", async () => {
    const { api, core, until, registry } = await stage(engine, SMALL_QUEUE);
    await api.create("s");
    const sessions = await subscribers(api, "s", 4);
    let refusals = 3;
    core.fate = ({ method, id }) =>
      method === "deliver" && id === sessions[2] && refusals-- > 0 ? "refused" : undefined;
    await api.published("s", "1");
    await until(async () => expect(await api.messages(sessions[2]!)).toEqual([1]), 100);
    await until(async () => expect((await registry("s"))!.lagging).toEqual([]));
    const tried = core.posts().map(({ id }) => id);
    expect(tried.filter((id) => id === sessions[2])).toHaveLength(4);
    expect(tried.filter((id) => id !== sessions[2]).sort()).toEqual(sessions.filter((id) => id !== sessions[2]));
    for (const session of sessions) expect(await api.messages(session)).toEqual([1]);
  });
});
