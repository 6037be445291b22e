/** A live connection: what it pushes, in which order, and how it ends. */
import { describe, expect, it } from "vitest";
import { entity } from "../../packages/server/src/engine/contract.ts";
import { eventually } from "../support/eventually.ts";
import { FakeSink } from "../support/fake-sink.ts";
import { LiveClient, openNode, openNodeOn, openNodes } from "./nodes.ts";

const JSON_STREAM = { "content-type": "application/json" };

async function following(...streams: string[]) {
  const node = openNode();
  const sessionId = await node.mint();
  for (const stream of streams) {
    await node.create(stream, JSON_STREAM);
    await node.subscribe(sessionId, stream);
  }
  return { node, sessionId };
}

describe("a connection", () => {
  it("begins with hello, and pushes each message of every subscription in order", async () => {
    const { node, sessionId } = await following("a", "b");
    const client = await node.connect(sessionId);
    expect(client.events).toEqual([{ type: "hello", sessionId }]);
    await node.append("a", 1, 2);
    await node.append("b", "x");
    await node.append("a", 3);
    await eventually(() => expect(client.payloads("a")).toEqual([1, 2, 3]));
    await eventually(() => expect(client.payloads("b")).toEqual(["x"]));
    const [first] = client.events.filter(({ type }) => type === "data");
    expect(first).toEqual({
      type: "data",
      streamId: "a",
      offset: expect.stringMatching(/^\d{16}_\d{16}$/),
      contentType: "application/json",
      payload: 1,
    });
  });

  it("leaves what came before hello to the catch-up, and nothing in between is missed", async () => {
    const { node, sessionId } = await following("a");
    const { lastOffset } = (await node.offsets(sessionId))[0]!;
    await node.append("a", 1);
    const reply = await node.admit(sessionId);
    // Appended after the server has looked at the stream, and before the first byte is sent.
    await node.append("a", 2);
    const sink = new FakeSink();
    reply.live!(sink);
    await node.append("a", 3);
    const { values } = await node.read("a", lastOffset);
    expect(values).toEqual([1, 2, 3]);
    await eventually(() => expect(sink.text).toContain('"payload":3'));
    expect(sink.text).toContain('"payload":2');
  });

  it("pushes a stream that is subscribed later from the offset of that subscription on, whichever node took it", async () => {
    const { nodes } = openNodes(2);
    const [here, there] = [nodes[0]!, nodes[1]!];
    const sessionId = await here.mint();
    const client = await here.connect(sessionId);
    await there.create("a", JSON_STREAM);
    await there.append("a", 1);
    await there.subscribe(sessionId, "a");
    await there.append("a", 2);
    await here.append("a", 3);
    await eventually(() => expect(client.payloads("a")).toEqual([2, 3]));
  });

  it("pushes a stream that is subscribed while the connection is being opened", async () => {
    const { node, sessionId } = await following("a");
    await node.create("b", JSON_STREAM);
    const reply = await node.admit(sessionId);
    await node.subscribe(sessionId, "b");
    await node.append("b", 1);
    const sink = new FakeSink();
    reply.live!(sink);
    await node.append("b", 2);
    await eventually(() => expect(new LiveClient(sink).payloads("b")).toEqual([1, 2]));
  });

  it("pushes no more of a stream after it is unsubscribed, and again after it is subscribed", async () => {
    const { node, sessionId } = await following("a");
    const client = await node.connect(sessionId);
    await node.append("a", 1);
    await eventually(() => expect(client.payloads("a")).toEqual([1]));
    await node.unsubscribe(sessionId, "a");
    await eventually(() => expect(node.app.tail.watchedStreams).toBe(0));
    await node.append("a", 2);
    const { epoch } = await node.subscribe(sessionId, "a");
    expect(epoch).toBe(3);
    await node.append("a", 3);
    await eventually(() => expect(client.payloads("a")).toEqual([1, 3]));
  });

  it("says in which encoding a payload comes, for each content type", async () => {
    const node = openNode();
    const sessionId = await node.mint();
    const client = await node.connect(sessionId);
    for (const [stream, contentType, body] of [
      ["t", "text/plain", "two\nlines"],
      ["b", "application/octet-stream", "bytes"],
      ["j", "application/json", '{\n "a": 1.0 }'],
    ] as const) {
      await node.create(stream, { "content-type": contentType });
      await node.subscribe(sessionId, stream);
      await node.done("POST", `/v1/stream/${stream}`, { headers: { "content-type": contentType }, body });
    }
    await eventually(() => expect(client.types.filter((type) => type === "data")).toHaveLength(3));
    expect(await client.next("data", "t")).toMatchObject({ payload: "two\nlines", contentType: "text/plain" });
    expect(await client.next("data", "b")).toMatchObject({ payload: btoa("bytes"), encoding: "base64" });
    expect(await client.next("data", "j")).toMatchObject({ payload: { a: 1 } });
  });

  it("announces a payload above the threshold, which the client then reads", async () => {
    const node = openNode({ live: { notifyBytes: 10 } });
    const sessionId = await node.mint();
    await node.create("a", JSON_STREAM);
    const { offset } = await node.subscribe(sessionId, "a");
    const client = await node.connect(sessionId);
    await node.append("a", "short", "longer than ten", "end");
    await eventually(() => expect(client.types).toEqual(["hello", "data", "notify", "data"]));
    const { values, next } = await node.read("a", offset);
    expect(values).toEqual(["short", "longer than ten", "end"]);
    expect(client.events[2]!.offset! < next).toBe(true);
    expect(client.events[3]!.offset).toBe(next);
  });

  it("gets closed after the last message, also when the stream was closed before", async () => {
    const { node, sessionId } = await following("a");
    const client = await node.connect(sessionId);
    await node.append("a", 1);
    await node.done("POST", "/v1/stream/a", { headers: { "stream-closed": "true" } });
    await client.next("closed", "a");
    expect(client.types).toEqual(["hello", "data", "closed"]);
    const again = await node.connect(sessionId);
    expect(again.types).toEqual(["hello", "closed"]);
    expect(await node.offsets(sessionId)).toHaveLength(1);
  });

  it("gets gone when a stream is deleted, once, and the pointer is gone with it", async () => {
    const { node, sessionId } = await following("a", "b");
    const client = await node.connect(sessionId);
    await node.done("DELETE", "/v1/stream/a");
    await client.next("gone", "a");
    await eventually(async () => expect((await node.offsets(sessionId)).map((one) => one.streamId)).toEqual(["b"]));
    await node.append("b", 1);
    await eventually(() => expect(client.types).toEqual(["hello", "gone", "data"]));
  });

  it("gets gone after a reconnect when the stream was deleted and created anew meanwhile, and may follow the new one", async () => {
    const { node, sessionId } = await following("a");
    await node.done("DELETE", "/v1/stream/a");
    await node.create("a", JSON_STREAM);
    const client = await node.connect(sessionId);
    await node.append("a", 1);
    // The removal of the subscription may have come first; then there is nothing to tell.
    await eventually(async () => expect(await node.offsets(sessionId)).toEqual([]));
    const { epoch } = await node.subscribe(sessionId, "a");
    expect(epoch).toBeGreaterThan(1);
    await node.append("a", 2);
    await eventually(() => expect(client.payloads("a")).toEqual([2]));
  });

  it("does not take a later stream at the same path for the one that was subscribed", async () => {
    const { node, sessionId } = await following("a");
    // The stream goes without an event, as when the process dies in between, so that the pointer stays.
    const stream = entity("default", "stream", "a");
    const { engine } = node.cluster;
    await engine.commit(stream, { rev: (await engine.load(stream, [])).rev }, [{ op: "destroy" }]);
    const other = openNodeOn(node.cluster);
    await other.create("a", JSON_STREAM);
    const client = await other.connect(sessionId);
    expect(client.events[1]).toEqual({ type: "gone", streamId: "a", epoch: 1 });
    await other.append("a", 1);
    await eventually(async () => expect(await other.offsets(sessionId)).toEqual([]));
    expect(client.payloads("a")).toEqual([]);
  });

  it("tells a client to read when retention took messages before they were pushed", async () => {
    const node = openNode();
    const sessionId = await node.mint();
    await node.create("a", { ...JSON_STREAM, "stream-max-messages": "2" });
    // The client has not taken the hello yet, so the stream waits for its turn.
    const sink = new FakeSink(false);
    const client = await node.connect(sessionId, { sink });
    await node.subscribe(sessionId, "a");
    await eventually(() => expect(node.app.live.hub.followed).toBe(1));
    for (let i = 0; i < 10; i++) await node.append("a", i);
    sink.take();
    const { offset } = await client.next("notify", "a");
    expect((await node.read("a", offset!)).values).toEqual([]);
    sink.take();
    await node.append("a", "after");
    await eventually(() => {
      sink.take();
      expect(client.payloads("a").at(-1)).toBe("after");
    });
    expect(client.types).not.toContain("gone");
  });

  it("counts as a reader of its project, and is refused beyond the project's share of readers", async () => {
    const node = openNode({ tail: { readers: 4 }, projectSharePercent: 50 });
    const sessions = await Promise.all([1, 2, 3].map(() => node.mint()));
    const clients = [await node.connect(sessions[0]!), await node.connect(sessions[1]!)];
    const connect = () => node.call("GET", `/v1/live/${sessions[2]}`);
    expect(await connect()).toMatchObject({ status: 429, body: { code: "project-limit" } });
    const elsewhere = await node.done("POST", "/v1/other/sessions", { body: {} });
    expect((await node.reply("GET", `/v1/other/live/${elsewhere.sessionId}`)).status).toBe(200);
    clients[0]!.leave();
    expect((await node.admit(sessions[2]!)).status).toBe(200);
  });

  it("leaves nothing behind when its client goes", async () => {
    const { node, sessionId } = await following("a", "b");
    const client = await node.connect(sessionId);
    expect(node.app.tail.watchedStreams).toBe(2);
    client.leave();
    expect(node.app.live.hub.followed).toBe(0);
    expect([node.app.live.hub.size, node.app.tail.watchedStreams, node.app.tail.readers]).toEqual([0, 0, 0]);
    await node.append("a", 1);
    expect(client.types).toEqual(["hello"]);
  });
});

