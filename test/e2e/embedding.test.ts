/** A server within another program: mounted into `node:http` and Express, and used in process without HTTP. */
import { readFileSync } from "node:fs";
import { createServer as createHttpServer, type RequestListener, type Server } from "node:http";
import { createServer as createHttpsServer, request } from "node:https";
import { createRequire } from "node:module";
import { type AddressInfo, connect } from "node:net";
import { Sluice } from "@sluice/client";
import { ConfigError, createServer, mint, type RequestHandler, type RunningServer, SluiceError } from "@sluice/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { eventually } from "./server.ts";

interface ExpressApp extends RequestListener {
  use(...parts: readonly (string | RequestHandler)[]): void;
  get(path: string, answer: (request: unknown, response: { send(text: string): void }) => void): void;
}
const express = createRequire(import.meta.url)("express") as { (): ExpressApp; json(): RequestHandler };

async function embedded(reports: string[] = []): Promise<RunningServer> {
  const report = (what: string, fault: unknown) => void reports.push(`${what}: ${fault}`);
  const options = { memory: true, listen: false, auth: { off: true }, log: false, report } as const;
  const server = await createServer(options);
  onTestFinished(() => server.close());
  return server;
}

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Appends, reads, tails by SSE, follows by WebSocket: what a client does, at this base address. */
async function worksAt(base: string, path: string): Promise<void> {
  const client = new Sluice({ url: base });
  onTestFinished(() => client.close());
  const stream = client.stream<number>(path);
  await stream.append(1);
  const live: number[] = [];
  const reading = (async () => {
    for await (const item of stream.read({ live: true })) {
      if (item.type === "message" && live.push(item.value) === 2) return;
    }
  })();
  await eventually(() => expect(live).toEqual([1]));
  await stream.append(2);
  await reading;
  expect(live).toEqual([1, 2]);
  const session = await client.session();
  const socket = new WebSocket(`${base.replace("http", "ws")}/v1/default/live/${session.id}`);
  onTestFinished(() => socket.terminate());
  const hello = await new Promise((resolve, reject) => {
    socket.on("message", (data) => resolve(JSON.parse(String(data)).type));
    socket.on("error", reject);
  });
  expect(hello).toBe("hello");
}

