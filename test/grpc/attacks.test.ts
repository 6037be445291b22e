/** What a stranger may send to the gRPC port: the server refuses it, keeps its memory, and goes on serving others. */

import { gzipSync } from "node:zlib";
import { mint } from "@sluice/server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually, type Fixture, openServer } from "../e2e/server.ts";
import { bytes, frame, RawClient, text } from "./raw-client.ts";
import { expectAlive, MEBIBYTE, memoryOf, OPEN_STREAM, SUBSCRIPTION, server, subscribed, TOPIC } from "./raw-server.ts";

const INVALID_ARGUMENT = 3;
const DEADLINE_EXCEEDED = 4;
const PERMISSION_DENIED = 7;
const UNIMPLEMENTED = 12;
const UNAVAILABLE = 14;
const UNAUTHENTICATED = 16;

/** For tests that leave nothing behind. */
function sharedServer(): () => Fixture {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory", { grpcPort: 0 });
  });
  afterAll(() => fixture.close());
  return () => fixture;
}

describe("a request that is not a message of its method", () => {
  const shared = sharedServer();
  const NESTED = Buffer.concat(Array.from({ length: 100_000 }, () => Buffer.from([0x0b])));
  it.each([
    ["has a name that is not UTF-8", bytes(1, Buffer.from([0x70, 0xed, 0xa0, 0x80]))],
    ["has a label that is not UTF-8", Buffer.concat([text(1, TOPIC), bytes(2, bytes(1, Buffer.from([0xff])))])],
    ["has a field that ends after it", Buffer.from([0x0a, 0x7f, 0x70])],
    ["has a length beyond 32 bits", Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])],
    ["has groups within groups", NESTED],
    ["has a field without a number", Buffer.from([0x07, 0x00])],
    ["is random", Buffer.from("The quick brown fox jumps over the lazy dog")],
    ["has a name of 900 KB", text(1, `projects/p/topics/${"x".repeat(900_000)}`)],
    ["has a project of odd characters", text(1, "projects/../../etc/topics/t")],
    ["has a line break in its project", text(1, "projects/a\r\nb/topics/t")],
  ])("that %s is refused", async (_what, body) => {
    const client = RawClient.to(shared().server.grpcPort!);
    expect((await client.call("Publisher/CreateTopic", body)).code).toBe(INVALID_ARGUMENT);
    await expectAlive(shared());
  });

  it("that has millions of empty fields is refused before it is decoded", async () => {
    const fixture = await server();
    const empty = Buffer.alloc(10 * MEBIBYTE, Buffer.from([0x12, 0x00]));
    const body = Buffer.concat([text(1, TOPIC), empty]);
    const before = process.memoryUsage().heapUsed;
    const { code, message } = await fixture.client.call("Publisher/Publish", body);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(100 * MEBIBYTE);
    expect(code).toBe(INVALID_ARGUMENT);
    expect(message).toContain("fields");
  });

  it.each([
    ["Publisher/Publish", 12 * MEBIBYTE],
    ["Subscriber/Acknowledge", 2 * MEBIBYTE],
  ])("%s with %i bytes is refused before they have arrived", async (method, size) => {
    const { client } = await server();
    const { stream, outcome } = client.open(method);
    stream.write(frame(Buffer.alloc(size)).subarray(0, 1_000));
    expect((await outcome).code).toBe(INVALID_ARGUMENT);
  });

  it("of 10 MB is taken if it has messages of allowed size, and refused if it is one message", async () => {
    const { client } = await server();
    await client.call("Publisher/CreateTopic", text(1, TOPIC));
    const message = (size: number) => bytes(2, bytes(1, Buffer.alloc(size)));
    const many = Array.from({ length: 10 }, () => message(1_000_000));
    expect((await client.call("Publisher/Publish", Buffer.concat([text(1, TOPIC), ...many]))).code).toBe(0);
    const one = Buffer.concat([text(1, TOPIC), message(10_000_000)]);
    expect((await client.call("Publisher/Publish", one)).code).toBe(INVALID_ARGUMENT);
  });

  it("that expands beyond the limit is refused, and one that does not is taken", async () => {
    const { client } = await server();
    const headers = { "grpc-encoding": "gzip" };
    const bomb = gzipSync(Buffer.alloc(50 * MEBIBYTE));
    const { code, message } = await client.call("Publisher/Publish", bomb, headers, true);
    expect(code).toBe(INVALID_ARGUMENT);
    expect(message).toContain("has more than");
    expect((await client.call("Publisher/CreateTopic", gzipSync(text(1, TOPIC)), headers, true)).code).toBe(0);
  });
});

