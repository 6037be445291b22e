/** The rows of the table of metric events, as a real server process shows them on `/metrics`. */
import { expect } from "vitest";
import { eventually } from "../support/eventually.ts";
import { Api } from "./api.ts";
import { type ProcessRow, row } from "./process.ts";
import { subscribers } from "./stage.ts";

/** How often something was told, by kind. */
export async function told(url: string): Promise<Record<string, number>> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const lines = text.matchAll(/^sluice_session_events_total\{event="(\w+)"[^}]*} (\d+)$/gm);
  return Object.fromEntries([...lines].map(([, event, count]) => [event, Number(count)]));
}

type Act = (api: Api, stream: string) => Promise<unknown>;

/** What counts these events makes all of them grow: in the first process, and in the next, which begins at zero. */
function metricRow(category: string, events: readonly string[], act: Act): ProcessRow<void> {
  const play = async (url: string, stream: string) => {
    const api = new Api(url);
    const was = await told(url);
    await api.create(stream);
    await act(api, stream);
    await eventually(async () => {
      const now = await told(url);
      for (const event of events) expect(now[event], event).toBeGreaterThan(was[event]!);
    });
  };
  return row(
    `${category}: ${events.join(", ")}`,
    (url) => play(url, `metric-${category}-1`),
    (url) => play(url, `metric-${category}-2`),
  );
}

/** Neither stream nor session is named, only how often something was. */
async function namesNobody(url: string, stream: string): Promise<void> {
  const api = new Api(url);
  await api.create(stream);
  const [session] = await subscribers(api, stream, 1);
  await api.published(stream, "1");
  const text = await (await fetch(`${url}/metrics`)).text();
  expect(text).toMatch(/^sluice_fanout_copies_total\{outcome="copied"\} [1-9]/m);
  expect(text).not.toContain(session);
  expect(text).not.toContain(stream);
}

export const METRIC_ROWS = [
  row(
    "Prometheus has the counts without any id",
    (url) => namesNobody(url, "secret-stream-1"),
    (url) => namesNobody(url, "secret-stream-2"),
  ),
  metricRow("fanout", ["fanout", "fanout_queued"], async (api, stream) => {
    await subscribers(api, stream, 3);
    await api.published(stream, "1");
    await subscribers(api, stream, 1);
    await api.published(stream, "2");
  }),
  metricRow("subscription", ["subscribe", "unsubscribe"], async (api, stream) => {
    const [session] = await subscribers(api, stream, 1);
    await api.unsubscribe(session!, stream);
  }),
  metricRow("session", ["session_create", "session_touch", "session_delete"], async (api, stream) => {
    const [session] = await subscribers(api, stream, 1);
    await api.touch(session!);
    await api.delete(session!);
  }),
  metricRow("publish", ["publish"], (api, stream) => api.published(stream, "1")),
  metricRow("publish_error", ["publish_error"], async (api, stream) =>
    expect((await api.publish(`${stream}-not-made`, "1")).status).toBe(404),
  ),
  metricRow("http", ["http"], (api) => api.session("00000000-0000-4000-8000-000000000000")),
];
