/** The handshake of Live through a real server, on every engine: subscribe on one node, connect to another, catch up after a restart. */
import { createServer } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { createdStream, describeOnEngines, describeOnStores, eventually, serverForTest } from "../e2e/server.ts";
import { SseClient } from "../e2e/sse-client.ts";
import { temporaryDir } from "../support/disk.ts";
import { sharedRedis } from "../support/shared-redis.ts";

const JSON_TYPE = "application/json";

async function ask(url: string, method: string, path: string, body?: unknown) {
  const response = await fetch(`${url}/v1/${path}`, {
    method,
    headers: { "content-type": JSON_TYPE },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  expect(response.status, `${method} ${path}: ${text}`).toBeLessThan(300);
  return text === "" ? undefined : JSON.parse(text);
}

const pushed = ({ events }: SseClient) =>
  events.map(({ data }) => JSON.parse(data)).filter(({ type }: { type: string }) => type === "data");

describeOnEngines("Live", (engine) => {
  it("pushes to a connection what is subscribed before and after it, and stores what its client says", async () => {
    const fixture = await serverForTest(engine);
    const { url } = fixture;
    for (const stream of ["live-a", "live-b"]) await createdStream(fixture, stream, JSON_TYPE);
    const { sessionId, token } = await ask(url, "POST", "sessions");
    await ask(url, "POST", "subscriptions", { sessionId, streamId: "live-a" });
    const client = await SseClient.open(`${url}/v1/live/${sessionId}?token=${token}`);
    await eventually(() => expect(client.events[0]?.data).toContain("hello"));
    const { epoch } = await ask(url, "POST", "subscriptions", { sessionId, streamId: "live-b" });
    for (const stream of ["live-a", "live-b"]) await ask(url, "POST", `stream/${stream}`, [stream]);
    await eventually(() =>
      expect(
        pushed(client)
          .map(({ payload }) => payload)
          .sort(),
      ).toEqual(["live-a", "live-b"]),
    );
    const lastOffset = pushed(client).find(({ streamId }) => streamId === "live-b").offset;
    await ask(url, "POST", "heartbeat", { sessionId, offsets: [{ streamId: "live-b", lastOffset, epoch }] });
    const offsets = await ask(url, "GET", `session-offsets/${sessionId}`);
    expect(offsets).toContainEqual({ streamId: "live-b", lastOffset, epoch });
    await ask(url, "DELETE", "stream/live-a");
    await eventually(() => expect(client.events.at(-1)?.data).toContain('"gone"'));
    client.close();
  });
});

describeOnStores("Live", (engine) => {
  it("misses nothing over a restart: the pointer says where to read on, and the new connection pushes", async () => {
    const directory = temporaryDir();
    onTestFinished(directory.remove);
    const place = engine === "redis" ? { redis: sharedRedis() } : { data: directory.dir };
    const options = { port: 0, log: false, drainMs: 2_000, ...place } as const;
    const first = await createServer(options);
    await ask(first.url, "PUT", "stream/doc");
    const { sessionId } = await ask(first.url, "POST", "sessions");
    await ask(first.url, "POST", "subscriptions", { sessionId, streamId: "doc" });
    const before = await SseClient.open(`${first.url}/v1/live/${sessionId}`);
    await ask(first.url, "POST", "stream/doc", [1]);
    await eventually(() => expect(pushed(before)).toHaveLength(1));
    await ask(first.url, "POST", "heartbeat", {
      sessionId,
      offsets: [{ streamId: "doc", lastOffset: pushed(before)[0].offset }],
    });
    await ask(first.url, "POST", "stream/doc", [2]);
    await first.close();
    expect(await before.untilEnded()).toBe("end");
    expect(before.events.at(-1)?.data).toContain('"draining"');
    const second = await createServer(options);
    onTestFinished(() => second.close());
    const after = await SseClient.open(`${second.url}/v1/live/${sessionId}`);
    await eventually(() => expect(after.events[0]?.data).toContain("hello"));
    const [{ lastOffset }] = await ask(second.url, "GET", `session-offsets/${sessionId}`);
    expect(await ask(second.url, "GET", `stream/doc?offset=${lastOffset}`)).toEqual([2]);
    await ask(second.url, "POST", "stream/doc", [3]);
    await eventually(() => expect(pushed(after).map(({ payload }) => payload)).toEqual([3]));
    after.close();
  });
});

it("two nodes over one Redis: a subscription and an append on one reach a connection on the other, and the newest connection stays", async () => {
  const options = { port: 0, redis: sharedRedis(), log: false, drainMs: 2_000 } as const;
  const [here, there] = await Promise.all([createServer(options), createServer(options)]);
  onTestFinished(async () => {
    await here.close();
    await there.close();
  });
  await ask(here.url, "PUT", "stream/doc");
  const { sessionId, token } = await ask(here.url, "POST", "sessions");
  const first = await SseClient.open(`${there.url}/v1/live/${sessionId}?token=${token}`);
  await eventually(() => expect(first.events[0]?.data).toContain("hello"));
  await ask(here.url, "POST", "subscriptions", { sessionId, streamId: "doc", presence: true });
  await ask(here.url, "POST", "stream/doc", [1]);
  await eventually(() => expect(pushed(first).map(({ payload }) => payload)).toEqual([1]));
  await eventually(async () => expect((await ask(here.url, "GET", "presence/doc")).members).toHaveLength(1));
  const second = await SseClient.open(`${here.url}/v1/live/${sessionId}`);
  expect(await first.untilEnded()).toBe("end");
  expect(first.events.at(-1)?.data).toContain('"displaced"');
  await ask(there.url, "POST", "stream/doc", [2]);
  await eventually(() => expect(pushed(second).map(({ payload }) => payload)).toEqual([2]));
  second.close();
});
