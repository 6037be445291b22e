/** A missing stream: the first append creates it, where the caller wants and may do that. */
import { expect, test } from "vitest";
import { describeOnMemory, serverForTest } from "../e2e/server.ts";
import { faultyFetch } from "./faulty-fetch.ts";
import { noUnhandledRejections, numbersTo, openClient, valuesOf } from "./open-client.ts";

describeOnMemory("the first append", (engine) => {
  test("creates the stream, and further appends go into it", async () => {
    const { url } = await serverForTest(engine);
    const doc = openClient(url).stream("doc/9");
    const first = await doc.append({ op: "insert" });
    await doc.append({ op: "delete" });
    expect(first.historyLost).toBe(false);
    expect(await valuesOf(doc)).toEqual([{ op: "insert" }, { op: "delete" }]);
    expect((await doc.info()).contentType).toBe("application/json");
  });

  test("by many clients at once creates one stream that holds every message once", async () => {
    const { url } = await serverForTest(engine);
    const clients = numbersTo(8).map(() => openClient(url).stream<number>("crowd"));
    await Promise.all(clients.map((stream, i) => Promise.all(numbersTo(10).map((n) => stream.append(10 * i + n)))));
    const values = (await valuesOf(clients[0]!)) as number[];
    expect([...values].sort((a, b) => a - b)).toEqual(numbersTo(80));
  });

  test("is stored once although answers are lost, those to the creation included", async () => {
    const { url } = await serverForTest(engine);
    const { fetch, sent } = faultyFetch((_, i) => (i % 2 === 1 && i < 6 ? { kind: "lose-answer" } : undefined));
    const stream = openClient(url, { fetch }).stream("lossy");
    await stream.append("once");
    expect(sent.map(({ method }) => method)).toContain("PUT");
    expect(await valuesOf(stream)).toEqual(["once"]);
  });
});

test("a created stream has the type and the limits of its handle", async () => {
  const { url } = await serverForTest("memory");
  const log = openClient(url).stream("log", { contentType: "text/plain", create: { maxMessages: 10, ttlSeconds: 60 } });
  await log.append("hello");
  const { headers } = await fetch(`${url}/v1/stream/log`, { method: "HEAD" });
  expect(["content-type", "stream-max-messages", "stream-ttl"].map((name) => headers.get(name))).toEqual([
    "text/plain",
    "10",
    "60",
  ]);
});

test("an append goes to a stream that another client has created otherwise in the meantime", async () => {
  const { url } = await serverForTest("memory");
  const { fetch } = faultyFetch(({ method }) => {
    // Between this client's append that found nothing and its creation.
    if (method === "PUT") return { kind: "answer", status: 409, body: JSON.stringify({ code: "stream-exists" }) };
    return undefined;
  });
  const stream = openClient(url, { fetch: racing(url, fetch) }).stream("raced");
  await stream.append(1);
  expect(await valuesOf(stream)).toEqual([1]);
});

/** Lets another client create the stream, with another limit, just before the request that creates goes out. */
function racing(url: string, through: typeof fetch): typeof fetch {
  return async (input, init) => {
    if (init?.method === "PUT") {
      const headers = { "Content-Type": "application/json", "Stream-Max-Messages": "5" };
      await fetch(`${url}/v1/stream/raced`, { method: "PUT", headers });
    }
    return through(input, init);
  };
}

test("with create: false a missing stream is an error, and none is created", async () => {
  noUnhandledRejections();
  const { url } = await serverForTest("memory");
  const stream = openClient(url).stream("strict", { create: false });
  await expect(stream.append(1)).rejects.toMatchObject({ code: "stream-not-found", status: 404 });
  expect((await fetch(`${url}/v1/stream/strict`)).status).toBe(404);
});

test("a client that wrote to a deleted stream does not create it again", async () => {
  noUnhandledRejections();
  const { url } = await serverForTest("memory");
  const stream = openClient(url).stream("deleted");
  await stream.append(1);
  await stream.delete();
  await expect(stream.append(2)).rejects.toMatchObject({ code: "stream-not-found" });
  expect((await fetch(`${url}/v1/stream/deleted`)).status).toBe(404);
});

test("a caller that may append but not create is refused with that reason", async () => {
  noUnhandledRejections();
  const { url } = await serverForTest("memory", { authorize: ({ action }) => action !== "stream.create" });
  const stream = openClient(url).stream("forbidden");
  await expect(stream.append(1)).rejects.toMatchObject({ code: "forbidden", status: 403 });
});

test("a program learns when the server does not answer, and when it answers again", async () => {
  const { url } = await serverForTest("memory");
  const heard: string[] = [];
  const retries = {
    minMs: 1,
    maxMs: 5,
    giveUpMs: 20_000,
    onRetry: ({ attempt }: { attempt: number }) => void heard.push(`down ${attempt}`),
    onRecover: () => {
      heard.push("up");
      throw new Error("what it throws is its own affair");
    },
  };
  const { fetch } = faultyFetch((_, i) => ([1, 2, 5].includes(i) ? { kind: "refuse" } : undefined));
  const stream = openClient(url, { fetch, retries }).stream("heard");
  await stream.create();
  await stream.append(1);
  await stream.append(2);
  expect(heard).toEqual(["down 1", "down 2", "up"]);
  // A reconnected reader learns of it before any new message arrives.
  const reading = (async () => {
    for await (const item of stream.read({ live: true })) if (item.type === "message" && item.value === 3) return;
  })();
  await expect.poll(() => heard.length, { timeout: 20_000 }).toBe(5);
  expect(heard.slice(3)).toEqual(["down 1", "up"]);
  await stream.append(3);
  await reading;
});
