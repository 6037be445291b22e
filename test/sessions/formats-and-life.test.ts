/** Sessions that follow streams of different content types; and how long a session lives. */
import { expect, it } from "vitest";
import { describeAloneAndShared } from "../e2e/server.ts";
import { SseClient } from "../e2e/sse-client.ts";
import { inline } from "./api.ts";
import { stage, subscribers, uuid } from "./stage.ts";

const TTL_MS = 1_800_000;
const TYPES = [
  ["json", "application/json"],
  ["text", "text/plain"],
  ["bin", "application/octet-stream"],
] as const;

describeAloneAndShared("The format envelope", (engine) => {
  it("one session follows JSON, text and binary streams, and knows where each message came from", async () => {
    const { api } = await stage(engine);
    const id = uuid();
    for (const [stream, type] of TYPES) {
      await api.create(stream, type);
      await api.subscribed(id, stream, { format: "envelope" });
    }
    const bytes = Uint8Array.from([0, 1, 254, 255]);
    const offsets: (string | null)[] = [];
    for (const [stream, type, body] of [
      ["json", "application/json", '[{"a":1},"b"]'],
      ["text", "text/plain", 'say "hi"\n'],
      ["bin", "application/octet-stream", bytes],
    ] as const) {
      const { headers } = await api.publish(stream, body, type);
      offsets.push(headers.get("stream-next-offset"));
    }
    const [first, ...rest] = (await api.messages(id)) as { offset: string }[];
    expect(first).toEqual({
      stream: "json",
      offset: expect.any(String),
      contentType: "application/json",
      payload: { a: 1 },
    });
    expect(rest).toEqual([
      { stream: "json", offset: offsets[0], contentType: "application/json", payload: "b" },
      { stream: "text", offset: offsets[1], contentType: "text/plain", payload: 'say "hi"\n' },
      {
        stream: "bin",
        offset: offsets[2],
        contentType: "application/octet-stream",
        payload: Buffer.from(bytes).toString("base64"),
        encoding: "base64",
      },
    ]);
    expect((await api.inbox(id)).headers.get("content-type")).toBe("application/json");
    // An offset is one of the stream's: a reader can go on there.
    expect((await api.call("GET", `/stream/json?offset=${first!.offset}`)).body).toEqual(["b"]);
  });

  it("envelopes carry payloads that are written once for all sessions, over SSE too", async () => {
    const { api } = await stage(engine);
    const [id, other] = [uuid(), uuid()];
    const large = "ü".repeat(2_000);
    for (const [stream, type] of TYPES) {
      await api.create(stream, type);
      for (const session of [id, other]) await api.subscribed(session, stream, { format: "envelope" });
      await api.published(stream, type === "application/json" ? JSON.stringify([large]) : large, type);
    }
    const wanted = [
      { stream: "json", payload: large },
      { stream: "text", payload: large },
      { stream: "bin", payload: Buffer.from(large).toString("base64"), encoding: "base64" },
    ];
    for (const session of [id, other]) expect(await api.messages(session)).toMatchObject(wanted);
    const sse = await SseClient.open(`${api.base}/stream/session:${id}?offset=-1&live=sse`);
    await sse.until("all three", ({ text }) => text.includes("base64"));
    sse.close();
    const envelopes = (await api.inbox(id, "?offset=-1&format=envelope")).body;
    expect(envelopes.map(({ payload }: { payload: object }) => payload)).toMatchObject(wanted);
  });

  it("a session whose inbox is raw refuses envelopes of another content type, and the other way round", async () => {
    const { api } = await stage(engine);
    for (const [stream, type] of TYPES) await api.create(stream, type);
    const id = uuid();
    await api.subscribed(id, "text");
    expect(await api.subscribe(id, "json", { format: "envelope" })).toMatchObject({
      status: 409,
      body: { code: "content-type-mismatch" },
    });
    expect((await api.subscribe(id, "json")).status).toBe(409);
    // In a JSON session both are possible, each stream in one of them.
    const json = uuid();
    await api.subscribed(json, "json");
    await api.subscribed(json, "text", { format: "envelope" });
    expect(await api.subscribe(json, "json", { format: "envelope" })).toMatchObject({
      status: 409,
      body: { code: "subscription-differs" },
    });
    await api.published("json", "1");
    await api.published("text", "two", "text/plain");
    expect(await api.messages(json)).toMatchObject([1, { stream: "text", payload: "two" }]);
    const { subscriptions } = (await api.session(json)).body;
    expect(subscriptions).toMatchObject([
      { streamId: "json", format: "raw" },
      { streamId: "text", format: "envelope" },
    ]);
  });

  it("the number of streams that a session may follow is a setting", async () => {
    const { api } = await stage(engine, { session: { subscriptions: 2 } });
    const id = uuid();
    for (const stream of ["a", "b", "c"]) await api.create(stream);
    for (const stream of ["a", "b", "a"]) await api.subscribed(id, stream);
    expect(await api.subscribe(id, "c")).toMatchObject({ status: 409, body: { code: "too-many-subscriptions" } });
    await api.unsubscribe(id, "a");
    await api.subscribed(id, "c");
  });
});

