/** Groups as operators see and move them, through a real server: what is behind, what is held, dead letters that go back. */
import { expect, it } from "vitest";
import { createdStream, eventually } from "../e2e/server.ts";
import { Consumer, groupServer } from "./consumer.ts";

const JSON_TYPE = { "content-type": "application/json" };
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

it("a declared group misses nothing that retention would have taken before its first consumer", async () => {
  const { fixture, url, append, admin } = await groupServer();
  const short = { ...JSON_TYPE, "stream-max-messages": "2" };
  const create = (path: string, more = {}) =>
    fetch(`${fixture.url}/v1/stream/${path}`, { method: "PUT", headers: { ...short, ...more } });
  await create("held/before");
  await append("held/before", "old");
  for (const mode of ["share", "queue"]) {
    expect((await admin("PUT", "/g", { filter: "held/#", mode, from: "latest" })).status).toBe(201);
  }
  await create("held/after");
  await create("held/topic", { "stream-shards": "2" });
  for (const i of numbers(10)) for (const path of ["before", "after", "topic"]) await append(`held/${path}`, i);
  // Before the first consumer an operator sees already what will have to be processed.
  for (const mode of ["share", "queue"]) {
    const { body } = await admin("GET", `/g?mode=${mode}`);
    expect(body).toMatchObject({ source: "stored", leader: null, lag: 30, oldestUnackedMs: expect.any(Number) });
  }
  for (const topic of ["$share/g/held/#", "$queue/g/held/#"]) {
    const a = (await Consumer.open(url, "a")).subscribe(topic);
    await eventually(() => expect(a.payloads).toHaveLength(30));
    expect(a.of("gap")).toEqual([]);
    expect(a.payloads).not.toContain("old");
    a.socket.terminate();
  }
});

it("a deleted group holds nothing any more", async () => {
  const { fixture, append, admin } = await groupServer();
  await fetch(`${fixture.url}/v1/stream/s`, { method: "PUT", headers: { ...JSON_TYPE, "stream-max-messages": "2" } });
  await admin("PUT", "/g", { filter: "s", mode: "share" });
  for (const i of numbers(5)) await append("s", i);
  const kept = async () => ((await (await fetch(`${fixture.url}/v1/stream/s?offset=-1`)).json()) as unknown[]).length;
  expect(await kept()).toBe(5);
  expect((await admin("DELETE", "/g")).status).toBe(204);
  await append("s", 5);
  expect(await kept()).toBe(2);
});

it("the lag, what is in flight and the oldest message are told per group, stream and member, and in the metrics", async () => {
  const { fixture, url, append, admin } = await groupServer();
  for (const path of ["o/1", "o/2"]) await createdStream(fixture, path, "application/json");
  const share = (await Consumer.open(url, "a", false)).subscribe("$share/g/o/#", { from: "earliest", credit: 3 });
  await share.next("granted", 2);
  await append("o/1", 1, 2, 3, 4, 5);
  await share.next("message", 3);
  const { offset, epoch, stream } = share.of("message")[0]!;
  share.send({ type: "ack", id: "s", stream, offset, epoch });
  await share.next("acked");
  const backlog = { lag: 4, pending: 3, oldestUnackedMs: expect.any(Number) };
  const idle = { lag: 0, pending: 0, oldestUnackedMs: null };
  await eventually(async () => {
    expect((await admin("GET", "/g?mode=share")).body).toMatchObject({
      source: "leader",
      ...backlog,
      members: [{ id: "a", streams: ["o/1", "o/2"], ...backlog }],
      streams: [
        { stream: "o/1", borrower: "a", status: "granted", ...backlog },
        { stream: "o/2", ...idle },
      ],
    });
  });
  await admin("PUT", "/g", { filter: "o/#", mode: "queue", from: "earliest" });
  const queue = (await Consumer.open(url, "b", false)).subscribe("$queue/g/o/#", { credit: 3 });
  await queue.next("message", 3);
  // The second message, out of order: the first one is the oldest still.
  const second = queue.of("message")[1]!;
  queue.send({ type: "ack", id: "s", stream: second.stream, offset: second.offset, lease: second.lease });
  await queue.next("acked");
  await queue.next("message", 4);
  await eventually(async () => {
    expect((await admin("GET", "/g?mode=queue")).body).toMatchObject({
      ...backlog,
      members: [{ id: "b", streams: [], pending: 3, oldestUnackedMs: expect.any(Number) }],
      streams: [{ stream: "o/1", borrower: null, ...backlog }, { stream: "o/2" }],
    });
  });
  await eventually(async () => {
    const text = await fixture.server.metrics();
    const gauge = (name: string) => Number(new RegExp(`^sluice_group_${name} (\\S+)$`, "m").exec(text)?.[1]);
    expect([gauge("lag_messages"), gauge("greatest_lag_messages"), gauge("pending_messages")]).toEqual([8, 4, 6]);
    expect(gauge("oldest_unacked_seconds")).toBeGreaterThan(0);
  });
});

it("dead letters go back to their streams once, and those whose stream is closed stay", async () => {
  const { fixture, url, append, admin } = await groupServer();
  for (const path of ["jobs/1", "jobs/2"]) await createdStream(fixture, path, "application/json");
  const declared = { filter: "jobs/#", mode: "queue", maxAttempts: 1, deadLetter: "dead" };
  await admin("PUT", "/w", declared);
  const refuser = (await Consumer.open(url, "a", false)).subscribe("$queue/w/jobs/#");
  await refuser.next("subscribed");
  await append("jobs/1", "x", "y");
  await append("jobs/2", "z");
  await refuser.next("message", 3);
  for (const { stream, offset, lease } of refuser.of("message")) {
    refuser.send({ type: "nack", id: "s", stream, offset, lease });
  }
  const read = async (path: string) => {
    const answer = await fetch(`${fixture.url}/v1/stream/${path}?format=envelope`);
    return (await answer.json()) as { readonly payload: unknown; readonly attributes?: object }[];
  };
  await eventually(async () => expect(await read("dead")).toHaveLength(3));
  refuser.socket.terminate();
  // A letter that a client has made up reaches no stream beyond the filter.
  await createdStream(fixture, "other", "application/json");
  const attributes = JSON.stringify({ "dead-stream": "other", "dead-group": "queue/w/jobs/#" });
  await fetch(`${fixture.url}/v1/stream/dead`, {
    method: "POST",
    headers: { ...JSON_TYPE, "message-attributes": attributes },
    body: '["forged"]',
  });
  await fetch(`${fixture.url}/v1/stream/jobs/2`, { method: "POST", headers: { "stream-closed": "true" } });
  const redrive = () => admin("POST", "/w/redrive", {});
  expect(await redrive()).toEqual({ status: 200, body: { redriven: 2, stayed: 1, more: false } });
  expect(await redrive()).toEqual({ status: 200, body: { redriven: 0, stayed: 0, more: false } });
  expect((await read("jobs/1")).map(({ payload }) => payload)).toEqual(["x", "y", "x", "y"]);
  expect((await read("jobs/1"))[2]!.attributes).toBeUndefined();
  expect(await read("other")).toEqual([]);
  const worker = (await Consumer.open(url, "b")).subscribe("$queue/w/jobs/#");
  await eventually(() => expect([...worker.payloads].sort()).toEqual(["x", "y"]));
  await admin("PUT", "/none", { filter: "jobs/#", mode: "queue" });
  expect((await admin("POST", "/none/redrive", {})).status).toBe(400);
});
