/** Sessions, subscriptions, pointers and the rolls of streams: what each request stores, and what it costs. */
import { describe, expect, it } from "vitest";
import { rollEntity } from "../../packages/server/src/live/state.ts";
import { eventually } from "../support/eventually.ts";
import { openNode, openNodes } from "./nodes.ts";

const JSON_STREAM = { "content-type": "application/json" };
const UNKNOWN = "00000000-0000-4000-8000-000000000000";
const later = (offset: string, by = 1) => offset.slice(0, -4) + String(Number(offset.slice(-4)) + by).padStart(4, "0");

describe("a session", () => {
  it("is minted by the server, and its owner renews the token by its id", async () => {
    const node = openNode();
    const made = await node.call("POST", "/v1/sessions");
    expect(made).toMatchObject({ status: 201, body: { expiresAt: node.world.now() + 1_800_000 } });
    const { sessionId, token } = made.body;
    node.world.advance(1_000);
    const renewed = await node.call("POST", "/v1/sessions", { body: { sessionId } });
    expect(renewed).toMatchObject({ status: 200, body: { sessionId } });
    expect(renewed.body.token).not.toBe(token);
  });

  it("cannot be made under an id that the client chose", async () => {
    const node = openNode();
    const answer = await node.call("POST", "/v1/sessions", { body: { sessionId: UNKNOWN } });
    expect(answer).toMatchObject({ status: 404, body: { code: "session-not-found" } });
  });

  it("is kept alive by heartbeats and connections, and expires without them", async () => {
    const node = openNode({ sessionTtlSeconds: 100 });
    const [used, unused] = [await node.mint(), await node.mint()];
    for (let i = 0; i < 4; i++) {
      node.world.advance(60_000);
      if (i % 2 === 0) expect((await node.heartbeat(used)).body).toEqual({ expiresAt: node.world.now() + 100_000 });
      else (await node.connect(used)).leave();
    }
    expect((await node.heartbeat(used)).status).toBe(200);
    expect((await node.heartbeat(unused)).body).toMatchObject({ code: "session-not-found" });
  });
});

describe("a subscription", () => {
  it("stores the pointer at the tail of that moment; a repeat keeps it, a new one raises the epoch", async () => {
    const node = openNode();
    await node.create("a/b", JSON_STREAM);
    const sessionId = await node.mint();
    const first = await node.subscribe(sessionId, "a/b");
    expect(first).toMatchObject({ streamId: "a/b", epoch: 1 });
    await node.append("a/b", 1);
    expect(await node.subscribe(sessionId, "a/b")).toEqual(first);
    expect(await node.offsets(sessionId)).toEqual([{ streamId: "a/b", lastOffset: first.offset, epoch: 1 }]);
    await node.unsubscribe(sessionId, "a/b");
    await node.unsubscribe(sessionId, "a/b");
    expect(await node.offsets(sessionId)).toEqual([]);
    const second = await node.subscribe(sessionId, "a/b");
    expect(second.epoch).toBeGreaterThan(first.epoch);
    expect(second.offset > first.offset).toBe(true);
  });

  it.each([
    ["a stream that does not exist", "nowhere", 404, "stream-not-found"],
    ["an inbox", "session:x", 403, "reserved-name"],
    ["a path of dots", "a/../b", 400, "bad-path"],
    ["a sharded topic", "topic", 409, "stream-sharded"],
  ])("to %s is refused", async (_, streamId, status, code) => {
    const node = openNode();
    await node.create("topic", { ...JSON_STREAM, "stream-shards": "2" });
    const sessionId = await node.mint();
    const answer = await node.call("POST", "/v1/subscriptions", { body: { sessionId, streamId } });
    expect(answer).toMatchObject({ status, body: { code } });
  });

  it("beyond the limit of the session is refused", async () => {
    const node = openNode({ live: { subscriptions: 1 } });
    const sessionId = await node.mint();
    for (const stream of ["a", "b"]) await node.create(stream);
    await node.subscribe(sessionId, "a");
    const answer = await node.call("POST", "/v1/subscriptions", { body: { sessionId, streamId: "b" } });
    expect(answer).toMatchObject({ status: 409, body: { code: "too-many-subscriptions" } });
  });

  it("of an unknown session is refused, whatever is asked of it", async () => {
    const node = openNode();
    await node.create("a");
    const body = { sessionId: UNKNOWN, streamId: "a" };
    for (const method of ["POST", "DELETE"]) {
      expect((await node.call(method, "/v1/subscriptions", { body })).body.code).toBe("session-not-found");
    }
    expect((await node.call("GET", `/v1/session-offsets/${UNKNOWN}`)).status).toBe(404);
    expect((await node.call("GET", `/v1/live/${UNKNOWN}`)).status).toBe(404);
  });

  it("does not keep messages from retention", async () => {
    const node = openNode();
    await node.create("a", { ...JSON_STREAM, "stream-max-messages": "2" });
    const sessionId = await node.mint();
    const { offset } = await node.subscribe(sessionId, "a");
    for (let i = 0; i < 10; i++) await node.append("a", i);
    const { status, headers } = await node.call("GET", `/v1/stream/a?offset=${offset}`);
    expect([status, headers["stream-earliest-offset"]]).toEqual([410, expect.any(String)]);
  });
});

