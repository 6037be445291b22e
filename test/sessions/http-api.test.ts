/** The HTTP API of sessions, row by row, the headers of a publish, and what ids are. */
import type { ServerOptions } from "@sluice/server";
import { describe, expect, it } from "vitest";
import { SseClient } from "../e2e/sse-client.ts";
import { askOverSocket } from "../support/ask.ts";
import { Api, fanoutOf } from "./api.ts";
import { type Stage, stage, subscribers, uuid } from "./stage.ts";

/** Every request of this file passes the door. */
async function overHttp(options: ServerOptions = {}): Promise<Stage> {
  const on = await stage("memory", options);
  return Object.assign(on, { api: new Api(on.url, "default", undefined, askOverSocket) });
}

describe("HTTP API", () => {
  it("POST /v1/:project/subscribe { sessionId, streamId } subscribes", async () => {
    const { url } = await overHttp();
    const api = new Api(url, "my_app-1", undefined, askOverSocket);
    await api.create("s");
    const sessionId = uuid();
    const answer = await api.subscribe(sessionId, "s");
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("application/json");
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(answer.body.sessionStreamPath).toBe(`/v1/my_app-1/stream/session:${sessionId}`);
    expect((await api.call("GET", `/stream/session:${sessionId}`)).status).toBe(200);
  });

  it("DELETE /v1/:project/unsubscribe { sessionId, streamId } unsubscribes", async () => {
    const { api } = await overHttp();
    await api.create("s");
    const [session] = await subscribers(api, "s", 1);
    const answer = await api.unsubscribe(session!, "s");
    expect([answer.status, answer.text]).toEqual([204, ""]);
    // Also when it is not subscribed, and when there is no such stream; only the session must be there.
    expect((await api.unsubscribe(session!, "s")).status).toBe(204);
    expect((await api.unsubscribe(session!, "none")).status).toBe(204);
    expect(await api.unsubscribe(uuid(), "s")).toMatchObject({ status: 404, body: { code: "session-not-found" } });
  });

  it("POST /v1/:project/publish/:streamId takes a raw payload of any content type", async () => {
    const { api } = await overHttp();
    for (const [stream, type, body] of [
      ["json", "application/json", '{"a":[1]}'],
      ["text", "text/plain", "héllo"],
      ["bin", "image/png", "\u0000\u0001"],
      ["a/b.c:d-e_f", "application/json", "[1,2]"],
    ] as const) {
      await api.create(stream, type);
      const [session] = await subscribers(api, stream, 1);
      const answer = await api.publish(stream.replace("/", "%2F"), body, type);
      expect([answer.status, answer.text]).toEqual([204, ""]);
      expect(answer.headers.get("stream-next-offset")).toMatch(/_/);
      const inbox = await api.inbox(session!);
      expect(inbox.text).toBe(stream === "json" ? `[${body}]` : body);
      expect(inbox.headers.get("content-type")).toBe(type);
    }
    expect(await api.publish("none", "1")).toMatchObject({ status: 404, body: { code: "stream-not-found" } });
    expect(await api.publish("json", "1", "text/plain")).toMatchObject({ status: 409 });
    expect(await api.publish("json", "{")).toMatchObject({ status: 400 });
  });

  it("a publish is an append: producer headers, message metadata and closing work as on the stream", async () => {
    const { api } = await overHttp();
    await api.create("s");
    const [session] = await subscribers(api, "s", 1);
    const producer = { "Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0" };
    expect((await api.publish("s", "1", "application/json", producer)).status).toBe(200);
    const again = await api.publish("s", "1", "application/json", producer);
    expect(again.status).toBe(204);
    expect(fanoutOf(again)).toMatchObject({ count: 1, failures: 0 });
    const meta = { "Message-Id": "m1", "Message-Key": "k", "Message-Attributes": '{"a":"b"}' };
    await api.publish("s", "2", "application/json", { ...meta, "Stream-Closed": "true" });
    expect((await api.publish("s", "3")).status).toBe(409);
    expect(await api.messages(session!)).toEqual([1, 2]);
    const { body } = await api.inbox(session!, "?offset=-1&format=envelope");
    expect(body[1]).toMatchObject({ payload: 2, id: "m1", key: "k", attributes: { a: "b" } });
  });

  it("GET /v1/:project/session/:sessionId shows the session", async () => {
    const { api } = await overHttp();
    await api.create("s");
    const [session] = await subscribers(api, "s", 1);
    expect(await api.session(session!)).toMatchObject({ status: 200, body: { sessionId: session } });
    // An id is the same however it is written.
    expect((await api.session(session!.toUpperCase())).body.sessionId).toBe(session);
    const unknown = uuid();
    expect(await api.session(unknown)).toMatchObject({
      status: 404,
      body: { code: "session-not-found", detail: `there is no session ${unknown}` },
    });
  });

  it("POST /v1/:project/session/:sessionId/touch moves the expiry", async () => {
    const { api, now } = await overHttp();
    await api.create("s");
    const [session] = await subscribers(api, "s", 1);
    expect((await api.touch(session!)).body).toEqual({ sessionId: session, expiresAt: now() + 1_800_000 });
    expect(await api.touch(uuid())).toMatchObject({ status: 404, body: { code: "session-not-found" } });
  });

  it("DELETE /v1/:project/session/:sessionId deletes the session", async () => {
    const { api } = await overHttp();
    await api.create("s");
    const [session] = await subscribers(api, "s", 1);
    const answer = await api.delete(session!);
    expect([answer.status, answer.text]).toEqual([204, ""]);
    expect((await api.session(session!)).status).toBe(404);
    expect(await api.delete(session!)).toMatchObject({ status: 404, body: { code: "session-not-found" } });
  });

  it("GET /health answers without authentication", async () => {
    const secret = "a secret that is long enough for it";
    const { url, api } = await overHttp({ projects: { default: { secrets: [secret] } } });
    const response = await fetch(`${url}/health`);
    expect([response.status, await response.json()]).toEqual([200, { status: "ok" }]);
    expect((await api.session(uuid())).status).toBe(401);
  });

  it("another method is refused, and the answer lists the allowed ones", async () => {
    const { api } = await overHttp();
    for (const [method, path, allow] of [
      ["GET", "/subscribe", "POST, OPTIONS"],
      ["POST", "/unsubscribe", "DELETE, OPTIONS"],
      ["GET", "/publish/s", "POST, OPTIONS"],
      ["PUT", `/session/${uuid()}`, "GET, HEAD, DELETE, OPTIONS"],
      ["GET", `/session/${uuid()}/touch`, "POST, OPTIONS"],
    ] as const) {
      const { status, headers } = await api.call(method, path);
      expect([status, headers.get("allow")], path).toEqual([405, allow]);
    }
    expect((await api.call("POST", `/session/${uuid()}/else`)).status).toBe(404);
  });

  it("a project id that does not match ^[a-zA-Z0-9_-]+$ is refused", async () => {
    const { url } = await overHttp();
    for (const project of ["a.b", "a%20b", "ä"]) {
      const answer = await new Api(url, project, undefined, askOverSocket).subscribe(uuid(), "s");
      expect(answer, project).toMatchObject({ status: 400, body: { code: "bad-project" } });
    }
  });

  it("a session id that is not a UUID is refused", async () => {
    const { api } = await overHttp();
    for (const id of ["user-alice", "", "6f1c1f5e2a5b4c9e9d5e0a1b2c3d4e5f", `${uuid()}0`, 7, null, undefined]) {
      for (const [method, path] of [
        ["POST", "/subscribe"],
        ["DELETE", "/unsubscribe"],
      ] as const) {
        const answer = await api.json(method, path, { sessionId: id, streamId: "s" });
        expect(answer).toMatchObject({ status: 400, body: { code: "bad-body", detail: "sessionId must be a UUID" } });
      }
    }
    for (const id of ["user-alice", "%zz", `${uuid()}0`]) {
      for (const answer of [await api.session(id), await api.touch(id), await api.delete(id)]) {
        expect(answer).toMatchObject({ status: 400, body: { detail: "a session id must be a UUID" } });
      }
    }
  });

  it("a stream id has letters, digits, hyphens, underscores, colons, periods and slashes; any other is refused", async () => {
    const { api } = await overHttp();
    await api.create("Ab9-_:./x");
    await api.subscribed(uuid(), "Ab9-_:./x");
    for (const streamId of ["a b", "ä", "", "a?b", "a#", "x".repeat(1_025), 7, undefined]) {
      const answer = await api.json("POST", "/subscribe", { sessionId: uuid(), streamId });
      expect(answer, String(streamId)).toMatchObject({ status: 400, body: { code: "bad-body" } });
      expect(answer.body.detail).toMatch(/^streamId must be a stream's path/);
    }
    expect(await api.publish("a%20b", "1")).toMatchObject({ status: 400, body: { code: "bad-path" } });
    expect(await api.subscribe(uuid(), "a/../b")).toMatchObject({ status: 400, body: { code: "bad-path" } });
  });

  it("a malformed body is refused, and the answer names the field", async () => {
    const { api } = await overHttp();
    const [sessionId, streamId] = [uuid(), "s"];
    for (const [body, detail] of [
      ["{", "the body must be JSON"],
      ["[]", "the body must be a JSON object"],
      [JSON.stringify({ sessionId, streamId, more: 1 }), "more is not a field that is known here"],
      [JSON.stringify({ sessionId, streamId, format: "xml" }), "format must be raw or envelope"],
      [JSON.stringify({ sessionId, streamId, from: 7 }), "from must be an offset, -1 or now"],
      [JSON.stringify({ sessionId, streamId, from: "x" }), 'from must be an offset, -1 or now; got "x"'],
    ] as const) {
      const answer = await api.call("POST", "/subscribe", body, { "Content-Type": "application/json" });
      expect(answer.body, body).toMatchObject({ status: 400, code: "bad-body", detail });
    }
    const large = await api.json("POST", "/subscribe", { sessionId, streamId: "x".repeat(20_000) });
    expect(large).toMatchObject({ status: 413, body: { code: "too-large" } });
    expect(large.body.detail).toContain("16384");
  });
});

describe("Publish response headers", () => {
  it("Stream-Fanout-Count is the number of subscribers", async () => {
    const { api } = await overHttp();
    await api.create("s");
    expect((await api.published("s", "1")).count).toBe(0);
    await subscribers(api, "s", 3);
    expect((await api.published("s", "1")).count).toBe(3);
  });

  it("Stream-Fanout-Successes and Stream-Fanout-Failures count the copies", async () => {
    const { api, core } = await overHttp();
    await api.create("s");
    const sessions = await subscribers(api, "s", 3);
    core.fate = ({ method, id }) => (method === "deliver" && id === sessions[0] ? "refused" : undefined);
    expect(await api.published("s", "1")).toMatchObject({ count: 3, successes: 2, failures: 1 });
    // The one that lags is counted as long as it does.
    expect(await api.published("s", "1")).toMatchObject({ count: 3, successes: 2, failures: 1 });
  });

  it("Stream-Fanout-Mode is inline, queued, circuit-open or skipped", async () => {
    const queued = await overHttp({ fanout: { queueThreshold: 1, breakerFailures: 1 } });
    const skipped = await overHttp({ fanout: { queue: false, maxInline: 1 } });
    for (const { api } of [queued, skipped]) await api.create("s");
    const modes: string[] = [];
    const publish = async ({ api }: typeof queued) => modes.push((await api.published("s", "1")).mode);
    await publish(queued);
    await subscribers(queued.api, "s", 1);
    queued.core.fate = ({ method }) => (method === "deliver" ? "refused" : undefined);
    await publish(queued);
    await publish(queued);
    await subscribers(queued.api, "s", 1);
    await publish(queued);
    await subscribers(skipped.api, "s", 2);
    await publish(skipped);
    expect(modes).toEqual(["inline", "inline", "circuit-open", "queued", "skipped"]);
  });

  it("an append reaches subscribers too, and its answer has no fan-out headers", async () => {
    const { api, until } = await overHttp();
    await api.create("s");
    const [session] = await subscribers(api, "s", 1);
    const answer = await api.call("POST", "/stream/s", "1", { "Content-Type": "application/json" });
    expect([...answer.headers.keys()].filter((name) => name.startsWith("stream-fanout"))).toEqual([]);
    await until(async () => expect(await api.messages(session!)).toEqual([1]));
  });
});

describe("Reading the session stream", () => {
  it("GET /v1/:project/stream/session:<sessionId> reads live and from offsets, as for any stream", async () => {
    const { api } = await overHttp();
    await api.create("s", "text/plain");
    const [session] = await subscribers(api, "s", 1);
    const live = await SseClient.open(`${api.base}/stream/session:${session}?offset=-1&live=sse`);
    await api.published("s", "one ", "text/plain");
    await live.until("the first copy", (sse) => sse.text === "one ");
    await api.published("s", "two", "text/plain");
    await live.until("the second copy", (sse) => sse.text === "one two");
    live.close();
    const first = await api.inbox(session!);
    expect(first.text).toBe("one two");
    const offset = first.headers.get("stream-next-offset")!;
    await api.published("s", " three", "text/plain");
    expect((await api.inbox(session!, `?offset=${offset}`)).text).toBe(" three");
    const waiting = api.inbox(session!, "?offset=now&live=long-poll");
    await api.session(session!);
    await api.published("s", " four", "text/plain");
    expect((await waiting).text).toBe(" four");
  });
});
