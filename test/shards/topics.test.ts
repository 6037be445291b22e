import { describe, expect, it } from "vitest";
import { describeOnEngines, serverForTest } from "../e2e/server.ts";
import { Api } from "../sessions/api.ts";
import { Topic } from "./topic.ts";

const UUID = "6f1c1f5e-2a5b-4c9e-9d5e-0a1b2c3d4e5f";

describeOnEngines("A sharded topic", (engine) => {
  const open = async (path?: string, shards?: number) => new Topic((await serverForTest(engine)).url, path, shards);

  it("is made with its shards, confirmed by the same PUT, and refused to a different one", async () => {
    const topic = await open();
    const created = await topic.put();
    expect([created.status, created.headers.get("stream-shards")]).toEqual([201, "4"]);
    expect(created.headers.get("location")).toBe(`${topic.api.base}/stream/orders`);
    expect(await topic.closed()).toEqual([false, false, false, false]);
    expect((await topic.put()).status).toBe(200);
    for (const [other, what] of [
      [{ "Stream-Shards": "5" }, "Stream-Shards"],
      [{ "Content-Type": "text/plain" }, "Content-Type"],
      [{ "Stream-TTL": "60" }, "Stream-TTL"],
      [{ "Stream-Closed": "true" }, "Stream-Closed"],
    ] as const) {
      const answer = await topic.put(other);
      expect(answer).toMatchObject({ status: 409, body: { code: "stream-exists" } });
      expect(answer.body.detail).toContain(what);
    }
    const plain = await topic.api.call("PUT", "/stream/orders", undefined, { "Content-Type": "application/json" });
    expect(plain).toMatchObject({ status: 409, body: { code: "stream-exists" } });
    await topic.api.create("plain");
    const turned = await topic.api.call("PUT", "/stream/plain", undefined, {
      "Content-Type": "application/json",
      "Stream-Shards": "4",
    });
    expect(turned).toMatchObject({ status: 409, body: { code: "stream-exists" } });
    expect((await topic.head("plain/$shard/0")).status).toBe(404);
  });

  it("routes an append by key, else by producer, else round robin, and names the shard", async () => {
    const topic = await (await open()).create();
    const byKey = await topic.add("k1", { "Message-Key": "order-1" });
    expect(await topic.add("k2", { "Message-Key": "order-1" })).toBe(byKey);
    // The key wins over the producer, whose id alone would choose another shard.
    const producer = { "Producer-Id": "a", "Producer-Epoch": "0", "Producer-Seq": "0" };
    expect(await topic.add("k3", { ...producer, "Message-Key": "order-1" })).toBe(byKey);
    const byProducer = await topic.add("p1", producer);
    expect(byProducer).not.toBe(byKey);
    expect(await topic.add("p2", { ...producer, "Producer-Seq": "1" })).toBe(byProducer);
    // These shards are part of the contract: a client that knows the key knows the shard.
    expect([byKey, byProducer]).toEqual([0x92005a9c % 4, 0x1a80b1b3 % 4]);
    const rounds = [];
    for (let i = 0; i < 8; i++) rounds.push(await topic.add(i));
    expect(rounds).toEqual([0, 1, 2, 3, 0, 1, 2, 3]);
    const messages = await topic.messages();
    expect(messages[byKey]!.filter((message) => String(message).startsWith("k"))).toEqual(["k1", "k2", "k3"]);
    expect(messages.flat().length).toBe(13);
  });

  it("uses all its shards when appends alternate with those to another topic", async () => {
    const a = await (await open("a", 2)).create();
    const b = await a.another("b", 2).create();
    const taken: number[] = [];
    for (let i = 0; i < 4; i++) taken.push(await a.add(i), await b.add(i));
    expect(taken).toEqual([0, 0, 1, 1, 0, 0, 1, 1]);
  });

  it("answers as the shard does: producers, repetitions, gaps, content types, batches", async () => {
    const topic = await (await open()).create();
    const by = (seq: number, epoch = 0) => ({
      "Producer-Id": "p",
      "Producer-Epoch": String(epoch),
      "Producer-Seq": String(seq),
    });
    const first = await topic.post([1, 2, 3], by(0));
    expect([first.status, first.headers.get("producer-seq")]).toEqual([200, "0"]);
    const shard = first.headers.get("stream-shard")!;
    expect((await topic.head(`orders/$shard/${shard}`)).headers.get("stream-next-offset")).toBe(
      first.headers.get("stream-next-offset"),
    );
    const again = await topic.post([1, 2, 3], by(0));
    expect([again.status, again.headers.get("stream-shard")]).toEqual([204, shard]);
    const gap = await topic.post([4], by(5));
    expect(gap).toMatchObject({ status: 409, body: { code: "producer-gap" } });
    expect([gap.headers.get("producer-expected-seq"), gap.headers.get("stream-shard")]).toEqual(["1", shard]);
    const typed = await topic.post("x", { "Content-Type": "text/plain" });
    expect(typed).toMatchObject({ status: 409, body: { code: "content-type-mismatch" } });
    expect((await topic.api.call("POST", "/stream/orders", "", {})).status).toBe(400);
    expect((await topic.messages()).flat()).toEqual([1, 2, 3]);
  });

  it("has no log to read: every way to read answers 409 with the shards", async () => {
    const topic = await (await open()).create();
    for (const query of [
      "",
      "?offset=-1",
      "?offset=now",
      "?offset=-1&format=envelope",
      "?offset=-1&live=long-poll",
      "?offset=now&live=long-poll",
      "?offset=-1&live=sse",
      "?offset=now&live=sse",
      "?offset=0000000000000001_0000000000000000",
    ]) {
      const answer = await topic.get(query);
      expect(answer, query).toMatchObject({ status: 409, body: { code: "stream-sharded", shards: topic.paths } });
      expect(answer.headers.get("content-type")).toBe("application/problem+json");
      expect(answer.headers.get("stream-shards")).toBe("4");
    }
    const head = await topic.head();
    expect([head.status, head.headers.get("stream-shards")]).toEqual([200, "4"]);
    expect((await topic.head("orders/$shard/0")).headers.get("stream-shards")).toBeNull();
  });

  it("has shards that are read, followed and appended to like any stream", async () => {
    const topic = await (await open()).create();
    const shard = "orders/$shard/2";
    const waiting = topic.get("?offset=-1&live=long-poll", shard);
    await topic.api.append(shard, "[1]");
    expect((await waiting).body).toEqual([1]);
    const [envelope] = (await topic.get("?offset=-1&format=envelope", shard)).body;
    expect(envelope).toMatchObject({ payload: 1 });
    const encoded = await topic.get("?offset=-1", "orders%2F%24shard%2F2");
    expect(encoded.body).toEqual([1]);
  });

  it("refuses every creation and deletion under the paths of its shards", async () => {
    const topic = await (await open()).create();
    for (const path of [
      "orders/$shard/0",
      "orders/$shard/9",
      "other/$shard/0",
      "a/$shard",
      "a/$shard/x/y",
      "a%2F%24shard%2F0",
    ]) {
      for (const method of ["PUT", "DELETE"]) {
        const answer = await topic.api.call(method, `/stream/${path}`);
        expect(answer, `${method} ${path}`).toMatchObject({ status: 403, body: { code: "reserved-name" } });
      }
      if (path !== "orders/$shard/0")
        expect((await topic.api.call("POST", `/stream/${path}`, "1")).status).not.toBe(204);
    }
    expect((await topic.api.call("POST", "/stream/other/$shard/0", "1", { "Content-Type": "text/plain" })).status).toBe(
      404,
    );
    expect((await topic.api.call("PUT", "/stream/a/b$shard")).status).toBe(201);
  });

  it("is deleted with all its shards, and its name is free for any stream", async () => {
    const topic = await (await open()).create();
    await topic.add("x", { "Message-Key": "order-1" });
    expect((await topic.delete()).status).toBe(204);
    expect(await topic.closed()).toEqual([undefined, undefined, undefined, undefined]);
    expect((await topic.post("y")).status).toBe(404);
    expect((await topic.delete()).status).toBe(404);
    const smaller = await topic.another("orders", 2).create();
    expect(await smaller.messages()).toEqual([[], []]);
    expect((await topic.head("orders/$shard/2")).status).toBe(404);
    await smaller.delete();
    await topic.api.create("orders");
    expect((await topic.get()).status).toBe(200);
  });

  it("is closed as a whole, with or without a last message, and idempotently", async () => {
    const topic = await (await open()).create();
    const last = await topic.post("bye", { "Message-Key": "order-1", "Stream-Closed": "true" });
    expect([last.status, last.headers.get("stream-closed")]).toEqual([204, "true"]);
    expect(last.headers.get("stream-shard")).toBe(String(0x92005a9c % 4));
    expect(await topic.closed()).toEqual([true, true, true, true]);
    expect((await topic.head()).headers.get("stream-closed")).toBe("true");
    for (let i = 0; i < 2; i++) {
      const again = await topic.close();
      expect([again.status, again.headers.get("stream-closed")]).toEqual([204, "true"]);
    }
    expect(await topic.post("more")).toMatchObject({ status: 409, body: { code: "stream-closed" } });
    expect((await topic.messages()).flat()).toEqual(["bye"]);
    expect((await topic.put({ "Stream-Closed": "true" })).status).toBe(200);
  });

  it("accepts a producer's repeated closing request", async () => {
    const topic = await (await open()).create();
    const closing = { "Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0", "Stream-Closed": "true" };
    expect((await topic.post("bye", closing)).status).toBe(200);
    const again = await topic.post("bye", closing);
    expect([again.status, again.headers.get("stream-closed")]).toEqual([204, "true"]);
    expect((await topic.post("more", { ...closing, "Producer-Seq": "1" })).status).toBe(409);
    expect((await topic.messages()).flat()).toEqual(["bye"]);
  });

  it("can be made closed", async () => {
    const topic = await (await open()).create({ "Stream-Closed": "true" });
    expect(await topic.closed()).toEqual([true, true, true, true]);
    expect((await topic.post("x")).status).toBe(409);
  });

  it("passes retention and expiry on to its shards", async () => {
    const expires = new Date(Date.now() + 3_600_000).toISOString();
    const topic = await (await open()).create({ "Stream-Max-Messages": "20", "Stream-Expires-At": expires });
    for (const path of [topic.path, ...topic.paths]) {
      const { headers } = await topic.head(path);
      expect([headers.get("stream-max-messages"), headers.get("stream-expires-at")]).toEqual(["20", expires]);
      expect(headers.get("content-type")).toBe("application/json");
    }
    for (let i = 0; i < 60; i++) await topic.add(i, { "Message-Key": "k" });
    const kept = (await topic.messages()).flat();
    expect(kept.length).toBeGreaterThanOrEqual(20);
    expect(kept.length).toBeLessThanOrEqual(22);
  });

  it("is listed, and so are its shards", async () => {
    const topic = await (await open()).create();
    await topic.add([1, 2], { "Message-Key": "order-1" });
    const { body } = await topic.api.call("GET", "/streams");
    expect(body.streams.map(({ path }: { path: string }) => path)).toEqual([topic.path, ...topic.paths]);
    expect(body.streams[0]).toMatchObject({ shards: 4, messages: 0, bytes: 0, closed: false, lastAppendAt: null });
    expect(body.streams[1]).toMatchObject({ messages: 2 });
    expect(body.streams[1]).not.toHaveProperty("shards");
    const filtered = await topic.api.call("GET", `/streams?filter=${encodeURIComponent("orders/$shard/+")}`);
    expect(filtered.body.streams.length).toBe(4);
  });

  it("cannot be forked, but its shards can, and then its name waits for their forks", async () => {
    const topic = await (await open()).create();
    const fork = (from: string, headers = {}) =>
      topic.api.call("PUT", "/stream/fork", undefined, { "Stream-Forked-From": from, ...headers });
    expect(await fork("orders")).toMatchObject({ status: 409, body: { code: "stream-sharded" } });
    expect(await fork("plain", { "Stream-Shards": "2" })).toMatchObject({ status: 400, body: { code: "bad-header" } });
    await topic.add("x", { "Message-Key": "order-1" });
    expect((await fork("orders/$shard/0")).status).toBe(201);
    expect((await topic.delete()).status).toBe(204);
    expect((await topic.get("?offset=-1", "fork")).body).toEqual(["x"]);
    const again = await topic.put();
    expect(again).toMatchObject({ status: 409, body: { code: "stream-exists" } });
    expect(again.body.detail).toContain("orders/$shard/0");
    expect((await topic.head()).status).toBe(404);
    expect((await topic.head("orders/$shard/1")).status).toBe(404);
    expect((await topic.api.call("DELETE", "/stream/fork")).status).toBe(204);
    await topic.create();
    expect((await topic.messages()).flat()).toEqual([]);
  });

  it("cannot be subscribed to by a session, but published to", async () => {
    const topic = await (await open()).create();
    for (const from of [undefined, "-1"]) {
      const body = { sessionId: UUID, streamId: "orders", from };
      const answer = await topic.api.json("POST", "/subscribe", body);
      expect(answer).toMatchObject({ status: 409, body: { code: "stream-sharded" } });
    }
    const published = await topic.api.call("POST", "/publish/orders", "[7]", { "Content-Type": "application/json" });
    expect(published.status).toBe(204);
    expect(published.headers.get("stream-fanout-count")).toBe("0");
    expect(published.headers.get("stream-fanout-mode")).toBe("inline");
    expect(published.headers.get("stream-shard")).toBe("0");
    expect((await topic.messages()).flat()).toEqual([7]);
  });

  it("works the same with 256 shards and with one", async () => {
    const many = await (await open("many", 256)).create();
    expect((await many.closed()).every((closed) => closed === false)).toBe(true);
    expect(await many.add("x", { "Message-Key": "order-1" })).toBe(156);
    expect((await many.delete()).status).toBe(204);
    expect((await many.api.call("GET", "/streams")).body.streams).toEqual([]);
    const one = await many.another("one", 1).create();
    expect([await one.add(1), await one.add(2, { "Message-Key": "k" })]).toEqual([0, 0]);
    expect(await one.messages()).toEqual([[1, 2]]);
  });
});

