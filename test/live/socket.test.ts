/** Live over WebSocket, through a real server on one port with HTTP: the handshake, requests and answers, limits, pings and drain. */
import { connect as connectTcp } from "node:net";
import type { ServerOptions } from "@sluice/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { createdStream, eventually, serverForTest, within } from "../e2e/server.ts";
import { Scrape } from "../observe/prometheus-text.ts";

interface Frame {
  readonly type: string;
  readonly [field: string]: unknown;
}

class SocketClient {
  readonly frames: Frame[] = [];
  readonly closed: Promise<number>;

  private constructor(readonly socket: WebSocket) {
    socket.on("message", (data) => void this.frames.push(JSON.parse(data.toString())));
    this.closed = new Promise((resolve) => socket.once("close", resolve));
    onTestFinished(() => socket.terminate());
  }

  static open(url: string, options: object = {}): Promise<SocketClient> {
    const client = new SocketClient(new WebSocket(url, options));
    const opening = new Promise<SocketClient>((resolve, reject) => {
      client.socket.once("open", () => resolve(client));
      client.socket.once("error", reject);
    });
    return within(15_000, "a WebSocket", opening);
  }

  async next(type: string, ref?: unknown): Promise<Frame> {
    let found: Frame | undefined;
    await eventually(() => {
      found = this.frames.find((frame) => frame.type === type && (ref === undefined || frame.ref === ref));
      expect(found, `${type} among ${JSON.stringify(this.frames)}`).toBeDefined();
    });
    return found!;
  }

  ask(frame: object): void {
    this.socket.send(JSON.stringify(frame));
  }
}

