/** Sessions and fan-out through the real server process, across kill -9, on every engine that keeps data. */
import { expect } from "vitest";
import { mint } from "../../packages/server/src/auth/mint.ts";
import { describeOnDisk } from "../e2e/server.ts";
import { SseClient } from "../e2e/sse-client.ts";
import { eventually } from "../support/eventually.ts";
import { Api, fanoutOf, inline } from "./api.ts";
import { METRIC_ROWS, told } from "./metric-rows.ts";
import { acrossKill, row } from "./process.ts";
import { subscribers, uuid } from "./stage.ts";

const SECRET = "the-secret-of-the-default-project-is-long-enough";

/** A row about a stream with so many subscribers. */
async function followed(url: string, stream: string, count: number) {
  const api = new Api(url);
  await api.create(stream);
  return { api, sessions: await subscribers(api, stream, count) };
}

/** Every session has exactly these, at last. */
async function have(api: Api, sessions: readonly string[], messages: unknown[]): Promise<void> {
  await eventually(async () => {
    for (const session of sessions) expect(await api.messages(session)).toEqual(messages);
  });
}

async function refusesIds(url: string): Promise<void> {
  const api = new Api(url);
  const refused = (code: string) => ({ status: 400, body: { code } });
  expect(await new Api(url, "a.b").subscribe(uuid(), "s")).toMatchObject(refused("bad-project"));
  expect(await api.subscribe("user-alice", "s")).toMatchObject(refused("bad-body"));
  expect((await api.session("user-alice")).status).toBe(400);
  expect(await api.subscribe(uuid(), "a b")).toMatchObject(refused("bad-body"));
  expect(await api.publish("a%20b", "1")).toMatchObject(refused("bad-path"));
}

