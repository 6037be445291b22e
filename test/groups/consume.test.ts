/** Groups over their WebSocket, through a real server: members share streams, acknowledge, hand over and resume. */
import { expect, it } from "vitest";
import { createdStream, eventually } from "../e2e/server.ts";
import { Consumer, groupServer as server } from "./consumer.ts";

it("two members share the streams of a filter, and each message goes to one of them", async () => {
  const { fixture, url, append } = await server();
  for (const path of ["o/1", "o/2"]) await createdStream(fixture, path, "application/json");
  const [a, b] = [await Consumer.open(url, "a"), await Consumer.open(url, "b")];
  for (const one of [a, b]) one.subscribe("$share/g/o/#", { from: "earliest" });
  await Promise.all([a.next("granted"), b.next("granted")]);
  await eventually(() => {
    const held = [a, b].map((one) => one.of("granted").length - one.of("revoked").length);
    expect(held).toEqual([1, 1]);
  });
  for (let i = 1; i <= 20; i++) await append(`o/${1 + (i % 2)}`, i);
  await eventually(() => {
    const all = [...a.payloads, ...b.payloads].sort((x, y) => Number(x) - Number(y));
    expect(all).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  });
  expect(a.payloads).toHaveLength(10);
  await a.next("acked");
});

it("a member that goes away hands its streams over, and what was confirmed is not delivered again", async () => {
  const { fixture, url, append, admin } = await server();
  await createdStream(fixture, "o", "application/json");
  expect((await admin("PUT", "/g", { filter: "o", mode: "share" })).status).toBe(201);
  await append("o", 1, 2, 3);
  const a = (await Consumer.open(url, "a", false)).subscribe("$share/g/o", { credit: 2 });
  await a.next("message", 2);
  expect(a.payloads).toEqual([1, 2]);
  const [first] = a.of("message");
  a.send({ type: "ack", id: "s", stream: "o", offset: first!.offset, epoch: first!.epoch });
  expect(await a.next("acked")).toMatchObject({ stream: "o", offset: first!.offset });
  a.socket.terminate();
  const b = (await Consumer.open(url, "b")).subscribe("$shared/g/o");
  await eventually(() => expect(b.payloads).toEqual([2, 3]));
  await eventually(async () => {
    const { body } = await admin("GET", "/g");
    expect(body).toMatchObject({ group: "g", mode: "share", filter: "o", members: [{ id: "b", streams: ["o"] }] });
    expect(body.streams).toMatchObject([{ stream: "o", status: "granted", lag: 0 }]);
  });
  b.send({ type: "unsubscribe", id: "s" });
  await b.next("unsubscribed");
});

it("a member with credit for one message gets those of its streams in turn", async () => {
  const { fixture, url, append } = await server();
  const paths = ["o/1", "o/2", "o/3"];
  for (const path of paths) await createdStream(fixture, path, "application/json");
  for (const path of paths) await append(path, 1, 2, 3);
  const a = (await Consumer.open(url, "a")).subscribe("$share/g/o/#", { from: "earliest", credit: 1 });
  await a.next("message", 9);
  const streams = a.of("message").map(({ stream }) => stream);
  for (let i = 0; i < 9; i += 3) expect(streams.slice(i, i + 3).sort()).toEqual(paths);
});

it("a member that asks for batches gets the messages of a stream in frames together, within its credit", async () => {
  const { fixture, url, append } = await server();
  await createdStream(fixture, "o", "application/json");
  await append("o", 1, 2, 3, 4, 5);
  const asked = { from: "earliest", credit: 3, batch: true };
  const a = (await Consumer.open(url, "a", false)).subscribe("$share/g/o", asked);
  const { messages = [], stream, epoch } = await a.next("messages");
  expect(messages.map(({ payload }) => payload)).toEqual([1, 2, 3]);
  a.send({ type: "ack", id: "s", stream, epoch, offset: messages[2]!.offset });
  expect((await a.next("messages", 2)).messages!.map(({ payload }) => payload)).toEqual([4, 5]);
  a.send({ type: "subscribe", id: "t", topic: "$share/h/o", batch: "yes" });
  expect(await a.next("error")).toMatchObject({ code: "bad-body", detail: expect.stringContaining("batch") });
});