async function live(options: ServerOptions = {}) {
  const fixture = await serverForTest("memory", options);
  const { sessionId, token } = (await (await fetch(`${fixture.url}/v1/sessions`, { method: "POST" })).json()) as {
    sessionId: string;
    token: string;
  };
  const address = `${fixture.url.replace("http:", "ws:")}/v1/live/${sessionId}`;
  const append = (stream: string, ...values: unknown[]) =>
    fetch(`${fixture.url}/v1/stream/${stream}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(values),
    });
  return { fixture, sessionId, token, address, append };
}

describe("a WebSocket", () => {
  it("subscribes, gets every message, says what it processed, and unsubscribes, over one connection", async () => {
    const { fixture, sessionId, token, address, append } = await live();
    await createdStream(fixture, "a", "application/json");
    const client = await SocketClient.open(`${address}?token=${token}`);
    expect(await client.next("hello")).toEqual({ type: "hello", sessionId });
    client.ask({ type: "subscribe", ref: 1, streamId: "a" });
    const { offset, epoch } = await client.next("ok", 1);
    expect([typeof offset, epoch]).toEqual(["string", 1]);
    // Lengths on both sides of each form of a frame's header.
    const values = [1, "x".repeat(125), "y".repeat(300), "z".repeat(65_000)];
    for (const value of values) await append("a", value);
    await eventually(() => {
      const got = client.frames.filter(({ type }) => type === "data").map(({ payload }) => payload);
      expect(got).toEqual(values);
    });
    const last = client.frames.filter(({ type }) => type === "data").at(-1)!.offset;
    client.ask({ type: "heartbeat", ref: "beat", offsets: [{ streamId: "a", lastOffset: last, epoch }] });
    client.ask({ type: "unsubscribe", ref: 3, streamId: "a" });
    client.ask({ type: "subscribe", ref: 4, sessionId, streamId: "a" });
    expect(await client.next("ok", "beat")).toMatchObject({ expiresAt: expect.any(Number) });
    expect(await client.next("ok", 4)).toMatchObject({ offset: last, epoch: 3 });
  });

  it("answers what it does not understand or may not do, and stays open", async () => {
    const { address } = await live();
    const client = await SocketClient.open(address);
    client.socket.send("{nonsense");
    expect(await client.next("error")).toMatchObject({ code: "bad-body" });
    const other = "00000000-0000-4000-8000-000000000000";
    for (const [ref, frame, code] of [
      [1, { type: "publish" }, "bad-body"],
      [2, { type: "subscribe" }, "bad-body"],
      [3, { type: "subscribe", streamId: "nowhere" }, "stream-not-found"],
      [4, { type: "subscribe", streamId: "session:x" }, "reserved-name"],
      [5, { type: "heartbeat", offsets: [{ streamId: "a", lastOffset: "x" }] }, "bad-body"],
      [6, { type: "unsubscribe", streamId: "a", sessionId: other }, "bad-body"],
    ] as const) {
      client.ask({ ref, ...frame });
      expect(await client.next("error", ref)).toMatchObject({ code, detail: expect.any(String) });
    }
    client.ask({ type: "unsubscribe", ref: "last", streamId: "a" });
    await client.next("ok", "last");
  });

  it("is refused as HTTP refuses", async () => {
    const { fixture, sessionId, address } = await live();
    expect(await refusalOf(address.replace(sessionId, "00000000-0000-4000-8000-000000000000"))).toBe(404);
    expect(await refusalOf(`${address}?token=sls_a.b`)).toBe(401);
    expect(await refusalOf(address.replace("/live/", "/session/"))).toBe(200);
    const bad = `GET ${new URL(address).pathname} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
    expect(await raw(fixture.port, bad)).toMatch(/^HTTP\/1\.1 400 /);
    await eventually(() => expect(fixture.server.tail.readers).toBe(0));
  });

  it("is refused to pages of other origins on a server that asks for no token, because it may subscribe", async () => {
    const { address } = await live();
    for (const origin of ["https://evil.example", "null"]) {
      expect(await refusalOf(address, { origin }), origin).toBe(403);
    }
    await SocketClient.open(address, { origin: "http://localhost:5173" });
  });

  it("is the only upgrade: a request that offers another protocol is answered as if it did not", async () => {
    const { fixture } = await live();
    await createdStream(fixture, "a", "text/plain");
    const offer = "Connection: Upgrade, close\r\nUpgrade: h2c\r\nContent-Type: text/plain\r\nContent-Length: 4";
    const answer = await raw(fixture.port, `POST /v1/stream/a HTTP/1.1\r\nHost: localhost\r\n${offer}\r\n\r\nbody`);
    expect(answer).toMatch(/^HTTP\/1\.1 204 /);
    expect(await (await fetch(`${fixture.url}/v1/stream/a`)).text()).toBe("body");
  });

  it("is closed for a frame above the limit and for bytes that are no text", async () => {
    const { address } = await live();
    const large = await SocketClient.open(address);
    large.socket.send("x".repeat(65_537));
    expect(await large.closed).toBe(1009);
    const binary = await SocketClient.open(address);
    binary.socket.send(Buffer.from("{}"));
    expect(await binary.closed).toBe(1003);
  });

  it("is not compressed", async () => {
    const { address } = await live();
    const client = await SocketClient.open(address, { perMessageDeflate: true });
    expect(client.socket.extensions).toBe("");
  });

  it("is pinged while it is quiet, and cut when its client answers no more", async () => {
    const { fixture, address } = await live({ internal: { live: { heartbeatMs: 50 } } });
    const answering = await SocketClient.open(address);
    let pings = 0;
    answering.socket.on("ping", () => pings++);
    await eventually(() => expect(pings).toBeGreaterThan(4));
    expect(answering.socket.readyState).toBe(WebSocket.OPEN);
    answering.socket.terminate();
    const silent = await SocketClient.open(address, { autoPong: false });
    await silent.closed;
    await eventually(() => expect(fixture.server.tail.readers).toBe(0));
  });

  it("is told bye and closed when the server drains, and the server stops in time", async () => {
    const { fixture, address } = await live();
    const client = await SocketClient.open(address);
    await client.next("hello");
    const closing = fixture.close();
    expect(await client.next("bye")).toMatchObject({ code: "draining", reconnect: true });
    expect(await client.closed).toBe(1001);
    await within(15_000, "the server to stop", closing);
  });

  it("whose client does not read gets bye with the reason behind what was sent, and is closed", async () => {
    const { fixture, address, append } = await live();
    await createdStream(fixture, "a", "application/json");
    const client = await SocketClient.open(address);
    client.ask({ type: "subscribe", ref: 1, streamId: "a" });
    await client.next("ok", 1);
    client.socket.pause();
    await eventually(async () => {
      for (let i = 0; i < 20; i++) await append("a", "x".repeat(60_000));
      const metrics = new Scrape(await fixture.server.metrics());
      expect(metrics.value("sluice_live_byes_total", { code: "slow-reader" })).toBe(1);
    });
    client.socket.resume();
    expect(await client.next("bye")).toMatchObject({ code: "slow-reader", reconnect: true });
    expect(await client.closed).toBe(1008);
  });

  it("of the same session displaces an SSE connection, and the other way around", async () => {
    const { fixture, sessionId, address } = await live();
    const sse = await fetch(`${fixture.url}/v1/live/${sessionId}`);
    const client = await SocketClient.open(address);
    expect(await sse.text()).toContain('"code":"displaced"');
    const second = await fetch(`${fixture.url}/v1/live/${sessionId}`);
    expect(await client.next("bye")).toMatchObject({ code: "displaced", reconnect: false });
    await second.body!.cancel();
  });

  it("whose requests come faster than they are answered is read no further until they are", async () => {
    const { fixture, address } = await live({ internal: { http: { queuedRequests: 4 } } });
    const client = await SocketClient.open(address);
    for (let ref = 0; ref < 200; ref++) client.ask({ type: "unsubscribe", ref, streamId: "a" });
    await client.next("ok", 199);
    expect(client.frames.filter(({ type }) => type === "ok").map(({ ref }) => ref)).toEqual(
      Array.from({ length: 200 }, (_, ref) => ref),
    );
    await eventually(async () =>
      expect(new Scrape(await fixture.server.metrics()).value("sluice_http_memory_bytes")).toBe(0),
    );
  });
});

/** The status with which the server refuses a WebSocket. */
function refusalOf(url: string, options: object = {}): Promise<number> {
  const refused = new Promise<number>((resolve, reject) => {
    const socket = new WebSocket(url, options);
    socket.on("unexpected-response", (_, response) => {
      resolve(response.statusCode!);
      socket.terminate();
    });
    socket.on("open", () => {
      socket.terminate();
      reject(new Error("the WebSocket was opened"));
    });
    socket.on("error", () => {});
  });
  return within(15_000, "a refusal", refused);
}

/** Everything that the server sends on a bare connection until it closes it. */
function raw(port: number, request: string): Promise<string> {
  const answered = new Promise<string>((resolve, reject) => {
    const socket = connectTcp(port, "127.0.0.1", () => socket.write(request));
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk;
    });
    socket.on("close", () => resolve(text));
    socket.on("error", reject);
  });
  return within(15_000, "an answer", answered);
}