const ROWS = [
  row(
    "a stream's registry survives a kill",
    async (url) => (await followed(url, "registry", 2)).sessions,
    async (url, sessions) => {
      const api = new Api(url);
      expect(await api.published("registry", "1")).toEqual(inline(2));
      await have(api, sessions, [1]);
    },
  ),
  row(
    "a session and its subscriptions survive a kill",
    async (url) => {
      const { api, sessions } = await followed(url, "kept", 1);
      return { id: sessions[0]!, body: (await api.session(sessions[0]!)).body };
    },
    async (url, { id, body }) => expect((await new Api(url).session(id)).body).toEqual(body),
  ),
  row(
    "source and copies survive a kill, in order and once, and fan-out goes on from there",
    async (url) => {
      const { api, sessions } = await followed(url, "flow", 3);
      for (let i = 0; i < 10; i++) expect(await api.published("flow", String(i))).toEqual(inline(3));
      return sessions;
    },
    async (url, sessions) => {
      const api = new Api(url);
      for (let i = 10; i < 13; i++) expect(await api.published("flow", String(i))).toEqual(inline(3));
      const all = Array.from({ length: 13 }, (_, i) => i);
      expect((await api.call("GET", "/stream/flow?offset=-1")).body).toEqual(all);
      await have(api, sessions, all);
    },
  ),
  row(
    "copies of payloads above 1 KiB survive a kill, byte by byte",
    async (url) => {
      const { api, sessions } = await followed(url, "large", 3);
      await api.published("large", JSON.stringify("x".repeat(5_000)));
      return sessions;
    },
    async (url, sessions) => {
      const api = new Api(url);
      await api.published("large", JSON.stringify("y".repeat(5_000)));
      await have(api, sessions, ["x".repeat(5_000), "y".repeat(5_000)]);
    },
  ),
  row(
    "what was copied before a kill is not copied again",
    async (url) => {
      const { api, sessions } = await followed(url, "once", 2);
      await api.published("once", "1");
      return sessions;
    },
    async (url, sessions) => {
      const api = new Api(url);
      // A round after the restart takes up the log where the last one left it.
      expect(await api.published("once", "2")).toEqual(inline(2));
      await have(api, sessions, [1, 2]);
    },
  ),
  row(
    "after a kill a session is known again, and a second subscription joins the first",
    async (url) => {
      const { api, sessions } = await followed(url, "again-1", 1);
      await api.create("again-2");
      await api.create("again-text", "text/plain");
      return sessions[0]!;
    },
    async (url, id) => {
      const api = new Api(url);
      expect((await api.subscribed(id, "again-2")).body).toMatchObject({ isNewSession: false });
      expect((await api.subscribe(id, "again-text")).status).toBe(409);
      expect((await api.subscribe(id, "never-made")).status).toBe(404);
      await api.published("again-1", "1");
      await api.published("again-2", "2");
      await have(api, [id], [1, 2]);
    },
  ),
  row(
    "a subscription that ended before a kill stays ended",
    async (url) => {
      const { api, sessions } = await followed(url, "left", 2);
      expect((await api.unsubscribe(sessions[0]!, "left")).status).toBe(204);
      return sessions;
    },
    async (url, [gone, kept]) => {
      const api = new Api(url);
      expect(await api.published("left", "1")).toEqual(inline(1));
      expect((await api.session(gone!)).body.subscriptions).toEqual([]);
      expect(await api.messages(gone!)).toEqual([]);
      expect(await api.messages(kept!)).toEqual([1]);
    },
  ),
  row(
    "the expiry of a session survives a kill, and moves when the session is touched",
    async (url) => {
      const { api, sessions } = await followed(url, "touched", 1);
      return (await api.touch(sessions[0]!)).body;
    },
    async (url, { sessionId, expiresAt }) => {
      const api = new Api(url);
      expect((await api.session(sessionId)).body.expiresAt).toBe(expiresAt);
      expect((await api.touch(sessionId)).body.expiresAt).toBeGreaterThan(expiresAt);
    },
  ),
  row(
    "a deleted session does not come back after a kill, and a new one of its id inherits nothing",
    async (url) => {
      const { api, sessions } = await followed(url, "deleted", 1);
      await api.published("deleted", "1");
      expect((await api.delete(sessions[0]!)).status).toBe(204);
      return sessions[0]!;
    },
    async (url, id) => {
      const api = new Api(url);
      expect((await api.session(id)).status).toBe(404);
      expect((await api.inbox(id)).status).toBe(404);
      expect(await api.published("deleted", "2")).toEqual(inline(0));
      expect((await api.subscribed(id, "deleted")).body.isNewSession).toBe(true);
      expect(await api.published("deleted", "3")).toEqual(inline(1));
      expect(await api.messages(id)).toEqual([3]);
    },
  ),
  row(
    "a publish answers with mode, count, successes and failures, before and after a kill",
    async (url) => {
      const { api } = await followed(url, "headers", 3);
      expect(fanoutOf(await api.publish("headers", "1"))).toEqual(inline(3));
    },
    async (url) => expect(fanoutOf(await new Api(url).publish("headers", "1"))).toEqual(inline(3)),
  ),
  row(
    "the session stream is read live, and from an offset after a kill",
    async (url) => {
      const api = new Api(url);
      await api.create("read", "text/plain");
      const [session] = await subscribers(api, "read", 1);
      const live = await SseClient.open(`${api.base}/stream/session:${session}?offset=-1&live=sse`);
      await api.published("read", "one", "text/plain");
      await live.until("the first copy", (sse) => sse.text === "one");
      live.close();
      return { session: session!, offset: (await api.inbox(session!)).headers.get("stream-next-offset")! };
    },
    async (url, { session, offset }) => {
      const api = new Api(url);
      const live = await SseClient.open(`${api.base}/stream/session:${session}?offset=${offset}&live=sse`);
      await api.published("read", "two", "text/plain");
      await live.until("the second copy", (sse) => sse.text === "two");
      live.close();
      expect((await api.inbox(session)).text).toBe("onetwo");
    },
  ),
  row("malformed project, session and stream ids are refused, before and after a kill", refusesIds, refusesIds),
  row(
    "what was queued when the process was killed is delivered by the next process",
    async (url) => {
      const { api, sessions } = await followed(url, "queued", 40);
      for (let i = 0; i < 20; i++) {
        const { mode, count } = await api.published("queued", String(i));
        expect([mode, count]).toEqual(["queued", 40]);
      }
      return sessions;
    },
    async (url, sessions) =>
      have(
        new Api(url),
        sessions,
        Array.from({ length: 20 }, (_, i) => i),
      ),
  ),
];

describeOnDisk("Through the server process", (engine) => {
  acrossKill(engine, { "fanout.queueThreshold": 3 }, [...ROWS, ...METRIC_ROWS]);
});

async function token(scope: string, sub: string): Promise<string> {
  return mint(SECRET, { scope, sub, ttlSeconds: 3_600 }, Date.now());
}

const as = async (url: string, scope: string, sub = "ada") => new Api(url, "default", await token(scope, sub));

