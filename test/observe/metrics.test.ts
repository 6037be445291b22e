import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { createServer } from "@sluice/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { createAll } from "../e2e/raw-http.ts";
import {
  append,
  appended,
  create,
  createdStream,
  describeOnMemory,
  eventually,
  type Fixture,
  nobodyIsLeft,
  serverForTest,
} from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { Scrape } from "./prometheus-text.ts";

async function scrape({ url }: { readonly url: string }): Promise<Scrape> {
  const response = await fetch(`${url}/metrics`);
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  return new Scrape(await response.text());
}

const JSON_TYPE = "application/json";
const TEXT = "text/plain";

describeOnMemory("metrics after some traffic", (engine) => {
  it("match exactly the requests that were made", async () => {
    const fixture = await serverForTest(engine, { longPollMs: 50 });
    const notes = await createdStream(fixture, "notes", TEXT);
    const rooms = await createdStream(fixture, "rooms", JSON_TYPE);
    expect((await create(`${fixture.url}/v1/stream/born`, { "Content-Type": TEXT }, "full")).status).toBe(201);
    for (let i = 0; i < 5; i++) await appended(notes, TEXT, "12345");
    await appended(rooms, JSON_TYPE, "[1,22,333]");
    const producer = { "Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0" };
    for (let i = 0; i < 2; i++) await appended(rooms, JSON_TYPE, "4444", producer);
    expect((await append(`${fixture.url}/v1/stream/nowhere`, TEXT, "x")).status).toBe(404);
    expect((await append(notes, JSON_TYPE, "1")).status).toBe(409);
    for (let i = 0; i < 3; i++) await (await fetch(`${notes}?offset=-1`)).text();
    await (await fetch(`${notes}?offset=now`)).text();
    expect((await fetch(`${notes}?offset=now&live=long-poll`)).status).toBe(204);
    expect((await fetch(`${fixture.url}/v1/stream/nowhere`)).status).toBe(404);
    expect((await fetch(`${fixture.url}/v1/stream/born`, { method: "DELETE" })).status).toBe(204);
    const live = await fetch(`${notes}?offset=now&live=sse`);

    const found = await scrape(fixture);
    expect(found.value("sluice_appends_total", { outcome: "appended" })).toBe(7);
    expect(found.value("sluice_appends_total", { outcome: "duplicate" })).toBe(1);
    expect(found.value("sluice_appends_total", { outcome: "refused" })).toBe(2);
    expect(found.value("sluice_messages_total")).toBe(1 + 5 + 3 + 1);
    expect(found.value("sluice_message_bytes_total")).toBe(4 + 5 * 5 + 6 + 4);
    expect(found.value("sluice_reads_total", { kind: "catch-up" })).toBe(4);
    expect(found.value("sluice_reads_total", { kind: "long-poll" })).toBe(1);
    expect(found.value("sluice_reads_total", { kind: "sse" })).toBe(1);
    expect(found.value("sluice_streams_created_total")).toBe(3);
    expect(found.value("sluice_streams_deleted_total")).toBe(1);
    expect(found.value("sluice_live_readers", { kind: "sse" })).toBe(1);
    expect(found.value("sluice_live_readers", { kind: "long-poll" })).toBe(0);
    expect(found.value("sluice_watched_streams")).toBe(1);
    expect(found.sum("sluice_http_requests_total", { method: "POST", status: "2xx" })).toBe(8);
    expect(found.sum("sluice_http_requests_total", { method: "POST", status: "4xx" })).toBe(2);
    expect(found.sum("sluice_http_requests_total", { method: "PUT", status: "2xx" })).toBe(3);
    expect(found.sum("sluice_http_requests_total", { method: "GET", status: "4xx" })).toBe(1);
    expect(found.sum("sluice_http_requests_total", { method: "DELETE", status: "2xx" })).toBe(1);
    expect(found.sum("sluice_http_requests_total")).toBe(3 + 10 + 4 + 1 + 1 + 1 + 1);
    // Neither the long-poll that waited nor the open SSE.
    expect(found.sum("sluice_http_request_seconds_count")).toBe(3 + 10 + 4 + 1 + 1);
    // The SSE and the scrape itself.
    expect(found.value("sluice_http_requests_active")).toBe(2);
    expect(found.value("sluice_http_received_bytes_total")).toBe(4 + 5 * 5 + 10 + 2 * 4 + 1 + 1);
    expect(found.value("sluice_ready")).toBe(1);
    expect(found.value("sluice_writable")).toBe(1);
    expect(found.value("sluice_build_info", { engine })).toBe(1);
    // Three creations, seven appends, one deletion; a refused request commits nothing.
    expect(found.value("sluice_commits_total")).toBe(11);
    expect(found.value("sluice_conflicts_total")).toBe(0);
    expect(found.value("sluice_commit_batch_size_sum")).toBe(11);
    await eventually(async () => expect((await scrape(fixture)).value("sluice_streams")).toBe(2));

    await live.body!.cancel();
    await nobodyIsLeft(fixture);
    await eventually(async () => {
      const after = await scrape(fixture);
      expect(after.value("sluice_live_ended_total", { reason: "gone" })).toBe(1);
      expect(after.value("sluice_live_readers", { kind: "sse" })).toBe(0);
      expect(after.value("sluice_http_requests_active")).toBe(1);
    });
  });

  it("count a reader of a channel as one, and not as a long-poll", async () => {
    const fixture = await serverForTest(engine);
    const events = await fetch(`${fixture.url}/v1/default/channels/a/events?wait=true`);
    const found = await scrape(fixture);
    expect(found.value("sluice_channel_readers")).toBe(1);
    expect(found.value("sluice_live_readers", { kind: "long-poll" })).toBe(0);
    expect(found.value("sluice_live_readers", { kind: "sse" })).toBe(0);
    await events.body!.cancel();
  });

  it("keep the same label sets whatever clients send", async () => {
    const fixture = await serverForTest(engine);
    const size = 25;
    const methods = ["PURGE", "MKCOL", "PATCH", "REPORT", "SEARCH", "LINK"];
    const storm = async (from: number) => {
      await Promise.all(
        Array.from({ length: 25 }, async (_, lane) => {
          for (let i = from + lane; i < from + size; i += 25) {
            const url = `${fixture.url}/v1/project-${i}/stream/secret-${i}`;
            await (await create(url, { "Content-Type": TEXT }, `payload-${i}`)).text();
            await (await fetch(`${url}?offset=-1&token=secret-${i}`)).text();
            await (await fetch(url, { method: methods[i % methods.length]! })).text();
            await (await fetch(`${fixture.url}/secret-${i}`)).text();
            await (await fetch(`${fixture.url}/v1/secret-${i}!/stream/x`)).text();
          }
        }),
      );
    };
    await storm(0);
    const sets = (found: Scrape) => found.all().map(({ name, labels }) => name + JSON.stringify(labels));
    // The route of the scrape itself is counted from the second scrape on.
    await scrape(fixture);
    const first = await scrape(fixture);
    await storm(size);
    const second = await scrape(fixture);
    expect(second.sum("sluice_http_requests_total", { method: "PUT", status: "2xx" })).toBe(2 * size);
    expect(second.sum("sluice_http_requests_total", { method: "other", status: "4xx" })).toBeGreaterThan(size);
    const untilCounted = sets(second).filter((set) => !set.startsWith("sluice_streams{"));
    expect(untilCounted).toEqual(sets(first).filter((set) => !set.startsWith("sluice_streams{")));
    expect(sets(second).length).toBeLessThan(1_000);
    expect(sets(second).join("\n")).not.toMatch(/secret|payload|project-|MKCOL/);
    await eventually(async () => expect((await scrape(fixture)).value("sluice_streams")).toBe(2 * size));
  });
});

