/** What subscribing, unsubscribing and the life of a session make of the session and of the stream's registry, step by step. */
import { expect, it } from "vitest";
import { registryEntity, subscriberTable } from "../../packages/server/src/sessions/state.ts";
import { describeAloneAndShared } from "../e2e/server.ts";
import { Api } from "./api.ts";
import { stage, typesOf, uuid } from "./stage.ts";

const TTL_MS = 1_800_000;

describeAloneAndShared("Registries", (engine) => {
  it("a stream's registry names the sessions that follow it, of its own project only", async () => {
    const { api, url, registry } = await stage(engine);
    const other = new Api(url, "other");
    const [alice, bob, eve] = [uuid(), uuid(), uuid()];
    for (const project of [api, other]) await project.create("room/1");
    await api.create("room/2");
    await api.subscribed(alice, "room/1");
    await api.subscribed(bob, "room/1");
    await api.subscribed(bob, "room/2");
    await other.subscribed(eve, "room/1");
    expect((await registry("room/1"))!.subscribers).toEqual([alice, bob].sort());
    expect((await registry("room/2"))!.subscribers).toEqual([bob]);
    expect(await api.published("room/1", "1")).toMatchObject({ count: 2, successes: 2 });
    expect(await other.published("room/1", "2")).toMatchObject({ count: 1, successes: 1 });
    expect(await api.messages(alice)).toEqual([1]);
    expect(await other.messages(eve)).toEqual([2]);
    expect((await api.session(eve)).status).toBe(404);
  });

  it("a registry stores each session and when it subscribed", async () => {
    const { api, engine: store, now } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    await api.subscribed(alice, "s");
    const rows = await store.rows(registryEntity("default", "s"), subscriberTable.name, "", 10);
    expect(rows.map(({ key, value }) => [key, subscriberTable.decode(value).since])).toEqual([[alice, now()]]);
  });

  it("a registry counts fan-outs, and the count only grows", async () => {
    const { api, registry } = await stage(engine);
    await api.create("s");
    await api.subscribed(uuid(), "s");
    const seen = [(await registry("s"))!.seq];
    for (let i = 0; i < 3; i++) {
      await api.published("s", "1");
      seen.push((await registry("s"))!.seq);
    }
    expect(seen).toEqual([0, 1, 2, 3]);
  });

  it("a session names the streams that it follows, and since when", async () => {
    const { api, pass, now } = await stage(engine);
    const alice = uuid();
    const startedAt = now();
    for (const stream of ["a", "b", "c"]) {
      await api.create(stream);
      await api.subscribed(alice, stream);
      pass(1_000);
    }
    await api.unsubscribe(alice, "b");
    const { body } = await api.session(alice);
    expect(body.subscriptions).toEqual([
      { streamId: "a", subscribedAt: startedAt, format: "raw" },
      { streamId: "c", subscribedAt: startedAt + 2_000, format: "raw" },
    ]);
  });
});

