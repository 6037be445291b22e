import { Encoded } from "@sluice/client";
import { beforeAll, describe, expect, test } from "vitest";
import { closeAfterSuite, type Fixture, openServer } from "../e2e/server.ts";
import { faultyFetch } from "./faulty-fetch.ts";
import { numbersTo, openClient, valuesOf } from "./open-client.ts";

let names = 0;
const freshPath = () => `client/encoded-${names++}`;

describe("appending", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  test("an encoded body is a request of its own, in its place, and its array is many messages", async () => {
    const { fetch, sent } = faultyFetch(({ method }, index) =>
      method === "POST" && index % 2 === 1 ? { kind: "lose-answer" } : undefined,
    );
    const stream = openClient(fixture.url, { fetch }).stream(freshPath());
    await stream.create();
    for (const value of [1, 2, new Encoded("[3, 4]"), new Encoded("5"), 6, 7]) void stream.append(value);
    await stream.flush();
    expect(await valuesOf(stream)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    const bodies = new Set(sent.filter(({ method }) => method === "POST").map(({ body }) => body));
    expect([...bodies]).toEqual(["[1,2]", "[3, 4]", "5", "[6,7]"]);
  });

  test("a body that is not JSON is refused by the server, and later appends succeed", async () => {
    const stream = openClient(fixture.url).stream(freshPath());
    await stream.create();
    await expect(stream.append(new Encoded("{oops"))).rejects.toMatchObject({ status: 400 });
    await stream.append(1);
    expect(await valuesOf(stream)).toEqual([1]);
  });

  test("without a producer nothing is numbered, and a lost answer is reported and not retried", async () => {
    const { fetch, sent } = faultyFetch(({ method, body }) =>
      method === "POST" && body === "[1]" ? { kind: "lose-answer" } : undefined,
    );
    const stream = openClient(fixture.url, { fetch }).stream(freshPath(), { producer: false });
    await stream.create();
    await expect(stream.append(1)).rejects.toMatchObject({ code: "unreachable", retryable: true });
    await stream.append(2);
    expect(await valuesOf(stream)).toEqual([1, 2]);
    const posts = sent.filter(({ method }) => method === "POST");
    expect(posts.map(({ body }) => body)).toEqual(["[1]", "[2]"]);
    for (const { headers } of posts) expect(headers.has("producer-id")).toBe(false);
  });

  test("without a producer, messages spread over the shards of a topic", async () => {
    const topic = openClient(fixture.url).stream(freshPath(), { producer: false });
    expect(await topic.create({ shards: 3 })).toMatchObject({ created: true, shards: 3 });
    for (const n of numbersTo(6)) await topic.append(n);
    const sizes = [];
    for await (const { messages } of openClient(fixture.url).list({ prefix: `${topic.path}/$shard/` })) {
      sizes.push(messages);
    }
    expect(sizes).toEqual([2, 2, 2]);
  });
});

describe("the info of a stream", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  test("names the configuration that it was created with", async () => {
    const expiresAt = new Date("2101-01-01T00:00:00Z");
    const limits = { expiresAt, maxMessages: 7, maxBytes: 1_000_000, maxAgeSeconds: 60 };
    const stream = openClient(fixture.url).stream(freshPath(), { contentType: "text/plain" });
    await stream.create({ ...limits, closed: true });
    expect(await stream.info()).toMatchObject({ ...limits, contentType: "text/plain", closed: true });
  });

  test("fails with the reason, although the answer to a HEAD has none", async () => {
    const problem = JSON.stringify({ code: "forbidden", detail: "not with this token", retryable: false });
    const { fetch } = faultyFetch(({ method }) => ({
      kind: "answer",
      status: 403,
      body: method === "HEAD" ? "" : problem,
    }));
    const info = openClient(fixture.url, { fetch }).stream("x").info();
    await expect(info).rejects.toMatchObject({ code: "forbidden", message: "not with this token", status: 403 });
  });
});