describe("a call that is not one", () => {
  it("of an unknown method, of another content type or with too much metadata is refused, and costs nothing", async () => {
    const fixture = await server();
    const { client } = fixture;
    expect((await client.call("Publisher/Nothing", Buffer.alloc(0))).code).toBe(UNIMPLEMENTED);
    const html = client.open("Publisher/Publish", { "content-type": "text/html" });
    expect((await html.outcome).httpStatus).toBe(415);
    for (const headers of [
      { authorization: `Bearer ${"x".repeat(60_000)}` },
      Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`x-${i}`, "y"])),
    ]) {
      const attacker = RawClient.to(fixture.server.grpcPort!);
      const { code } = await attacker.call("Publisher/ListTopics", text(1, "projects/p"), headers);
      expect([-1, INVALID_ARGUMENT]).toContain(code);
    }
    await expectAlive(fixture);
    await eventually(async () => expect(await memoryOf(fixture)).toBe(0));
  });

  it("without a request ends in time, and one with two requests is answered once", async () => {
    const fixture = await server({ internal: { grpc: { requestMs: 50 } } });
    const { client } = fixture;
    const silent = client.open("Publisher/Publish");
    const half = client.open("Subscriber/StreamingPull");
    half.stream.write(frame(text(1, "projects/p/subscriptions/s")).subarray(0, 10));
    expect((await silent.outcome).code).toBe(DEADLINE_EXCEEDED);
    expect((await half.outcome).code).toBe(DEADLINE_EXCEEDED);
    const empty = client.open("Publisher/Publish");
    empty.stream.end();
    expect((await empty.outcome).code).toBe(INVALID_ARGUMENT);
    const list = frame(text(1, "projects/p"));
    const twice = client.open("Publisher/ListTopics");
    twice.stream.end(Buffer.concat([list, list]));
    expect((await twice.outcome).code).toBe(0);
    await eventually(async () => expect(await memoryOf(fixture)).toBe(0));
  });
});

describe("the memory of the server", () => {
  const LIMIT = 4 * MEBIBYTE;

  it("is charged for requests that arrive, and refuses more of them, over HTTP and gRPC together", async () => {
    const fixture = await server({ http: { memoryBytes: LIMIT }, stream: { bodyBytes: MEBIBYTE } });
    const part = frame(Buffer.alloc(10 * MEBIBYTE)).subarray(0, MEBIBYTE);
    const begin = () => {
      const call = fixture.client.open("Publisher/Publish");
      call.stream.write(part);
      return call;
    };
    for (const _ of [1, 2, 3]) begin();
    await eventually(async () => expect(await memoryOf(fixture)).toBe(3 * (MEBIBYTE + 4_096)));
    expect((await begin().outcome).code).toBe(UNAVAILABLE);
    const put = await fetch(`${fixture.url}/v1/p/stream/s`, {
      method: "PUT",
      headers: { "Content-Type": "text/plain" },
    });
    expect(put.status).toBe(201);
    const body = Buffer.alloc(MEBIBYTE - 1, "x");
    const post = await fetch(`${fixture.url}/v1/p/stream/s`, {
      method: "POST",
      headers: { "Content-Type": "text/plain" },
      body,
    });
    expect(post.status).toBe(503);
    fixture.client.session.destroy();
    await eventually(async () => expect(await memoryOf(fixture)).toBe(0));
  });

  it("is charged for open calls and for responses that wait for their client", async () => {
    const fixture = await server();
    const silent = Array.from({ length: 100 }, () => fixture.client.open("Publisher/Publish"));
    await eventually(async () => expect(await memoryOf(fixture)).toBe(100 * 4_096));
    for (const { stream } of silent) stream.close();
    await eventually(async () => expect(await memoryOf(fixture)).toBe(0));
    await subscribed(fixture.client);
    const message = bytes(2, bytes(1, Buffer.alloc(MEBIBYTE)));
    expect((await fixture.client.call("Publisher/Publish", Buffer.concat([text(1, TOPIC), message]))).code).toBe(0);
    const { stream } = RawClient.to(fixture.server.grpcPort!).open("Subscriber/StreamingPull");
    stream.pause();
    stream.write(frame(OPEN_STREAM));
    await eventually(async () => expect(await memoryOf(fixture)).toBeGreaterThan(MEBIBYTE));
    stream.resume();
    for (let i = 0; i < 10; i++) stream.write(frame(text(2, "x".repeat(10_000))));
    // What has been handled and sent is given back while the stream goes on.
    await eventually(async () => expect(await memoryOf(fixture)).toBe(4_096));
    stream.close();
    await eventually(async () => expect(await memoryOf(fixture)).toBe(0));
  });
});