describe("a heartbeat", () => {
  async function processed() {
    const node = openNode();
    await node.create("a", JSON_STREAM);
    const sessionId = await node.mint();
    const { offset, epoch } = await node.subscribe(sessionId, "a");
    await node.append("a", 1, 2, 3);
    const pointer = async () => (await node.offsets(sessionId))[0]?.lastOffset;
    return { node, sessionId, offset, epoch, pointer };
  }

  it("moves the pointer forward, never back, and only under its epoch", async () => {
    const { node, sessionId, offset, epoch, pointer } = await processed();
    const say = (lastOffset: string, given?: number) =>
      node.heartbeat(sessionId, { streamId: "a", lastOffset, ...(given !== undefined && { epoch: given }) });
    expect((await say(later(offset, 2), epoch)).status).toBe(200);
    expect(await pointer()).toBe(later(offset, 2));
    await say(later(offset, 1));
    await say(later(offset, 3), epoch + 1);
    expect(await pointer()).toBe(later(offset, 2));
    await say(later(offset, 3));
    expect(await pointer()).toBe(later(offset, 3));
  });

  it("with one entry ahead of its stream is refused as a whole", async () => {
    const { node, sessionId, offset, pointer } = await processed();
    await node.create("b", JSON_STREAM);
    const other = await node.subscribe(sessionId, "b");
    const ahead = { streamId: "b", lastOffset: later(other.offset, 1) };
    const answer = await node.heartbeat(sessionId, { streamId: "a", lastOffset: later(offset) }, ahead);
    expect(answer).toMatchObject({ status: 400, body: { code: "offset-ahead" } });
    expect(await pointer()).toBe(offset);
  });

  it("ignores streams that are gone or not subscribed", async () => {
    const { node, sessionId, offset } = await processed();
    await node.create("other", JSON_STREAM);
    await node.create("gone", JSON_STREAM);
    await node.subscribe(sessionId, "gone");
    await node.done("DELETE", "/v1/stream/gone");
    const words = ["other", "gone", "nowhere"].map((streamId) => ({ streamId, lastOffset: later(offset, 9) }));
    expect((await node.heartbeat(sessionId, ...words)).status).toBe(200);
  });

  it("that is malformed is refused", async () => {
    const { node, sessionId } = await processed();
    expect((await node.heartbeat(sessionId, { streamId: "a", lastOffset: "-1" })).body).toMatchObject({
      code: "bad-body",
      detail: expect.stringContaining("offsets[0].lastOffset"),
    });
  });

  it("is one commit for all streams, and one that says nothing new is none", async () => {
    const { node, sessionId, offset } = await processed();
    await node.create("b", JSON_STREAM);
    const b = await node.subscribe(sessionId, "b");
    await node.append("b", 1);
    const words = [
      { streamId: "a", lastOffset: later(offset) },
      { streamId: "b", lastOffset: later(b.offset) },
    ];
    node.cluster.commits.length = 0;
    await node.heartbeat(sessionId, ...words);
    expect(node.cluster.commits).toEqual([`default/session/session:${sessionId}`]);
    await node.heartbeat(sessionId, ...words);
    expect(node.cluster.commits).toHaveLength(1);
  });

  it("of several at once is one commit", async () => {
    const { node, sessionId, offset } = await processed();
    node.cluster.commits.length = 0;
    await Promise.all(
      [1, 2, 3].map((by) => node.heartbeat(sessionId, { streamId: "a", lastOffset: later(offset, by) })),
    );
    expect(node.cluster.commits).toHaveLength(1);
  });
});

describe("a publish", () => {
  it("costs one commit whatever the number of subscribers, connected or not", async () => {
    const node = openNode();
    await node.create("a", JSON_STREAM);
    const sessions = await Promise.all(Array.from({ length: 30 }, () => node.mint()));
    await Promise.all(sessions.map((sessionId) => node.subscribe(sessionId, "a")));
    const clients = await Promise.all(sessions.slice(0, 10).map((sessionId) => node.connect(sessionId)));
    node.cluster.commits.length = 0;
    await node.append("a", 1);
    await eventually(() => {
      for (const client of clients) expect(client.payloads("a")).toEqual([1]);
    });
    expect(node.cluster.commits).toEqual(["default/stream/a"]);
  });
});