describe("Stream-Shards", () => {
  it("is refused by name when it is not a number from 1 to 256", async () => {
    const api = new Api((await serverForTest("memory")).url);
    for (const shards of ["0", "257", "1.5", "x", "", "-1", "1e2", "08", "+4", "1000", "4, 4"]) {
      const answer = await api.call("PUT", "/stream/a", undefined, { "Stream-Shards": shards });
      expect(answer, shards).toMatchObject({ status: 400, body: { code: "bad-header" } });
      expect(answer.body.detail).toContain("Stream-Shards");
    }
    expect((await api.call("HEAD", "/stream/a")).status).toBe(404);
  });

  it("is refused with a body, because a repeated PUT would have to append it again", async () => {
    const api = new Api((await serverForTest("memory")).url);
    const put = (body: string) =>
      api.call("PUT", "/stream/a", body, { "Stream-Shards": "2", "Content-Type": "application/json" });
    expect(await put("[1]")).toMatchObject({ status: 400, body: { code: "bad-body" } });
    expect((await api.call("HEAD", "/stream/a")).status).toBe(404);
    expect((await put("[]")).status).toBe(201);
  });

  it("is refused for a path that leaves no room for the paths of the shards", async () => {
    const api = new Api((await serverForTest("memory")).url);
    const put = (length: number, shards: string) =>
      api.call("PUT", `/stream/${"a".repeat(length)}`, undefined, { "Stream-Shards": shards });
    expect(await put(1_014, "256")).toMatchObject({ status: 400, body: { code: "bad-path" } });
    expect((await put(1_013, "256")).status).toBe(201);
    expect((await put(1_015, "10")).status).toBe(201);
    expect((await put(1_015, "11")).status).toBe(400);
  });
});