describeAloneAndShared("The life of a session", (engine) => {
  it("a session does not expire while its stream is read", async () => {
    const { api, pass, sweep } = await stage(engine);
    await api.create("s");
    const [id] = await subscribers(api, "s", 1);
    for (let i = 0; i < 12; i++) {
      pass(TTL_MS - 1);
      await sweep();
      await api.published("s", String(i));
      expect((await api.messages(id!)).length).toBe(i + 1);
    }
  });

  it("a session expires when only copies are written to it", async () => {
    const { api, pass, sweep } = await stage(engine);
    await api.create("s");
    const [id] = await subscribers(api, "s", 1);
    for (let i = 0; i < 11; i++) {
      expect(await api.published("s", "1")).toEqual(inline(1));
      pass(TTL_MS / 10);
      await sweep();
    }
    expect((await api.session(id!)).status).toBe(404);
    expect((await api.inbox(id!)).status).toBe(404);
    expect((await api.published("s", "1")).successes).toBe(0);
    expect(await api.published("s", "1")).toEqual(inline(0));
  });

  it.each<[string, (api: import("./api.ts").Api, id: string) => Promise<unknown>]>([
    ["touch", (api, id) => api.touch(id)],
    ["subscribe to another stream", (api, id) => api.subscribed(id, "other")],
    ["the same subscribe again", (api, id) => api.subscribed(id, "s")],
    ["a read", (api, id) => api.inbox(id)],
    [
      "a live read",
      async (api, id) => (await SseClient.open(`${api.base}/stream/session:${id}?offset=now&live=sse`)).close(),
    ],
  ])("%s prolongs it", async (_, use) => {
    const { api, pass, sweep } = await stage(engine);
    for (const stream of ["s", "other"]) await api.create(stream);
    const [used, unused] = await subscribers(api, "s", 2);
    pass(TTL_MS - 1);
    await use(api, used!);
    pass(TTL_MS - 1);
    await sweep();
    expect((await api.session(used!)).status).toBe(200);
    expect((await api.session(unused!)).status).toBe(404);
  });

  it.each<[string, (api: import("./api.ts").Api, id: string) => Promise<unknown>]>([
    ["looking at it", (api, id) => api.session(id)],
    ["looking at its stream", (api, id) => api.call("HEAD", `/stream/session:${id}`)],
    ["a publish", (api) => api.published("s", "1")],
    ["a publish of something large", (api) => api.published("s", JSON.stringify("x".repeat(5_000)))],
  ])("%s does not", async (_, use) => {
    const { api, pass } = await stage(engine);
    await api.create("s");
    const [id] = await subscribers(api, "s", 2);
    pass(TTL_MS - 1);
    await use(api, id!);
    pass(TTL_MS / 10 + 1);
    expect((await api.session(id!)).status).toBe(404);
  });

  it("expiresAt is never later than the end of the session", async () => {
    const { api, pass, now } = await stage(engine);
    await api.create("s");
    const [id] = await subscribers(api, "s", 1);
    for (let i = 0; i < 5; i++) {
      const { expiresAt } = (await api.session(id!)).body;
      pass(expiresAt - now() - 1);
      expect((await api.session(id!)).status).toBe(200);
      await api.inbox(id!);
    }
  });
});