describe("a newer connection of the session", () => {
  it("displaces the one before, which stays away", async () => {
    const { node, sessionId } = await following("a");
    const first = await node.connect(sessionId);
    const second = await node.connect(sessionId);
    expect(first.events.at(-1)).toEqual({ type: "bye", code: "displaced", reconnect: false, retryMs: 0 });
    await node.append("a", 1);
    await eventually(() => expect(second.payloads("a")).toEqual([1]));
    expect(first.payloads("a")).toEqual([]);
  });

  it("displaces one on another node", async () => {
    const { nodes } = openNodes(2);
    const sessionId = await nodes[0]!.mint();
    const first = await nodes[0]!.connect(sessionId);
    const second = await nodes[1]!.connect(sessionId);
    expect(await first.next("bye")).toMatchObject({ code: "displaced", reconnect: false });
    expect(second.types).toEqual(["hello"]);
  });

  it("stays although an older request is opened after it", async () => {
    const { node, sessionId } = await following("a");
    const older = await node.admit(sessionId);
    const newer = await node.connect(sessionId);
    const sink = new FakeSink();
    older.live!(sink);
    expect(sink.text).toContain("displaced");
    await node.append("a", 1);
    await eventually(() => expect(newer.payloads("a")).toEqual([1]));
    expect(newer.types).not.toContain("bye");
  });
});