/** A stream, and a session that follows it. */
const sessionOfAda = (stream: string) => async (url: string) => {
  const ada = await as(url, "read write");
  await ada.create(stream);
  return (await subscribers(ada, stream, 1))[0]!;
};

const WITHOUT_QUEUE = [
  row(
    "publishing needs the scope write",
    async (url) => (await as(url, "write")).create("written"),
    async (url) => {
      expect((await (await as(url, "read")).publish("written", "1")).status).toBe(403);
      expect((await new Api(url).publish("written", "1")).status).toBe(401);
      expect((await (await as(url, "write")).publish("written", "1")).status).toBe(204);
    },
  ),
  row("unsubscribing and deleting a session need the scope write", sessionOfAda("owned"), async (url, id) => {
    const [read, write] = [await as(url, "read"), await as(url, "write")];
    expect((await read.unsubscribe(id, "owned")).status).toBe(403);
    expect((await read.delete(id)).status).toBe(403);
    expect((await write.unsubscribe(id, "owned")).status).toBe(204);
    expect((await write.delete(id)).status).toBe(204);
  }),
  row(
    "subscribing, reading and touching a session need the scope read or write",
    sessionOfAda("read"),
    async (url, id) => {
      for (const scope of ["read", "write"]) {
        const api = await as(url, scope);
        expect((await api.subscribe(id, "read")).status).toBe(200);
        expect((await api.session(id)).status).toBe(200);
        expect((await api.touch(id)).status).toBe(200);
      }
      expect((await new Api(url).session(id)).status).toBe(401);
    },
  ),
  row("the owner of a session survives a kill", sessionOfAda("hers"), async (url, id) => {
    const bob = await as(url, "read write", "bob");
    expect((await bob.session(id)).status).toBe(404);
    expect((await bob.inbox(id)).status).toBe(404);
    expect((await bob.subscribe(id, "hers")).status).toBe(403);
  }),
  row(
    "GET /health answers without authentication",
    async (url) => expect((await fetch(`${url}/health`)).status).toBe(200),
    async (url) => expect((await fetch(`${url}/health`)).status).toBe(200),
  ),
  row(
    "copies that were skipped above the inline limit without a queue are delivered by the next process",
    async (url) => {
      const ada = await as(url, "read write");
      await ada.create("skipped");
      const sessions = await subscribers(ada, "skipped", 4);
      for (let i = 0; i < 20; i++) {
        const { mode, count } = await ada.published("skipped", String(i));
        expect([mode, count]).toEqual(["skipped", 4]);
      }
      return sessions;
    },
    async (url, sessions) =>
      have(
        await as(url, "read"),
        sessions,
        Array.from({ length: 20 }, (_, i) => i),
      ),
  ),
];

describeOnDisk("Through the server process, without a queue and with auth", (engine) => {
  const settings = { "fanout.queue": false, "fanout.maxInline": 3 };
  acrossKill(engine, settings, WITHOUT_QUEUE, { SLUICE_SECRET_default: SECRET });
});

const SHORT_LIVED = [
  row(
    "a session that expired while no process served is removed with its subscription, and counted",
    async (url) => {
      const { sessions } = await followed(url, "s", 12);
      return sessions;
    },
    async (url, sessions) => {
      const api = new Api(url);
      await eventually(async () => {
        for (const id of sessions) expect((await api.session(id)).status).toBe(404);
        expect(await api.published("s", "1")).toEqual(inline(0));
      }, 20_000);
      await eventually(async () => {
        const { session_expire, cleanup_batch, http } = await told(url);
        expect(session_expire).toBeGreaterThanOrEqual(12);
        expect(cleanup_batch).toBeGreaterThanOrEqual(1);
        expect(http).toBeGreaterThan(12);
      }, 20_000);
    },
  ),
  row(
    "expiresAt follows from the TTL that is set",
    async (url) => (await followed(url, "t", 1)).sessions[0]!,
    async (url) => {
      const api = new Api(url);
      const startedAt = Date.now();
      const { expiresAt } = (await api.subscribed(uuid(), "t")).body;
      expect(expiresAt).toBeGreaterThanOrEqual(startedAt + 1_000 - 500);
      expect(expiresAt).toBeLessThanOrEqual(Date.now() + 1_000 + 500);
    },
  ),
];

describeOnDisk("Through the server process, with sessions of a second", (engine) => {
  acrossKill(engine, { sessionTtlSeconds: 1, "internal.session.cleanupMs": 100 }, SHORT_LIVED);
});