describe("a caller", () => {
  const shared = sharedServer();
  const secret = "s".repeat(32);
  const projects = { p: { secrets: [secret] }, q: { secrets: ["t".repeat(32)] } };
  const bearer = async (project: string, key: string, ttlSeconds = 60) => ({
    authorization: `Bearer ${await mint(key, { project, scope: "read write admin", ttlSeconds }, Date.now())}`,
  });

  it("without a token, or with one of another project, does nothing", async () => {
    const { client } = await server({ projects });
    const foreign = await bearer("q", "t".repeat(32));
    const forged = await bearer("p", "t".repeat(32));
    for (const [method, field] of [
      ["Publisher/CreateTopic", 1],
      ["Publisher/Publish", 1],
      ["Subscriber/Acknowledge", 1],
      ["SchemaService/ListSchemas", 1],
      ["Publisher/ListTopics", 1],
    ] as const) {
      const body = text(field, method.includes("List") ? "projects/p" : TOPIC);
      expect((await client.call(method, body)).code, method).toBe(UNAUTHENTICATED);
      expect([PERMISSION_DENIED, UNAUTHENTICATED], method).toContain((await client.call(method, body, foreign)).code);
      expect((await client.call(method, body, forged)).code, method).toBe(UNAUTHENTICATED);
    }
    const own = await bearer("p", secret);
    const dead = text(2, "projects/q/topics/t");
    const crossing = Buffer.concat([text(1, "projects/p/subscriptions/s"), dead]);
    expect((await client.call("Subscriber/CreateSubscription", crossing, own)).code).toBe(INVALID_ARGUMENT);
  });

  it("whose token expires loses its stream", async () => {
    const { client } = await server({ projects, auth: { clockSkewSeconds: 0 }, internal: { grpc: { lingerMs: 50 } } });
    const own = await bearer("p", secret);
    await client.call("Publisher/CreateTopic", text(1, TOPIC), own);
    await client.call("Subscriber/CreateSubscription", Buffer.concat([text(1, SUBSCRIPTION), text(2, TOPIC)]), own);
    const { stream, outcome } = client.open("Subscriber/StreamingPull", await bearer("p", secret, 1));
    stream.write(frame(OPEN_STREAM));
    expect(await outcome).toMatchObject({ code: UNAUTHENTICATED, httpStatus: 200 });
  });

  it.each([
    "$x",
    "__ds%2Fx",
    "session%3A00000000-0000-4000-8000-000000000000",
    "%24queue",
    "a%00b",
    "a%0Ab",
    "%2e%2e",
    "a%2F..%2Fb",
    "+",
    "a%23",
    "%ED%A0%80",
  ])("cannot make the topic %s", async (id) => {
    const { code } = await RawClient.to(shared().server.grpcPort!).call(
      "Publisher/CreateTopic",
      text(1, `projects/p/topics/${id}`),
    );
    expect([INVALID_ARGUMENT, PERMISSION_DENIED]).toContain(code);
  });

  it("cannot use a forged page token, a deep filter or odd ids to break a method", async () => {
    const fixture = await server();
    const { client } = fixture;
    await client.call("Publisher/CreateTopic", text(1, TOPIC));
    for (const token of [
      "x",
      "%",
      "\u0000",
      "../..",
      "ÿ".repeat(1_000),
      "x".repeat(100_000),
      "$",
      "projects/q/topics/t",
    ]) {
      for (const method of ["Publisher/ListTopics", "Subscriber/ListSubscriptions", "Subscriber/ListSnapshots"]) {
        const { code } = await client.call(method, Buffer.concat([text(1, "projects/p"), text(3, token)]));
        expect([0, INVALID_ARGUMENT], `${method} ${token.slice(0, 20)}`).toContain(code);
      }
    }
    const filters = [
      "(".repeat(256),
      `${"NOT ".repeat(60)}hasPrefix`,
      "-".repeat(256),
      `attributes:"${"\\".repeat(200)}`,
    ];
    for (const filter of filters) {
      const body = Buffer.concat([text(1, "projects/p/subscriptions/s"), text(2, TOPIC), text(12, filter)]);
      expect((await client.call("Subscriber/CreateSubscription", body)).code).toBe(INVALID_ARGUMENT);
    }
    for (const id of ["", "..", "a b", "a\u0000", "goog-x", "x".repeat(300), "é", "__proto__", "constructor"]) {
      const body = Buffer.concat([text(1, `projects/p/subscriptions/${id}`), text(2, TOPIC)]);
      const { code } = await client.call("Subscriber/CreateSubscription", body);
      expect([0, INVALID_ARGUMENT, PERMISSION_DENIED], id.slice(0, 20)).toContain(code);
    }
    await expectAlive(fixture);
  });
});
