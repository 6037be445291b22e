/** Connections of gRPC whose clients read slowly, fall silent, leave, or flood: the server keeps its room and serves others. */
import { connect } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { eventually, sleep } from "../e2e/server.ts";
import { bytes, frame, RawClient, text } from "./raw-client.ts";
import {
  expectAlive,
  GOAWAY,
  MEBIBYTE,
  memoryOf,
  metric,
  PREFACE,
  PULL,
  SETTINGS,
  server,
  subscribed,
  TOPIC,
} from "./raw-server.ts";

describe("a client that reads slowly", () => {
  const pulled = async (grpc: object) => {
    const fixture = await server({ internal: { grpc } });
    await subscribed(fixture.client);
    const message = bytes(2, bytes(1, Buffer.alloc(MEBIBYTE)));
    expect((await fixture.client.call("Publisher/Publish", Buffer.concat([text(1, TOPIC), message]))).code).toBe(0);
    const { stream, outcome } = fixture.client.open("Subscriber/Pull");
    stream.pause();
    stream.end(frame(PULL));
    await new Promise((resolve) => stream.once("response", resolve));
    return { fixture, stream, outcome };
  };

  it("gets its response, which may take longer than the end of the call", async () => {
    const { stream, outcome } = await pulled({ lingerMs: 30 });
    await sleep(100);
    stream.resume();
    const { code, data } = await outcome;
    expect(code).toBe(0);
    expect(data.length).toBeGreaterThan(MEBIBYTE);
  });

  it("and takes nothing of it loses the call", async () => {
    const { fixture } = await pulled({ requestMs: 1_000, lingerMs: 600_000 });
    await eventually(async () => expect(await memoryOf(fixture)).toBe(0));
  });
});

describe("connections", () => {
  it("of gRPC take at most half of the room, and those of HTTP are served", async () => {
    const fixture = await server({ http: { connections: 8 } });
    fixture.client.session.destroy();
    const sockets = Array.from({ length: 20 }, () => connect(fixture.server.grpcPort!, "127.0.0.1"));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
    });
    for (const socket of sockets) socket.on("error", () => {});
    await eventually(() => expect(sockets.filter(({ closed }) => !closed)).toHaveLength(4));
    expect(await metric(fixture, "sluice_grpc_connections")).toBe(4);
    expect((await fetch(`${fixture.url}/health`)).status).toBe(200);
    for (const socket of sockets) socket.destroy();
    await eventually(async () => expect(await metric(fixture, "sluice_grpc_connections")).toBe(0));
    await expectAlive(fixture);
  });

  it("that are silent, or without calls for long, are closed", async () => {
    const fixture = await server({ internal: { grpc: { pingMs: 30, pongMs: 30, idleMs: 100 } } });
    const silent = connect(fixture.server.grpcPort!, "127.0.0.1");
    silent.on("error", () => {});
    silent.resume();
    await new Promise((resolve) => silent.once("close", resolve));
    const { session } = RawClient.to(fixture.server.grpcPort!);
    await new Promise((resolve) => session.once("close", resolve));
  });

  it.each([
    ["says that it leaves", { pingMs: 30, idleMs: 600_000 }, [GOAWAY]],
    ["calls nothing for long", { pingMs: 30, pongMs: 30, idleMs: 10 }, []],
  ])("of a client that %s and keeps its side open are cut", async (_what, grpc, said) => {
    const fixture = await server({ internal: { grpc } });
    fixture.client.session.destroy();
    const socket = connect({ port: fixture.server.grpcPort!, host: "127.0.0.1", allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => {});
    socket.resume();
    socket.write(Buffer.concat([PREFACE, SETTINGS, ...said]));
    await new Promise((resolve) => socket.once("end", resolve));
    await eventually(async () => expect(await metric(fixture, "sluice_grpc_connections")).toBe(0));
    await expectAlive(fixture);
  });

  it("of a client that leaves stay until its calls are answered", async () => {
    const fixture = await server({ internal: { grpc: { pingMs: 30 } } });
    await subscribed(fixture.client);
    const leaving = RawClient.to(fixture.server.grpcPort!);
    const { stream, outcome } = leaving.open("Subscriber/Pull");
    stream.end(frame(PULL));
    await eventually(async () => expect(await metric(fixture, "sluice_grpc_requests_active")).toBe(1));
    leaving.session.goaway(0);
    // Long enough for some signs of life to be due.
    await sleep(200);
    await fixture.client.call("Publisher/Publish", Buffer.concat([text(1, TOPIC), bytes(2, text(1, "late"))]));
    expect((await outcome).data.toString()).toContain("late");
  });

  it.each([
    [
      "resets each call",
      async ({ session }: RawClient) => {
        for (let i = 0; i < 20_000 && !session.destroyed; i++) {
          const type = i % 2 === 0 ? { "content-type": "application/grpc" } : {};
          const stream = session.request({
            ":method": "POST",
            ":path": "/google.pubsub.v1.Publisher/Publish",
            ...type,
          });
          stream.on("error", () => {});
          stream.close(8);
          if (i % 100 === 0) await new Promise(setImmediate);
        }
      },
    ],
    [
      "floods pings and settings",
      async ({ session }: RawClient) => {
        session.setMaxListeners(0);
        for (let i = 0; i < 20_000 && !session.destroyed; i++) {
          session.ping(Buffer.alloc(8), () => {});
          session.settings({ initialWindowSize: 65_535 + i }, () => {});
          if (i % 100 === 0) await new Promise(setImmediate);
        }
      },
    ],
  ])("of a client that %s do not harm others", async (_what, attack) => {
    const fixture = await server();
    await Promise.all([
      attack(fixture.client),
      (async () => {
        for (let i = 0; i < 20; i++) await expectAlive(fixture);
      })(),
    ]);
    fixture.client.session.destroy();
    await eventually(async () => expect(await metric(fixture, "sluice_grpc_requests_active")).toBe(0));
    await eventually(async () => expect(await memoryOf(fixture)).toBe(0));
  });
});
