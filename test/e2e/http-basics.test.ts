/** What holds for every address and every method: headers that are always there, probes, preflights, refusals, shutdown. */
import { createServer, type IncomingMessage, request } from "node:http";
import { beforeAll, describe, expect, it } from "vitest";
import { checkProblem, expectProblem } from "./problem.ts";
import { exchange, RawConnection, type RawResponse } from "./raw-http.ts";
import {
  appended,
  closeAfterSuite,
  createdStream,
  eventually,
  type Fixture,
  openServer,
  serverForTest,
  sleep,
  within,
} from "./server.ts";
import { SseClient } from "./sse-client.ts";

const ADDRESSES = [
  "/",
  "/health",
  "/ready",
  "/nothing/here",
  "/v1",
  "/v1/",
  "/v1/stream",
  "/v1/stream/",
  "/v1/stream/there",
  "/v1/stream/absent",
  "/v1/stream/%zz",
  "/v1/stream/session:5",
  "/v1/default/stream/there",
  "/v1/streams",
  "/v1/default/streams",
  "/v1/default/streams/",
  "/v1/no such project/streams",
  "/v1/publish/there",
  "/v1/admin",
];
const METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"];

describe("every response", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
    await createdStream(fixture, "there", "text/plain");
    await createdStream(fixture, "untouched", "text/plain");
  });
  closeAfterSuite(() => fixture);

  it("carries nosniff, whatever the address and the method", async () => {
    const { port } = fixture;
    for (const address of ADDRESSES) {
      for (const method of METHODS) {
        const target = address.replaceAll(" ", "%20");
        const answer = await exchange(
          port,
          `${method} ${target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`,
          method,
        );
        const what = `${method} ${target}: ${answer.status}`;
        expect(answer.headers.get("x-content-type-options"), what).toBe("nosniff");
        expect(answer.status, what).toBeLessThan(500);
        if (answer.status >= 400 && method !== "HEAD") checkProblem(answer);
      }
    }
  });

  it("to OPTIONS is 204 with methods and headers, at every address", async () => {
    for (const address of [...ADDRESSES.map((text) => text.replaceAll(" ", "%20")), "*"]) {
      const answer = await exchange(fixture.port, `OPTIONS ${address} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      expect(answer.status, address).toBe(204);
      expect(answer.headers.get("access-control-allow-methods")).toBe("GET, HEAD, PUT, POST, DELETE, OPTIONS");
      const allowed = answer.headers.get("access-control-allow-headers")!.toLowerCase().split(", ");
      for (const name of [
        "content-type",
        "if-none-match",
        "producer-id",
        "stream-seq",
        "message-key",
        "stream-max-bytes",
      ]) {
        expect(allowed).toContain(name);
      }
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    }
  });

  it("to a method that an address does not know is 405 with Allow", async () => {
    for (const address of ["/health", "/ready", "/v1/streams", "/v1/other/streams"]) {
      for (const method of ["POST", "PUT", "DELETE", "PATCH"]) {
        const response = await fetch(fixture.url + address, { method });
        expect(response.headers.get("allow")).toBe("GET, HEAD, OPTIONS");
        const { detail } = await expectProblem(response, 405, "method-not-allowed");
        expect(detail).toContain(method);
      }
    }
    const response = await fetch(`${fixture.url}/v1/stream/there`, { method: "PATCH" });
    expect(response.headers.get("allow")).toBe("GET, HEAD, PUT, POST, DELETE, OPTIONS");
    await expectProblem(response, 405, "method-not-allowed");
  });

  it("to HEAD is that to GET without a body", async () => {
    for (const address of ["/health", "/ready", "/v1/streams", "/nothing", "/v1/stream/absent", "/v1/stream/%zz"]) {
      const [got, head] = [await fetch(fixture.url + address), await fetch(fixture.url + address, { method: "HEAD" })];
      expect(head.status, address).toBe(got.status);
      expect(head.headers.get("content-type"), address).toBe(got.headers.get("content-type"));
      expect(head.headers.get("content-length"), address).toBe(got.headers.get("content-length"));
      expect(await head.text()).toBe("");
      await got.text();
    }
  });

  it("keeps the connection in step: the answer after a HEAD, a 204 or a refusal is the next request's own", async () => {
    const connection = await RawConnection.open(fixture.port);
    for (const [method, address, status] of [
      ["HEAD", "/health", 200],
      ["OPTIONS", "/", 204],
      ["POST", "/v1/stream/absent", 400],
      ["HEAD", "/v1/stream/absent", 404],
      ["PATCH", "/v1/stream/there", 405],
      ["GET", "/health", 200],
    ] as const) {
      connection.send(`${method} ${address} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc`);
      expect(await connection.answer(method), `${method} ${address}`).toMatchObject({ status });
    }
    connection.destroy();
  });

  it("to a request in absolute form is that of the path in it", async () => {
    const answer = await exchange(
      fixture.port,
      "GET http://sluice.example/v1/stream/untouched HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    expect(answer.status).toBe(200);
  });
});

describe("what is not a proper request", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  it.each([
    ["no Host in HTTP/1.1", "GET /health HTTP/1.1\r\n\r\n", "Host"],
    [
      "an expectation that the server does not meet",
      "GET /health HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\n\r\n",
      "Expect",
    ],
    ["a tunnel", "CONNECT example.org:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", "CONNECT"],
    ["an unknown method", "BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"],
    ["an unknown version", "GET /health HTTP/3.7\r\nHost: localhost\r\n\r\n", "HTTP"],
    ["no HTTP at all", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "HTTP"],
    [
      "headers beyond every measure",
      `GET /health HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(100_000)}\r\n\r\n`,
      "headers",
    ],
    [
      "a body of two lengths",
      "POST /v1/stream/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "HTTP",
    ],
    ["a negative length", "POST /v1/stream/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", "HTTP"],
  ])("gets a refusal that says so: %s", async (_, text, named) => {
    const answer = await exchange(fixture.port, text);
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    const { detail, status } = checkProblem(answer);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
    expect(detail).toContain(named);
  });

  it("is cut off even when its client keeps the connection open", async () => {
    const { server, port } = await serverForTest("memory", { drainMs: 60_000 });
    const connection = await RawConnection.open(port, { halfOpen: true });
    connection.send("this is not HTTP\r\n\r\n");
    expect(await connection.answer()).toMatchObject({ status: 400 });
    // The server waits for every connection that it still has.
    await within(10_000, "the end of the server", server.close());
    connection.destroy();
  });

  it("that never ends is answered 408 when its time is up", async () => {
    const slow = await serverForTest("memory", { http: { requestMs: 300 } });
    const url = await createdStream(slow, "slow", "text/plain");
    const head = `POST ${new URL(url).pathname} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n`;
    for (const text of [`${head}only this`, "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Never-Ends: "]) {
      const connection = await RawConnection.open(slow.port);
      connection.send(text);
      const answer = await connection.answer("GET", 15_000);
      expect(answer).toMatchObject({ status: 408 });
      expect(checkProblem(answer as Exclude<typeof answer, "closed">).code).toBe("body-timeout");
      connection.destroy();
    }
    expect(await (await fetch(url)).text()).toBe("");
  });
});

describe("probes", () => {
  it("say that the server lives and is ready", async () => {
    const { url } = await serverForTest("memory");
    for (const address of ["/health", "/ready"]) {
      const response = await fetch(url + address);
      expect(response.status).toBe(200);
      expect(response.headers.get("cache-control")).toBe("no-store");
      expect(await response.json()).toEqual({ status: "ok" });
    }
  });

  it("say, while the server drains, that it lives but is not ready", async () => {
    const { server, port } = await serverForTest("memory");
    const health = await RawConnection.open(port);
    const ready = await RawConnection.open(port);
    // Requests that are under way when the drain begins are still answered.
    health.send("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Rest: ");
    ready.send("GET /ready HTTP/1.1\r\nHost: localhost\r\nX-Rest: ");
    await fetch(`${server.url}/health`);
    const closed = server.close();
    health.send("x\r\n\r\n");
    ready.send("x\r\n\r\n");
    expect(await health.answer()).toMatchObject({ status: 200 });
    const answer = await ready.answer();
    expect(answer).toMatchObject({ status: 503 });
    expect((answer as Exclude<typeof answer, "closed">).headers.get("retry-after")).toMatch(/^\d+$/);
    await closed;
  });
});

describe("closing", () => {
  it("answers what is in flight, sends live readers home, refuses newcomers, and does not wait for the drain time", async () => {
    const { server, port, url } = await serverForTest("memory", { drainMs: 60_000 });
    const stream = await createdStream({ url } as Fixture, "s", "text/plain");
    const offset = await appended(stream, "text/plain", "before");
    const sse = await SseClient.open(`${stream}?offset=-1&live=sse`);
    await sse.upTo(offset);
    const poll = keepAlive(`${stream}?offset=${offset}&live=long-poll`);
    // This one would use its connection again.
    const other = await RawConnection.open(port);
    other.send(`GET ${new URL(stream).pathname}?offset=now&live=sse HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    expect(await other.answer()).toMatchObject({ status: 200 });
    await eventually(() => expect(server.tail.readers).toBe(3));
    const writer = await RawConnection.open(port);
    const head = `POST ${new URL(stream).pathname} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n`;
    writer.send(`${head}Content-Length: 6\r\n\r\naft`);
    await fetch(`${url}/health`);

    const closed = server.close();
    writer.send("ter");
    const { status, headers } = (await writer.answer("POST")) as RawResponse;
    expect([status, headers.get("connection")]).toEqual([204, "close"]);
    expect(await sse.untilEnded()).toBe("end");
    const answered = await within(10_000, "the answer to the long-poll", poll);
    // It ends as a long-poll whose time is up, or with what the append in flight has brought.
    expect([200, 204]).toContain(answered.statusCode);
    expect(answered.headers["stream-next-offset"]! >= offset).toBe(true);
    await expect(fetch(`${url}/health`)).rejects.toThrow();
    await within(10_000, "the end of the server", closed);
    await other.closed;
    expect([server.tail.readers, server.tail.watchedStreams]).toEqual([0, 0]);
  });

  it("lets a slow client read the whole answer, and a live one all that was written to it", async () => {
    const { server, port, url } = await serverForTest("memory", { drainMs: 60_000 });
    const stream = await createdStream({ url } as Fixture, "s", "text/plain");
    const body = "x".repeat(8 * 1024 * 1024);
    await appended(stream, "text/plain", body);
    const clients = await Promise.all([0, 1].map(() => RawConnection.open(port)));
    for (const [i, client] of clients.entries()) {
      client.socket.pause();
      client.send(`GET /v1/stream/s${i === 0 ? "" : "?offset=-1&live=sse"} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    }
    await eventually(() => expect(server.tail.readers).toBe(1));
    const closed = server.close();
    await sleep(50);
    for (const client of clients) client.socket.resume();
    expect(((await clients[0]!.answer()) as RawResponse).body.length).toBe(body.length);
    const events = (await clients[1]!.untilClosed()).toString();
    expect(events).toContain(body);
    expect(events.endsWith("\r\n0\r\n\r\n")).toBe(true);
    await within(10_000, "the end of the server", closed);
  });

  it("cuts what does not end within the drain time", async () => {
    const { server, port } = await serverForTest("memory", { drainMs: 300 });
    const stuck = await RawConnection.open(port);
    stuck.send(
      "POST /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nhalf",
    );
    await fetch(`${server.url}/health`);
    await within(10_000, "the end of the server", server.close());
    await stuck.untilClosed();
  });

  it("does not wait for connections on which nothing is asked", async () => {
    const { server, port } = await serverForTest("memory", { drainMs: 60_000 });
    const silent = await RawConnection.open(port);
    const idle = await RawConnection.open(port);
    idle.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(await idle.answer()).toMatchObject({ status: 200 });
    await within(10_000, "the end of the server", server.close());
    await Promise.all([silent.closed, idle.closed]);
  });

  it("twice is closing once", async () => {
    const { server } = await serverForTest("memory");
    await Promise.all([server.close(), server.close()]);
    await server.close();
  });

  it("frees the port", async () => {
    const { server, port } = await serverForTest("memory");
    await server.close();
    const other = createServer().listen(port, "127.0.0.1");
    await new Promise((resolve) => other.once("listening", resolve));
    other.close();
  });
});

/** A GET by a client that would use the connection again. */
function keepAlive(url: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { headers: { Connection: "keep-alive" } }, (incoming) => {
      incoming.resume();
      incoming.on("end", () => resolve(incoming));
    });
    outgoing.on("error", reject);
    outgoing.end();
  });
}
