/** What is told of everything that happens: category, event type and fields, row by row. */
import { expect, it } from "vitest";
import type { MetricPoint } from "../../packages/server/src/sessions/events.ts";
import { describeOnEngines, serverForTest } from "../e2e/server.ts";
import { Api } from "./api.ts";
import { stage, subscribers, uuid } from "./stage.ts";

const of = (points: readonly MetricPoint[], type: string) => points.filter(({ blobs }) => blobs[2] === type);

describeOnEngines("Metric events", (engine) => {
  it("fields: blobs are streamId, sessionId, eventType, errorType; doubles count, latencyMs, values; indexes the category", async () => {
    const { api, points } = await stage(engine);
    await api.create("s");
    const [session] = await subscribers(api, "s", 1);
    const [subscribed] = of(points, "subscribe");
    expect(subscribed).toEqual({
      blobs: ["s", session, "subscribe", ""],
      doubles: [1, expect.any(Number)],
      indexes: ["subscription"],
    });
  });

  it("fanout: fanout, fanout_queued", async () => {
    const { api, points, core, until, registry } = await stage(engine, { fanout: { queueThreshold: 2 } });
    await api.create("s");
    const [failing] = await subscribers(api, "s", 2);
    core.fate = ({ method, id }) => (method === "postStream" && id === failing ? "refused" : undefined);
    await api.published("s", "1");
    expect(of(points, "fanout")).toEqual([
      { blobs: ["s", "", "fanout", ""], doubles: [2, expect.any(Number), 1, 1], indexes: ["fanout"] },
    ]);
    expect(of(points, "fanout_queued")).toEqual([]);
    core.fate = () => undefined;
    await subscribers(api, "s", 1);
    await until(async () => expect((await registry("s"))!.lagging).toEqual([]));
    await api.published("s", "1");
    await until(() => expect(of(points, "fanout")).toHaveLength(2));
    expect(of(points, "fanout_queued")).toEqual([
      { blobs: ["s", "", "fanout_queued", ""], doubles: [3, 0], indexes: ["fanout"] },
    ]);
  });

  it("subscription: subscribe, unsubscribe", async () => {
    const { api, points } = await stage(engine);
    await api.create("s");
    const [session] = await subscribers(api, "s", 1);
    await api.unsubscribe(session!, "s");
    for (const type of ["subscribe", "unsubscribe"]) {
      expect(of(points, type)).toMatchObject([{ blobs: ["s", session, type, ""], indexes: ["subscription"] }]);
    }
  });

  it("session: session_create, session_touch, session_delete, session_expire", async () => {
    const { api, points, pass, sweep } = await stage(engine);
    await api.create("s");
    const [deleted, expired] = await subscribers(api, "s", 2);
    await api.touch(deleted!);
    await api.delete(deleted!);
    pass(1_800_000 * 1.1 + 300_000);
    await sweep();
    const told = points.filter(({ indexes }) => indexes[0] === "session").map(({ blobs }) => [blobs[2], blobs[1]]);
    expect(told.sort()).toEqual(
      [
        ["session_create", deleted],
        ["session_create", expired],
        ["session_delete", deleted],
        ["session_expire", expired],
        ["session_touch", deleted],
      ].sort(),
    );
    expect((await api.touch(uuid())).status).toBe(404);
    expect(of(points, "session_touch")).toHaveLength(1);
  });

  it("cleanup: cleanup_batch", async () => {
    const { api, points, pass, sweep } = await stage(engine);
    await api.create("s");
    await subscribers(api, "s", 1);
    await sweep();
    expect(of(points, "cleanup_batch")).toEqual([]);
    pass(1_800_000 * 1.1 + 300_000);
    await sweep();
    expect(of(points, "cleanup_batch")).toMatchObject([{ indexes: ["cleanup"] }]);
  });

  it("publish: publish", async () => {
    const { api, points, core, pass, until } = await stage(engine);
    await api.create("s");
    await subscribers(api, "s", 2);
    core.fate = ({ method }) => (method === "postStream" ? "stuck" : undefined);
    const publishing = api.published("s", "1");
    await until(() => expect(core.pending).toBe(2), 0);
    pass(40);
    core.release();
    await publishing;
    expect(of(points, "publish")).toEqual([
      { blobs: ["s", "", "publish", ""], doubles: [2, 40], indexes: ["publish"] },
    ]);
  });

  it("publish_error: publish_error, with what was wrong", async () => {
    const { api, points } = await stage(engine);
    await api.create("s");
    await api.publish("none", "1");
    await api.publish("s", "{");
    expect(of(points, "publish_error").map(({ blobs, indexes }) => [...blobs, ...indexes])).toEqual([
      ["none", "", "publish_error", "stream-not-found", "publish_error"],
      ["s", "", "publish_error", "bad-body", "publish_error"],
    ]);
    expect(of(points, "publish")).toEqual([]);
  });

  it("http: one per request, with endpoint, method, status and latency", async () => {
    const { api, points } = await stage(engine);
    await api.create("s");
    const [session] = await subscribers(api, "s", 1);
    await api.published("s", "1");
    await api.session(session!);
    await api.touch(session!);
    await api.unsubscribe(session!, "s");
    await api.delete(session!);
    await api.session(session!);
    const requests = of(points, "http").map(({ blobs, doubles }) => [blobs[1], blobs[0], doubles[2], blobs[3]]);
    expect(requests).toEqual([
      ["POST", "/subscribe", 200, ""],
      ["POST", "/publish", 204, ""],
      ["GET", "/session", 200, ""],
      ["POST", "/session/touch", 200, ""],
      ["DELETE", "/unsubscribe", 204, ""],
      ["DELETE", "/session", 204, ""],
      ["GET", "/session", 404, "session-not-found"],
    ]);
    for (const { indexes, doubles } of of(points, "http")) {
      expect(indexes).toEqual(["http"]);
      expect(doubles[1]).toBeGreaterThanOrEqual(0);
    }
  });

  it("Prometheus has the same counts without any id", async () => {
    const { server, url } = await serverForTest(engine);
    const api = new Api(url);
    await api.create("secret-stream");
    const [session] = await subscribers(api, "secret-stream", 1);
    await api.published("secret-stream", "1");
    const text = await server.metrics();
    const value = (line: string) => Number(new RegExp(`^${line} (\\d+)`, "m").exec(text)?.[1]);
    expect(value('sluice_session_events_total{event="subscribe"}')).toBe(1);
    expect(value('sluice_session_events_total{event="session_create"}')).toBe(1);
    expect(value('sluice_session_events_total{event="publish"}')).toBe(1);
    expect(value('sluice_fanout_copies_total{outcome="copied"}')).toBe(1);
    expect(text).not.toContain(session);
    expect(text).not.toContain("secret-stream");
  });
});
