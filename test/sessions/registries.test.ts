/** Both registries and what changes them: subscribing, unsubscribing, the life of a session. */
import { expect, it } from "vitest";
import { registryEntity, subscriberTable } from "../../packages/server/src/sessions/state.ts";
import { describeAloneAndShared } from "../e2e/server.ts";
import { Api } from "./api.ts";
import { stage, typesOf, uuid } from "./stage.ts";

const TTL_MS = 1_800_000;

describeAloneAndShared("Registries", (engine) => {
  it("SubscriptionDO, {projectId}/{streamId}: who subscribes to a stream, in its project", async () => {
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

  it("subscribers: the session and when it subscribed", async () => {
    const { api, engine: store, now } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    await api.subscribed(alice, "s");
    const rows = await store.rows(registryEntity("default", "s"), subscriberTable.name, "", 10);
    expect(rows.map(({ key, value }) => [key, subscriberTable.decode(value).since])).toEqual([[alice, now()]]);
  });

  it("fanout_state: one counter of fan-outs, that only grows", async () => {
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

  it("SessionDO, {projectId}/{sessionId}: which streams a session subscribes to, and since when", async () => {
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
  it("1. looks up the source's content type; fails when there is no such stream, and leaves nothing", async () => {
    const { api, core, registry, tracked } = await stage(engine);
    const alice = uuid();
    expect(await api.subscribe(alice, "none")).toMatchObject({ status: 404, body: { code: "stream-not-found" } });
    expect(core.calls.map(({ method, id }) => [method, id])).toEqual([["follow", "none"]]);
    expect((await api.session(alice)).status).toBe(404);
    expect(await registry("none")).toBeUndefined();
    expect(await tracked()).toEqual([]);
  });

  it("2. creates the session stream, of the source's content type, with an expiry", async () => {
    const { api, now } = await stage(engine);
    const alice = uuid();
    await api.create("s", "text/plain; charset=utf-8");
    const { body } = await api.subscribed(alice, "s");
    expect(body).toMatchObject({ isNewSession: true, expiresAt: now() + TTL_MS });
    const head = await api.call("HEAD", `/stream/session:${alice}`);
    expect(head.status).toBe(200);
    expect(head.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  });

  it("2. touches a session stream that exists", async () => {
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

  it("2. verifies that content types are compatible: 409 otherwise, and nothing has changed", async () => {
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

  it("3. adds the subscriber to the stream's registry", async () => {
    const { api, registry } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    await api.subscribed(alice, "s");
    await api.subscribed(alice, "s");
    expect(await registry("s")).toMatchObject({ count: 1, subscribers: [alice], lagging: [] });
  });

  it("4. tracks the subscription on the session", async () => {
    const { api } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    await api.subscribed(alice, "s");
    expect((await api.session(alice)).body.subscriptions).toMatchObject([{ streamId: "s" }]);
  });

  it("5. records a subscribe event, and a session create event for a new session", async () => {
    const { api, points } = await stage(engine);
    const alice = uuid();
    await api.create("a");
    await api.create("b");
    await api.subscribed(alice, "a");
    expect(typesOf(points.splice(0))).toEqual(["session_create", "subscribe", "http"]);
    await api.subscribed(alice, "b");
    expect(typesOf(points.splice(0))).toEqual(["subscribe", "http"]);
  });

  it("when step 3 fails, a session that was just created is rolled back", async () => {
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

  it("when step 3 fails, a session that was there before stays as it was", async () => {
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

  it("answers sessionId, streamId, sessionStreamPath, expiresAt, isNewSession", async () => {
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
  it("1. removes the subscriber from the stream's registry", async () => {
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

  it("2. removes the subscription from the session; what was copied stays", async () => {
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

  it("3. records an unsubscribe event, when there was something to end", async () => {
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
  it("Get session: what it is and its active subscriptions", async () => {
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

  it("Touch session: resets the expiry of its stream", async () => {
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

  it("Delete session: its stream and every subscription are gone", async () => {
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