describe("the roll of a stream", () => {
  const count = (node: ReturnType<typeof openNode>) => node.app.live.rolls.count("default", "a");

  async function subscribers(total: number, options = {}) {
    const node = openNode(options);
    await node.create("a", JSON_STREAM);
    const sessions = await Promise.all(Array.from({ length: total }, () => node.mint()));
    await Promise.all(sessions.map((sessionId) => node.subscribe(sessionId, "a")));
    return { node, sessions };
  }

  it("counts its subscribers, across repeats, unsubscribes and the ends of sessions", async () => {
    const { node, sessions } = await subscribers(4);
    expect(await count(node)).toBe(4);
    await node.subscribe(sessions[0]!, "a");
    expect(await count(node)).toBe(4);
    await node.unsubscribe(sessions[0]!, "a");
    expect(await count(node)).toBe(3);
    await node.done("DELETE", `/v1/session/${sessions[1]}`);
    expect(await count(node)).toBe(2);
  });

  it("is reconciled with its sessions: a row without a subscription goes", async () => {
    const { node, sessions } = await subscribers(3, { internal: { live: { pageRows: 2 } } });
    await node.app.live.rolls.enroll("default", "a", { session: UNKNOWN, incarnation: "1", epoch: 7 });
    expect(await count(node)).toBe(4);
    node.world.advance(600_000);
    await eventually(async () => {
      await node.app.sweep();
      expect(await count(node)).toBe(3);
    });
    expect(await node.offsets(sessions[0]!)).toHaveLength(1);
  });

  it.each([
    ["at once", 200, "inline"],
    ["through the queue above the threshold", 2, "queued"],
  ] as const)("goes with its stream, and the subscriptions with it, %s", async (_, inlineRemovals, path) => {
    const { node, sessions } = await subscribers(5, { internal: { live: { inlineRemovals, pageRows: 2 } } });
    await node.done("DELETE", "/v1/stream/a");
    await eventually(async () => expect(await count(node)).toBe(0));
    for (const sessionId of sessions) expect(await node.offsets(sessionId)).toEqual([]);
    const text = await metricsOf(node);
    expect(text).toContain(`${path}=5`);
  });

  it("a removal for an earlier stream that comes late leaves the subscription to a later one at the same path", async () => {
    const { node, sessions } = await subscribers(1);
    await node.app.live.rolls.unfollow("default", sessions[0]!, "a", "an earlier stream");
    expect(await node.offsets(sessions[0]!)).toHaveLength(1);
  });

  it("a request to unsubscribe that names an earlier epoch changes nothing", async () => {
    const { node, sessions } = await subscribers(1);
    const [sessionId, streamId] = [sessions[0]!, "a"];
    await node.unsubscribe(sessionId, streamId);
    await node.subscribe(sessionId, streamId);
    await node.done("DELETE", "/v1/subscriptions", { body: { sessionId, streamId, epoch: 1 } });
    expect(await node.offsets(sessionId)).toMatchObject([{ epoch: 3 }]);
    expect(await count(node)).toBe(1);
  });

  it("is removed before the server has stopped, so that the store is still open", async () => {
    const { node } = await subscribers(1);
    const { engine } = node.cluster;
    let release: () => void = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { rows } = engine;
    engine.rows = async (...args) => {
      await released;
      return rows.call(engine, ...args);
    };
    await node.done("DELETE", "/v1/stream/a");
    let hasStopped = false;
    const stopping = node.app.live.stop().then(() => {
      hasStopped = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(hasStopped).toBe(false);
    release();
    await stopping;
    expect(await count(node)).toBe(0);
  });

  it("of a deleted stream is finished by the sweep after a crash", async () => {
    const { nodes, cluster } = openNodes(2);
    const [first, second] = [nodes[0]!, nodes[1]!];
    await first.create("a", JSON_STREAM);
    const sessionId = await first.mint();
    await first.subscribe(sessionId, "a");
    // The stream is gone and no event was told of it, as when the process dies in between.
    await cluster.engine.commit(
      { project: "default", kind: "stream", id: "a", key: "default/stream/a" },
      {
        rev: (await cluster.engine.load({ project: "default", kind: "stream", id: "a", key: "default/stream/a" }, []))
          .rev,
      },
      [{ op: "destroy" }],
    );
    cluster.world.advance(600_000);
    await eventually(async () => {
      await second.app.sweep();
      expect((await cluster.engine.load(rollEntity("default", "a"), [])).rev).toBe(0);
    });
    expect(await second.offsets(sessionId)).toEqual([]);
  });
});

async function metricsOf(node: ReturnType<typeof openNode>): Promise<string> {
  const lines: string[] = [];
  for (const metric of node.app.metrics) {
    if (metric.name !== "sluice_live_removed_subscriptions_total") continue;
    await metric.read(((value: number, labels: Record<string, string>) =>
      lines.push(`${labels.path}=${value}`)) as never);
  }
  return lines.join(" ");
}