describe("a connection ends with bye", () => {
  it("when the server drains, and clients are asked to spread over some time", async () => {
    const node = openNode();
    const clients = await Promise.all(Array.from({ length: 20 }, async () => node.connect(await node.mint())));
    node.app.drain();
    const byes = clients.map(({ events }) => events.at(-1)!);
    for (const bye of byes) expect(bye).toMatchObject({ type: "bye", code: "draining", reconnect: true });
    expect(new Set(byes.map(({ retryMs }) => retryMs)).size).toBeGreaterThan(10);
    for (const { retryMs } of byes) expect(retryMs).toBeLessThanOrEqual(5_000);
  });

  it("when its client reads too slowly, and the buffer stays bounded", async () => {
    const node = openNode({ live: { slowReaderBytes: 10_000, notifyBytes: 1_000_000 } });
    const sessionId = await node.mint();
    for (const stream of ["a", "b", "c"]) {
      await node.create(stream, JSON_STREAM);
      await node.subscribe(sessionId, stream);
    }
    const sink = new FakeSink(false);
    const client = await node.connect(sessionId, { sink });
    for (let i = 0; i < 12; i++) {
      await node.append(["a", "b", "c"][i % 3]!, "x".repeat(4_000));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await eventually(() => expect(client.types.at(-1)).toBe("bye"));
    expect(client.events.at(-1)).toMatchObject({ code: "slow-reader", reconnect: true });
    expect(sink.buffered).toBeLessThan(20_000);
    expect(node.app.live.hub.followed).toBe(0);
    node.world.advance(10_000);
    expect(sink.cutBy).toBe("slow-reader");
  });

  it("when what it is told at its beginning is too much for its client, and nothing stays followed", async () => {
    const node = openNode({ live: { slowReaderBytes: 100 } });
    const sessionId = await node.mint();
    for (const stream of ["a", "b", "c", "d", "e", "f"]) {
      await node.create(stream, JSON_STREAM);
      await node.subscribe(sessionId, stream);
      if (stream !== "f") await node.done("POST", `/v1/stream/${stream}`, { headers: { "stream-closed": "true" } });
    }
    const client = await node.connect(sessionId, { sink: new FakeSink(false) });
    expect(client.events.at(-1)).toMatchObject({ type: "bye", code: "slow-reader" });
    expect([node.app.live.hub.followed, node.app.tail.watchedStreams]).toEqual([0, 0]);
  });

  it("when the session is deleted, and the client stays away", async () => {
    const { node, sessionId } = await following("a");
    const client = await node.connect(sessionId);
    await node.done("DELETE", `/v1/session/${sessionId}`);
    expect(await client.next("bye")).toMatchObject({ code: "session-not-found", reconnect: false });
  });

  it("when its lifetime is over", async () => {
    const node = openNode({ internal: { live: { lifetimeMs: 5_000 } } });
    const client = await node.connect(await node.mint());
    node.world.advance(5_000);
    expect(client.events.at(-1)).toMatchObject({ type: "bye", code: "time", reconnect: true });
  });
});

describe("a hub with more subscriptions than it may follow", () => {
  it("parks those that were not used for longest, says so, and resumes them when the client subscribes again", async () => {
    const node = openNode({ internal: { live: { active: 2 } } });
    const sessionId = await node.mint();
    const client = await node.connect(sessionId);
    for (const stream of ["a", "b", "c"]) {
      await node.create(stream, JSON_STREAM);
      await node.subscribe(sessionId, stream);
      await eventually(() => expect(node.app.live.hub.followed).toBeGreaterThan(0));
    }
    const idle = (await client.next("idle")).streamId!;
    expect(node.app.live.hub.followed).toBe(2);
    await node.append(idle, 1);
    await node.subscribe(sessionId, idle);
    await eventually(() => expect(client.payloads(idle)).toEqual([1]));
    await node.append(idle, 2);
    await eventually(() => expect(client.payloads(idle)).toEqual([1, 2]));
    expect(node.app.live.hub.followed).toBe(2);
  });

  it("resumes a parked one only when the client subscribes to it again, and not for an earlier repeat", async () => {
    const node = openNode({ internal: { live: { active: 1 } } });
    const sessionId = await node.mint();
    for (const stream of ["a", "b", "c"]) await node.create(stream, JSON_STREAM);
    const client = await node.connect(sessionId);
    await node.subscribe(sessionId, "a");
    await eventually(() => expect(node.app.live.hub.followed).toBe(1));
    for (const stream of ["a", "b"]) await node.subscribe(sessionId, stream);
    await client.next("idle", "a");
    await node.subscribe(sessionId, "c");
    await client.next("idle", "b");
    expect(client.events.filter(({ type, streamId }) => type === "idle" && streamId === "a")).toHaveLength(1);
  });
});