describe("metrics", () => {
  it("on disk show how far the store lags, the size of a batch, and the time of a flush", async () => {
    const fixture = await serverForTest("disk");
    const url = await createdStream(fixture, "a", TEXT);
    await Promise.all(Array.from({ length: 50 }, () => appended(url, TEXT, "x".repeat(1_000))));
    const found = await scrape(fixture);
    expect(found.value("sluice_journal_batch_size_sum")).toBe(found.value("sluice_commits_total"));
    expect(found.value("sluice_commit_batch_size_sum")).toBe(51);
    const flushes = found.value("sluice_journal_fsync_seconds_count");
    expect(flushes).toBeGreaterThanOrEqual(found.value("sluice_journal_batch_size_count"));
    expect(found.value("sluice_journal_fsync_seconds_sum")).toBeGreaterThan(0);
    expect(found.value("sluice_journal_bytes_total")).toBeGreaterThan(50_000);
    await eventually(async () => expect((await scrape(fixture)).value("sluice_journal_lag_bytes")).toBe(0));
  });

  it("count the streams of an earlier process", async () => {
    const { dir, remove } = temporaryDir();
    onTestFinished(remove);
    const first = await createServer({ port: 0, data: dir, log: false });
    const addresses = Array.from({ length: 1_201 }, (_, i) => `/v1/p${i % 2}/stream/s${i}`);
    await createAll(first.port, addresses);
    await first.close();
    const second = await createServer({ port: 0, data: dir, log: false });
    onTestFinished(() => second.close());
    await eventually(async () => expect((await scrape(second)).value("sluice_streams")).toBe(1_201));
    await create(`${second.url}/v1/stream/one-more`);
    expect((await scrape(second)).value("sluice_streams")).toBe(1_202);
  });

  it("name the reason why live readers were disconnected", async () => {
    const fixture = await serverForTest("memory", { tail: { sseMs: 50 } });
    const url = await createdStream(fixture, "a", TEXT);
    await (await fetch(`${url}?offset=now&live=sse`)).text();
    const closing = fetch(`${url}?offset=now&live=sse`).then((response) => response.text());
    await fetch(url, { method: "POST", headers: { "Stream-Closed": "true" } });
    await closing;
    await eventually(async () => {
      const found = await scrape(fixture);
      const [time, stream] = ["time", "stream"].map((reason) => found.value("sluice_live_ended_total", { reason }));
      expect(time! + stream!).toBe(2);
      expect(time).toBeGreaterThanOrEqual(1);
    });
  });

  it("of two servers in one process are separate", async () => {
    const [one, other] = [await serverForTest("memory"), await serverForTest("memory")];
    await createdStream(one, "a", TEXT);
    const created = async (fixture: Fixture) => (await scrape(fixture)).value("sluice_streams_created_total");
    expect([await created(one), await created(other)]).toEqual([1, 0]);
    expect(new Scrape(await one.server.metrics()).value("sluice_streams_created_total")).toBe(1);
  });

  it("count how wakes were taken", async () => {
    const answers = [503, 200];
    const hook = createHttpServer((_, outgoing) => outgoing.writeHead(answers.shift() ?? 200).end('{"done":true}'));
    await new Promise<void>((resolve) => hook.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void hook.close());
    const fixture = await serverForTest("memory");
    const webhook = { url: `http://127.0.0.1:${(hook.address() as AddressInfo).port}/` };
    const subscription = `${fixture.url}/v1/stream/__ds/subscriptions/s`;
    const config = JSON.stringify({ type: "webhook", pattern: "a", webhook });
    expect((await create(subscription, { "Content-Type": JSON_TYPE }, config)).status).toBe(201);
    await createdStream(fixture, "a", TEXT);
    await appended(`${fixture.url}/v1/stream/a`, TEXT, "x");
    await eventually(async () => {
      const found = await scrape(fixture);
      expect(found.value("sluice_wake_attempts_total", { outcome: "failed" })).toBe(1);
      expect(found.value("sluice_wake_attempts_total", { outcome: "done" })).toBe(1);
      expect(found.value("sluice_wake_subscriptions")).toBe(1);
      expect(found.value("sluice_wake_attempts_active")).toBe(0);
    });
  });

  it("are served to GET and HEAD only", async () => {
    const { url } = await serverForTest("memory");
    const refused = await fetch(`${url}/metrics`, { method: "POST" });
    expect([refused.status, refused.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
    expect((await fetch(`${url}/metrics`, { method: "HEAD" })).status).toBe(200);
  });

  it("count bytes that were no request", async () => {
    const fixture = await serverForTest("memory");
    await rawLine(fixture.port, "this is not http\r\n\r\n");
    await rawLine(fixture.port, "CONNECT example.com:1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const found = await scrape(fixture);
    expect(found.value("sluice_http_malformed_total")).toBe(2);
  });
});

/** Sends bytes and waits until the server has closed the connection. */
async function rawLine(port: number, text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    socket.on("error", reject);
    socket.on("close", () => resolve());
    socket.resume();
  });
}