describeAloneAndShared("Subscribe flow", (engine) => {
  it("subscribing to a stream that does not exist fails and leaves nothing", async () => {
    const { api, core, registry, tracked } = await stage(engine);
    const alice = uuid();
    expect(await api.subscribe(alice, "none")).toMatchObject({ status: 404, body: { code: "stream-not-found" } });
    expect(core.calls.map(({ method, id }) => [method, id])).toEqual([["follow", "none"]]);
    expect((await api.session(alice)).status).toBe(404);
    expect(await registry("none")).toBeUndefined();
    expect(await tracked()).toEqual([]);
  });

  it("the first subscription creates the session stream, of the source's content type, with an expiry", async () => {
    const { api, now } = await stage(engine);
    const alice = uuid();
    await api.create("s", "text/plain; charset=utf-8");
    const { body } = await api.subscribed(alice, "s");
    expect(body).toMatchObject({ isNewSession: true, expiresAt: now() + TTL_MS });
    const head = await api.call("HEAD", `/stream/session:${alice}`);
    expect(head.status).toBe(200);
    expect(head.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  });

  it("a further subscription, or the same one again, is a use of the session", async () => {
    const { api, pass, now } = await stage(engine);
    const alice = uuid();
    await api.create("a");
    await api.create("b");
    await api.subscribed(alice, "a");
    pass(60_000);
    const second = await api.subscribed(alice, "b");
    expect(second.body).toMatchObject({ isNewSession: false, expiresAt: now() + TTL_MS });
    pass(60_000);
    // The same once more is no other subscription, and a use all the same.
    const again = await api.subscribed(alice, "b");
    expect(again.body).toMatchObject({ isNewSession: false, expiresAt: now() + TTL_MS });
    expect((await api.session(alice)).body.subscriptions).toHaveLength(2);
  });

  it("a stream of another content type than the session's is refused with 409, and nothing changes", async () => {
    const { api, registry } = await stage(engine);
    const alice = uuid();
    await api.create("json");
    await api.create("text", "text/plain");
    await api.subscribed(alice, "json");
    const before = (await api.session(alice)).body;
    const refused = await api.subscribe(alice, "text");
    expect(refused).toMatchObject({ status: 409, body: { code: "content-type-mismatch" } });
    expect(refused.body.detail).toContain("application/json");
    expect((await api.session(alice)).body).toEqual(before);
    expect(await registry("text")).toBeUndefined();
    expect(await api.published("text", "hello", "text/plain")).toMatchObject({ count: 0 });
  });

  it("subscribing adds the session to the stream's registry", async () => {
    const { api, registry } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    await api.subscribed(alice, "s");
    await api.subscribed(alice, "s");
    expect(await registry("s")).toMatchObject({ count: 1, subscribers: [alice], lagging: [] });
  });

  it("subscribing adds the stream to the session", async () => {
    const { api } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    await api.subscribed(alice, "s");
    expect((await api.session(alice)).body.subscriptions).toMatchObject([{ streamId: "s" }]);
  });

  it("subscribing records a subscribe event, and a session_create event for a new session", async () => {
    const { api, points } = await stage(engine);
    const alice = uuid();
    await api.create("a");
    await api.create("b");
    await api.subscribed(alice, "a");
    expect(typesOf(points.splice(0))).toEqual(["session_create", "subscribe", "http"]);
    await api.subscribed(alice, "b");
    expect(typesOf(points.splice(0))).toEqual(["subscribe", "http"]);
  });

  it("when the registry cannot be written, a session that was created for it is rolled back", async () => {
    const { api, trouble, registry, tracked, points } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    trouble.fate = ({ entity }) => (entity.kind === "fanout" ? "refused" : undefined);
    expect(await api.subscribe(alice, "s")).toMatchObject({ status: 503, body: { code: "unavailable" } });
    trouble.fate = undefined;
    expect((await api.session(alice)).status).toBe(404);
    expect((await api.inbox(alice)).status).toBe(404);
    expect(await registry("s")).toBeUndefined();
    expect(await tracked()).toEqual([]);
    expect(new Set(typesOf(points.splice(0)))).toEqual(new Set(["http"]));
    expect((await api.subscribed(alice, "s")).body.isNewSession).toBe(true);
  });

  it("when the registry cannot be written, a session that existed before stays as it was", async () => {
    const { api, trouble, registry } = await stage(engine);
    const alice = uuid();
    await api.create("a");
    await api.create("b");
    await api.subscribed(alice, "a");
    const before = (await api.session(alice)).body;
    trouble.fate = ({ entity }) => (entity.kind === "fanout" ? "refused" : undefined);
    expect((await api.subscribe(alice, "b")).status).toBe(503);
    trouble.fate = undefined;
    expect((await api.session(alice)).body).toEqual(before);
    expect(await registry("b")).toBeUndefined();
    await api.published("a", "1");
    expect(await api.messages(alice)).toEqual([1]);
  });

  it("the answer to a subscription has sessionId, streamId, sessionStreamPath, expiresAt and isNewSession", async () => {
    const { api, now } = await stage(engine);
    const alice = uuid();
    await api.create("chat-room-1");
    expect((await api.subscribed(alice, "chat-room-1")).body).toEqual({
      sessionId: alice,
      streamId: "chat-room-1",
      sessionStreamPath: `/v1/default/stream/session:${alice}`,
      expiresAt: now() + TTL_MS,
      isNewSession: true,
    });
  });
});

describeAloneAndShared("Unsubscribe flow", (engine) => {
  it("unsubscribing removes the session from the stream's registry", async () => {
    const { api, registry } = await stage(engine);
    const [alice, bob] = [uuid(), uuid()];
    await api.create("s");
    await api.subscribed(alice, "s");
    await api.subscribed(bob, "s");
    expect((await api.unsubscribe(alice, "s")).status).toBe(204);
    expect(await registry("s")).toMatchObject({ count: 1, subscribers: [bob] });
    await api.published("s", "1");
    expect(await api.messages(alice)).toEqual([]);
    expect(await api.messages(bob)).toEqual([1]);
    await api.unsubscribe(bob, "s");
    expect(await registry("s")).toBeUndefined();
  });

  it("unsubscribing removes the stream from the session, and copies stay", async () => {
    const { api } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    await api.subscribed(alice, "s");
    await api.published("s", "1");
    expect((await api.unsubscribe(alice, "s")).status).toBe(204);
    await api.published("s", "2");
    expect((await api.session(alice)).body.subscriptions).toEqual([]);
    expect(await api.messages(alice)).toEqual([1]);
  });

  it("unsubscribing records an unsubscribe event when the session followed the stream", async () => {
    const { api, points } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    await api.subscribed(alice, "s");
    points.length = 0;
    await api.unsubscribe(alice, "s");
    expect(typesOf(points.splice(0))).toEqual(["unsubscribe", "http"]);
    expect((await api.unsubscribe(alice, "s")).status).toBe(204);
    expect(typesOf(points.splice(0))).toEqual(["http"]);
  });
});

describeAloneAndShared("Session lifecycle", (engine) => {
  it("a session can be read with its active subscriptions", async () => {
    const { api, now } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    await api.subscribed(alice, "s");
    expect(await api.session(alice)).toMatchObject({
      status: 200,
      body: {
        sessionId: alice,
        sessionStreamPath: `/v1/default/stream/session:${alice}`,
        expiresAt: now() + TTL_MS,
        subscriptions: [{ streamId: "s", subscribedAt: now() }],
      },
    });
  });

  it("touching a session moves its expiry", async () => {
    const { api, pass, now, sweep } = await stage(engine);
    const [alice, bob] = [uuid(), uuid()];
    await api.create("s");
    for (const session of [alice, bob]) await api.subscribed(session, "s");
    pass(TTL_MS - 1);
    expect(await api.touch(alice)).toMatchObject({
      status: 200,
      body: { sessionId: alice, expiresAt: now() + TTL_MS },
    });
    pass(TTL_MS - 1);
    await sweep();
    expect((await api.session(alice)).status).toBe(200);
    expect((await api.session(bob)).status).toBe(404);
    // Never early, and at most a tenth late.
    pass(TTL_MS / 10 + 1);
    expect((await api.session(alice)).status).toBe(404);
    expect((await api.touch(alice)).status).toBe(404);
  });

  it("deleting a session removes its stream and every subscription", async () => {
    const { api, registry, tracked } = await stage(engine);
    const [alice, bob] = [uuid(), uuid()];
    for (const stream of ["a", "b"]) {
      await api.create(stream);
      for (const session of [alice, bob]) await api.subscribed(session, stream);
    }
    await api.published("a", "1");
    expect((await api.delete(alice)).status).toBe(204);
    expect((await api.session(alice)).status).toBe(404);
    expect((await api.inbox(alice)).status).toBe(404);
    for (const stream of ["a", "b"]) expect((await registry(stream))!.subscribers).toEqual([bob]);
    expect((await api.delete(alice)).status).toBe(404);
    expect((await tracked()).filter(({ kind }) => kind === "session").map(({ id }) => id)).toEqual([`session:${bob}`]);
  });
});
