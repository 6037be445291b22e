/** Queues over their WebSocket, through a real server: leases, refusals, extensions, dead letters. */
import { expect, it } from "vitest";
import { createdStream, eventually } from "../e2e/server.ts";
import { Consumer, type Frame, groupServer } from "./consumer.ts";

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);
const sorted = (values: readonly unknown[]) => [...values].sort((x, y) => Number(x) - Number(y));

it("the messages of one stream are spread over the members, each to one of them", async () => {
  const { fixture, url, append, admin } = await groupServer();
  await createdStream(fixture, "jobs", "application/json");
  expect((await admin("PUT", "/w", { filter: "jobs", mode: "queue" })).status).toBe(201);
  const [a, b] = [await Consumer.open(url, "a"), await Consumer.open(url, "b")];
  for (const one of [a, b]) one.subscribe("$queue/w/jobs");
  await Promise.all([a.next("subscribed"), b.next("subscribed")]);
  for (const i of numbers(30)) await append("jobs", i);
  await eventually(() => expect(sorted([...a.payloads, ...b.payloads])).toEqual(numbers(30)));
  expect(a.payloads.length).toBeGreaterThan(5);
  expect(b.payloads.length).toBeGreaterThan(5);
  await eventually(async () => expect((await admin("GET", "/w")).body).toMatchObject({ mode: "queue", pending: 0 }));
});

it("a message that is refused comes again after its delay, while others flow, and goes to the dead letters in the end", async () => {
  const { fixture, url, append, admin } = await groupServer();
  await createdStream(fixture, "jobs", "application/json");
  const declared = { filter: "jobs", mode: "queue", maxAttempts: 2, deadLetter: "dead" };
  expect((await admin("PUT", "/w", declared)).status).toBe(201);
  expect(await admin("PUT", "/w", { ...declared, maxAttempts: 3 })).toMatchObject({ status: 409 });
  const a = (await Consumer.open(url, "a", false)).subscribe("$queue/w/jobs");
  const answered = new Set<Frame>();
  const answer = () => {
    for (const frame of a.of("message")) {
      if (answered.has(frame)) continue;
      answered.add(frame);
      const { id, stream, offset, lease, payload } = frame;
      const isPoison = payload === "poison";
      a.send({ type: isPoison ? "nack" : "ack", id, stream, offset, lease, ...(isPoison && { delayMs: 50 }) });
    }
  };
  await a.next("subscribed");
  await append("jobs", "poison", 1, 2, 3);
  await eventually(() => {
    answer();
    expect(a.of("acked")).toHaveLength(3);
    expect(a.of("message").filter(({ payload }) => payload === "poison")).toHaveLength(2);
  });
  expect(
    a
      .of("message")
      .filter(({ payload }) => payload === "poison")
      .map(({ attempt }) => attempt),
  ).toEqual([1, 2]);
  await eventually(async () => {
    const dead = await fetch(`${url}/v1/stream/dead?format=envelope`);
    expect(await dead.json()).toMatchObject([
      { payload: "poison", attributes: { "dead-stream": "jobs", "dead-reason": "nack", "dead-attempts": "2" } },
    ]);
  });
});

it("the messages of a member that goes away are delivered to another at once, as further attempts", async () => {
  const { fixture, url, append, admin } = await groupServer();
  await createdStream(fixture, "jobs", "application/json");
  await admin("PUT", "/w", { filter: "jobs", mode: "queue" });
  await append("jobs", 1, 2, 3);
  const a = (await Consumer.open(url, "a", false)).subscribe("$queue/w/jobs", { credit: 2 });
  await a.next("message", 2);
  const [first] = a.of("message");
  a.send({ type: "ack", id: "s", stream: "jobs", offset: first!.offset, lease: first!.lease });
  await a.next("acked");
  a.socket.terminate();
  const b = (await Consumer.open(url, "b")).subscribe("$queue/w/jobs");
  await eventually(() => expect(sorted(b.payloads)).toEqual([2, 3]));
  expect(b.of("message").find(({ payload }) => payload === 2)).toMatchObject({ attempt: 2 });
});

it("a lease that is shorter than the way of a message is longer than that", async () => {
  const { fixture, url, append, admin } = await groupServer();
  await createdStream(fixture, "jobs", "application/json");
  await admin("PUT", "/w", { filter: "jobs", mode: "queue", leaseMs: 1 });
  await append("jobs", 1);
  const a = (await Consumer.open(url, "a")).subscribe("$queue/w/jobs", { from: "earliest" });
  await a.next("acked");
  expect(a.of("message")).toMatchObject([{ payload: 1, attempt: 1 }]);
});

it("a lease that runs out gives the message back, an extended one does not, and a late answer is refused", async () => {
  const { fixture, url, append, admin } = await groupServer();
  await createdStream(fixture, "jobs", "application/json");
  await admin("PUT", "/w", { filter: "jobs", mode: "queue", leaseMs: 1_500 });
  const a = (await Consumer.open(url, "a", false)).subscribe("$queue/w/jobs");
  await a.next("subscribed");
  await append("jobs", "kept", "lost");
  await a.next("message", 2);
  const [kept, lost] = a.of("message");
  a.send({ type: "extend", id: "s", stream: "jobs", offset: kept!.offset, lease: kept!.lease, leaseMs: 60_000 });
  await a.next("message", 3);
  expect(a.of("message").at(-1)).toMatchObject({ payload: "lost", attempt: 2 });
  a.send({ type: "ack", id: "s", stream: "jobs", offset: lost!.offset, lease: lost!.lease });
  expect(await a.next("error")).toMatchObject({ code: "fenced", offset: lost!.offset, lease: lost!.lease });
  a.send({ type: "ack", id: "s", stream: "jobs", offset: kept!.offset, lease: kept!.lease });
  expect(await a.next("acked")).toMatchObject({ offset: kept!.offset });
});