it("a seek delivers again from the new place, and a deleted group begins anew", async () => {
  const { fixture, url, append, admin } = await server();
  await createdStream(fixture, "o", "application/json");
  const a = (await Consumer.open(url, "a")).subscribe("$share/g/o");
  await a.next("granted");
  await append("o", 1, 2);
  await a.next("acked");
  expect((await admin("POST", "/g/seek", { to: "earliest" })).status).toBe(204);
  await eventually(() => expect(a.payloads).toEqual([1, 2, 1, 2]));
  expect((await admin("GET", "")).body).toEqual({ groups: [{ group: "g", mode: "share", filter: "o" }] });
  expect((await admin("DELETE", "/g")).status).toBe(204);
  expect(await admin("GET", "/g")).toMatchObject({ status: 404, body: { code: "group-not-found" } });
});

it("a sharded topic is consumed whole, and its shards are granted one by one", async () => {
  const { fixture, url } = await server();
  const headers = { "content-type": "application/json", "stream-shards": "3" };
  await fetch(`${fixture.url}/v1/stream/t`, { method: "PUT", headers });
  const a = (await Consumer.open(url, "a")).subscribe("$share/g/#", { from: "earliest" });
  for (let i = 0; i < 9; i++) {
    await fetch(`${fixture.url}/v1/stream/t`, {
      method: "POST",
      headers: { "content-type": "application/json", "message-key": `k${i}` },
      body: JSON.stringify([i]),
    });
  }
  await eventually(() => expect([...a.payloads].sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]));
  expect(
    a
      .of("granted")
      .map(({ stream }) => stream)
      .sort(),
  ).toEqual(["t/$shard/0", "t/$shard/1", "t/$shard/2"]);
});

it.each(["share", "queue"])(
  "retention keeps what a %s group has not processed, up to the limit, and then tells the gap",
  async (mode) => {
    const { fixture, url, append, admin } = await server({ stream: { holdBytes: 2_000 } });
    const headers = { "content-type": "application/json", "stream-max-messages": "2" };
    await fetch(`${fixture.url}/v1/stream/o`, { method: "PUT", headers });
    await admin("PUT", "/g", { filter: "o", mode, from: "earliest" });
    const a = (await Consumer.open(url, "a", false)).subscribe(`$${mode}/g/o`, { credit: 1 });
    await a.next("subscribed");
    for (let i = 0; i < 10; i++) await append("o", i);
    a.socket.terminate();
    const b = (await Consumer.open(url, "b")).subscribe(`$${mode}/g/o`);
    await eventually(() => expect([...b.payloads].sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
    b.socket.terminate();
    for (let i = 0; i < 40; i++) await append("o", "x".repeat(200));
    const c = (await Consumer.open(url, "c")).subscribe(`$${mode}/g/o`);
    expect(await c.next("gap")).toMatchObject({ stream: "o" });
  },
);

it("what cannot be done is answered with an error, and the connection stays", async () => {
  const { url } = await server();
  const a = await Consumer.open(url, "a");
  a.socket.send("{nonsense");
  a.send({ type: "toString" });
  a.subscribe("orders");
  a.send({ type: "ack", id: "none", stream: "o", offset: "0", epoch: 1 });
  a.subscribe("$share/g/__ds/x");
  await a.next("error", 5);
  expect(a.of("error").map(({ code }) => code)).toEqual([
    "bad-body",
    "bad-body",
    "bad-request",
    "bad-body",
    "reserved-name",
  ]);
  expect((await fetch(`${url}/v1/consume`)).status).toBe(400);
});

it("a server that shuts down says bye", async () => {
  const { fixture, url } = await server();
  const a = (await Consumer.open(url, "a")).subscribe("$share/g/o");
  await a.next("subscribed");
  await fixture.server.close();
  expect(await a.next("bye")).toMatchObject({ code: "draining" });
});