describe("a server mounted in another one", () => {
  it("serves all of node:http's requests and upgrades without a prefix", async () => {
    const server = await embedded();
    const http = createHttpServer(server.handler).on("upgrade", server.upgrade);
    const base = await listening(http);
    await worksAt(base, "a/b");
    expect((await fetch(`${base}/elsewhere`)).status).toBe(404);
  });

  it("serves what is below its prefix and leaves the rest to the program", async () => {
    const server = await embedded();
    const { handler, upgrade } = server.mount("/sluice/");
    const http = createHttpServer((request, response) => handler(request, response, () => response.end("mine")));
    const base = await listening(http.on("upgrade", upgrade));
    await worksAt(`${base}/sluice`, "a/b");
    const created = await fetch(`${base}/sluice/v1/stream/fresh`, { method: "PUT" });
    expect(created.headers.get("location")).toBe(`${base}/sluice/v1/stream/fresh`);
    expect(await (await fetch(`${base}/sluice`)).json()).toMatchObject({ health: "/sluice/health" });
    for (const path of ["/", "/sluices", "/v1/stream/a/b"]) {
      expect(await (await fetch(base + path)).text()).toBe("mine");
    }
  });

  it("serves nothing outside its prefix, although no next takes the rest", async () => {
    const server = await embedded();
    await server.streams.append("a", 1);
    const { handler, upgrade } = server.mount("/sluice");
    const base = await listening(createHttpServer(handler).on("upgrade", upgrade));
    expect((await fetch(`${base}/sluice/health`)).status).toBe(200);
    for (const path of ["/", "/health", "/metrics", "/v1/stream/a?offset=-1", "/sluices/health"]) {
      const answer = await fetch(base + path);
      expect([path, answer.status, await answer.json()]).toMatchObject([path, 404, { code: "no-route" }]);
    }
    const socket = new WebSocket(`${base.replace("http", "ws")}/v1/default/consume`);
    const status = await new Promise((resolve) => {
      socket.on("unexpected-response", (_, response) => resolve(response.statusCode));
      socket.on("open", () => resolve("open"));
    });
    socket.on("error", () => {}).terminate();
    expect(status).toBe(404);
  });

  it("shares a kept-alive connection with another server that is mounted beside it, and no data", async () => {
    const [a, b] = [await embedded(), await embedded()];
    const [atA, atB] = [a.mount("/a").handler, b.mount("/b").handler];
    const base = await listening(
      createHttpServer((request, response) => atA(request, response, () => atB(request, response))),
    );
    const client = connect(Number(new URL(base).port), "127.0.0.1").resume();
    const ended = new Promise((resolve) => client.on("close", resolve));
    const put = (path: string, more = "") =>
      `PUT ${path} HTTP/1.1\r\nHost: localhost\r\n${more}Content-Length: 0\r\n\r\n`;
    client.write(put("/a/v1/stream/of-a") + put("/b/v1/stream/of-b", "Connection: close\r\n"));
    await ended;
    expect((await a.streams.read("of-a")).messages).toEqual([]);
    expect((await b.streams.read("of-b")).messages).toEqual([]);
  });

  it("is a middleware of Express, at a path or at none", async () => {
    const server = await embedded();
    const app = express();
    app.get("/", (_, response) => response.send("home"));
    app.use("/sluice", server.handler);
    app.use(server.handler);
    app.get("/after", (_, response) => response.send("after"));
    const { upgrade } = server.mount("/sluice");
    const base = await listening(createHttpServer(app).on("upgrade", upgrade));
    await worksAt(`${base}/sluice`, "a/b");
    expect(await (await fetch(`${base}/v1/stream/a/b?offset=-1`)).json()).toEqual([1, 2]);
    expect(await (await fetch(`${base}/`)).text()).toBe("home");
    expect(await (await fetch(`${base}/after`)).text()).toBe("after");
  });

  it("links to https where the other server has the certificate", async () => {
    const server = await embedded();
    const [cert, key] = ["cert", "key"].map((part) => readFileSync(`test/support/tls/first-${part}.pem`));
    const base = await listening(createHttpsServer({ cert, key }, server.handler));
    const location = await new Promise((resolve, reject) => {
      const address = `${base.replace("http", "https")}/v1/stream/a`;
      const asked = request(address, { method: "PUT", ca: cert, agent: false }, ({ headers }) =>
        resolve(headers.location),
      );
      asked.on("error", reject).end();
    });
    expect(location).toBe(`${base.replace("http", "https")}/v1/stream/a`);
  });

  it("takes the cookie of a page of the other server's origin, also below a prefix", async () => {
    const secret = "a secret of at least thirty-two bytes";
    const server = await createServer({
      memory: true,
      listen: false,
      log: false,
      projects: { default: { secrets: [secret] } },
    });
    onTestFinished(() => server.close());
    const base = await listening(createHttpServer(server.mount("/sluice").handler));
    const token = await mint(secret, { project: "default", scope: "write", ttlSeconds: 60 }, Date.now());
    const cookie = `sluice_token=${token}`;
    const put = (origin: string) => fetch(`${base}/sluice/v1/stream/a`, { method: "PUT", headers: { cookie, origin } });
    expect((await put("http://elsewhere.example")).status).toBe(403);
    expect((await put(base)).status).toBe(201);
  });

  it("says in its log that a middleware before it has read the body", async () => {
    const reports: string[] = [];
    const server = await embedded(reports);
    await server.streams.create("a");
    const app = express();
    app.use(express.json());
    app.use(server.handler);
    const base = await listening(createHttpServer(app));
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${base}/v1/stream/a`, { method: "POST", headers, body: "{}" });
    expect(answer.status).toBe(500);
    expect(reports.join()).toContain("before express.json()");
  });

  it("answers what is in flight before it closes, then refuses, and leaves the other server open", async () => {
    const server = await embedded();
    await server.streams.create("a");
    const base = await listening(createHttpServer(server.handler));
    const waiting = fetch(`${base}/v1/stream/a?offset=now&live=long-poll`);
    await eventually(() => expect(server.tail.readers).toBe(1));
    await server.close();
    expect((await waiting).status).toBe(204);
    const late = await fetch(`${base}/v1/stream/a?offset=-1`);
    expect([late.status, await late.json()]).toMatchObject([503, { code: "draining" }]);
  });

  it("refuses to be mounted without keys, because the other server may be open to other machines", async () => {
    const server = await createServer({ memory: true, listen: false, log: false });
    onTestFinished(() => server.close());
    expect(() => server.mount()).toThrow(ConfigError);
    expect(() => server.mount()).toThrow(/auth\.off/);
  });

  it.each(["sluice", "sluice/", "/sluice?", "/a b", "http://localhost/sluice"])(
    "refuses the prefix %s, which no request could match",
    async (prefix) => {
      const server = await embedded();
      expect(() => server.mount(prefix)).toThrow(TypeError);
      expect(() => server.mount(prefix)).toThrow(`like "/sluice"; got "${prefix}"`);
    },
  );
});

describe("streams in process", () => {
  it("are created, appended to, read, tailed and deleted, and HTTP sees the same", async () => {
    const server = await embedded();
    const { streams } = server;
    expect(await streams.create("chat/room1", { maxMessages: 100 })).toEqual({ created: true });
    expect(await streams.create("chat/room1", { maxMessages: 100 })).toEqual({ created: false });
    const { offset } = await streams.append("chat/room1", { text: "hello" }, { key: "k", attributes: { a: "b" } });
    const page = await streams.read<{ text: string }>("chat/room1");
    const [message] = page.messages;
    expect(message).toMatchObject({ offset, value: { text: "hello" }, key: "k", attributes: { a: "b" } });
    expect(page).toMatchObject({ nextOffset: offset, upToDate: true, closed: false });

    const seen: unknown[] = [];
    const loop = (async () => {
      for await (const { value } of streams.tail("chat/room1", { from: offset })) seen.push(value);
    })();
    const base = await listening(createHttpServer(server.handler));
    await new Sluice({ url: base }).stream("chat/room1").append({ text: "over HTTP" });
    await eventually(() => expect(seen).toEqual([{ text: "over HTTP" }]));
    await streams.append("chat/room1", { text: "last" }, { close: true });
    await loop;
    expect(seen).toHaveLength(2);
    await streams.delete("chat/room1");
    await expect(streams.read("chat/room1")).rejects.toMatchObject({ code: "stream-not-found", status: 404 });
  });

  it("hold text and bytes by their content type, per project", async () => {
    const { streams, streamsOf } = await embedded();
    await streams.append("log", "line\n", { contentType: "text/plain" });
    const bytes = Uint8Array.of(1, 2);
    const appended = streamsOf("other").append("log", bytes);
    bytes.fill(9);
    await appended;
    expect((await streams.read("log")).messages[0]!.value).toBe("line\n");
    expect((await streamsOf("other").read("log")).messages[0]!.value).toEqual(Uint8Array.of(1, 2));
  });

  it("refuse with one class of error", async () => {
    const { streams, streamsOf } = await embedded();
    await streams.append("a", 1, { close: true });
    const refused: readonly [() => Promise<unknown>, string][] = [
      [() => streams.append("a", 2), "stream-closed"],
      [() => streams.append("b", 2, { create: false }), "stream-not-found"],
      [() => streams.append("session:x", 2), "reserved-name"],
      [() => streams.append("a", undefined), "invalid-value"],
      [() => streams.append("c", 1, { key: "k".repeat(2_000) }), "bad-header"],
      [() => streams.create("c", { maxAgeSeconds: 0 }), "bad-header"],
      [() => streams.create("c", { contentType: "text/plain\r\n" }), "bad-header"],
      [() => streams.read("a", { from: "nowhere" }), "bad-offset"],
      [() => streams.delete("none"), "stream-not-found"],
      [() => streams.tail("none").next(), "stream-not-found"],
    ];
    for (const [attempt, code] of refused) {
      const error = await attempt().catch((fault: unknown) => fault);
      expect(error).toBeInstanceOf(SluiceError);
      expect((error as SluiceError).code).toBe(code);
    }
    expect(() => streamsOf("a/b")).toThrow(SluiceError);
  });

  it("end their loops by a signal, and when the server closes", async () => {
    const server = await embedded();
    await server.streams.create("a");
    const stop = new AbortController();
    const stopped = server.streams.tail("a", { signal: stop.signal }).next();
    const closed = server.streams.tail("a").next();
    const reason = new Error("enough");
    stop.abort(reason);
    await expect(stopped).rejects.toBe(reason);
    await Promise.all([server.close(), expect(closed).rejects.toMatchObject({ code: "closed" })]);
    await expect(server.streams.append("a", 1)).rejects.toMatchObject({ code: "closed" });
    await expect(server.streamsOf("new").append("a", 1)).rejects.toMatchObject({ code: "closed" });
  });
});
