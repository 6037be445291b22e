/**
 * The rows of the table of metric events, with all their fields, as a program gets them that embeds the server; in the first process
 * and in the next. What the scheduled clean-up tells is with its rows.
 */
import { expect } from "vitest";
import type { MetricPoint } from "../../packages/server/src/sessions/events.ts";
import { eventually } from "../support/eventually.ts";
import { inline } from "./api.ts";
import { followed, hanging } from "./fault-rows.ts";
import { type FaultRow, faultRow, type On } from "./faulty-process.ts";
import { subscribers, uuid } from "./stage.ts";

const SOME = expect.any(Number);

type Act = (on: On, stream: string) => Promise<void>;

/** The same in both processes, about a stream of its own in each. */
function pointRow(name: string, act: Act): FaultRow<void> {
  const stream = `points-${name.slice(0, name.indexOf(":"))}`;
  return faultRow(
    name,
    (on) => act(on, `${stream}-1`),
    (on) => act(on, `${stream}-2`),
  );
}

const of = (points: readonly MetricPoint[], type: string) => points.filter(({ blobs }) => blobs[2] === type);

async function told({ server }: On, id: string, type: string): Promise<readonly MetricPoint[]> {
  return of(await server.points(id), type);
}

export const POINT_ROWS = [
  pointRow("fanout: fanout, fanout_queued", async (on, stream) => {
    const { sessions } = await followed(on, stream, 2);
    await on.server.copies(stream, "refused", sessions[0]!);
    expect(await on.api.published(stream, "1")).toEqual(inline(2, 1, 1));
    const fanout = (...doubles: number[]) => ({ blobs: [stream, "", "fanout", ""], doubles, indexes: ["fanout"] });
    expect(await told(on, stream, "fanout")).toEqual([fanout(2, SOME, 1, 1)]);
    await on.server.rules(stream);
    await eventually(async () => expect(await on.api.published(stream, "2")).toEqual(inline(2)), 20_000);
    expect(await told(on, stream, "fanout_queued")).toEqual([]);
    await subscribers(on.api, stream, 2);
    // The next process has a higher threshold.
    const { mode } = await on.api.published(stream, "3");
    expect(mode).toBe(on.isNext ? "inline" : "queued");
    await eventually(async () => {
      expect((await told(on, stream, "fanout")).at(-1)).toEqual(fanout(4, SOME, 4, 0));
    }, 20_000);
    const queued = { blobs: [stream, "", "fanout_queued", ""], doubles: [4, 0], indexes: ["fanout"] };
    expect(await told(on, stream, "fanout_queued")).toEqual(on.isNext ? [] : [queued]);
  }),
  pointRow(
    "subscription: subscribe, unsubscribe; blobs are streamId, sessionId, eventType, errorType, doubles count and latencyMs, indexes the category",
    async (on, stream) => {
      const { sessions } = await followed(on, stream, 1);
      await on.api.unsubscribe(sessions[0]!, stream);
      // There is nothing to end any more, and nothing to tell.
      await on.api.unsubscribe(sessions[0]!, stream);
      const point = (type: string, latencyMs: number) => ({
        blobs: [stream, sessions[0]!, type, ""],
        doubles: [1, latencyMs],
        indexes: ["subscription"],
      });
      expect(await on.server.points(stream)).toEqual([point("subscribe", SOME), point("unsubscribe", 0)]);
    },
  ),
  pointRow("session: session_create, session_touch, session_delete", async (on, stream) => {
    const { sessions } = await followed(on, stream, 1);
    const [session] = sessions as [string];
    await on.api.subscribed(session, stream);
    await on.api.touch(session);
    await on.api.delete(session);
    expect((await on.api.touch(session)).status).toBe(404);
    const points = (await on.server.points(session)).filter(({ indexes }) => indexes[0] === "session");
    expect(points).toEqual(
      ["session_create", "session_touch", "session_delete"].map((type) => ({
        blobs: ["", session, type, ""],
        doubles: [1, 0],
        indexes: ["session"],
      })),
    );
  }),
  pointRow("publish: publish, with the number of sessions and how long it took", async (on, stream) => {
    await followed(on, stream, 2);
    await on.server.copies(stream, "stuck");
    const publishing = hanging(on, stream, "1");
    await on.server.underWay(stream, 2);
    await on.server.pass(40);
    await on.server.rules(stream);
    expect(await publishing).toEqual(inline(2));
    const [point, ...others] = await told(on, stream, "publish");
    expect(point).toEqual({ blobs: [stream, "", "publish", ""], doubles: [2, SOME], indexes: ["publish"] });
    expect(point!.doubles[1]).toBeGreaterThanOrEqual(40);
    expect(others).toEqual([]);
  }),
  pointRow("publish_error: publish_error, with what was wrong", async (on, stream) => {
    await on.api.publish(stream, "1");
    await on.api.create(stream);
    await on.api.publish(stream, "{");
    const point = (error: string) => ({
      blobs: [stream, "", "publish_error", error],
      doubles: [1, SOME],
      indexes: ["publish_error"],
    });
    expect(await on.server.points(stream)).toEqual([point("stream-not-found"), point("bad-body")]);
  }),
  pointRow("http: per request, with endpoint, method, status and latency", async (on, stream) => {
    const { api } = on;
    const before = (await on.server.points("http")).length;
    await api.create(stream);
    const session = uuid();
    await api.subscribed(session, stream);
    await api.published(stream, "1");
    await api.session(session);
    await api.touch(session);
    await api.unsubscribe(session, stream);
    await api.delete(session);
    await api.session(session);
    const point = (method: string, endpoint: string, status: number, error = "") => ({
      blobs: [endpoint, method, "http", error],
      doubles: [1, SOME, status],
      indexes: ["http"],
    });
    const wanted = [
      point("POST", "/subscribe", 200),
      point("POST", "/publish", 204),
      point("GET", "/session", 200),
      point("POST", "/session/touch", 200),
      point("DELETE", "/unsubscribe", 204),
      point("DELETE", "/session", 204),
      point("GET", "/session", 404, "session-not-found"),
    ];
    const points = (await on.server.points("http")).slice(before);
    for (const one of wanted) expect(points).toContainEqual(one);
  }),
];
