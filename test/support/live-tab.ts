/**
 * A live session of the client on a fake world, server and transport, with the answers that most tests need.
 *
 * Invariants: a session that a test leaves is closed, and a timer that is left then fails the test.
 */
import { expect, onTestFinished } from "vitest";
import type { Call } from "../../packages/client/src/connection.ts";
import { LiveSession } from "../../packages/client/src/live/live-session.ts";
import { at, FakePage, FakeServer, FakeTransport, type FakeWorld, fakeWorld, POLICY, turn } from "./live-client.ts";

export const ID = "00000000-0000-4000-8000-00000000000a";
export const UP_TO_DATE = { "Stream-Up-To-Date": "true" };

export interface Tab {
  readonly world: FakeWorld;
  readonly server: FakeServer;
  readonly transport: FakeTransport;
  readonly session: LiveSession;
  /** Requests that were sent without waiting for an answer. */
  readonly last: Call[];
  /** Opens a connection, and answers what follows `hello` in every session. */
  hello(stored?: object[]): Promise<void>;
  /** Answers the subscription and the catch-up of a stream. */
  follow(stream: string, epoch: number, offset: number): Promise<void>;
  push(stream: string, seq: number, payload?: unknown): void;
}

export async function openTab(page = new FakePage(), kind: "websocket" | "sse" = "sse"): Promise<Tab> {
  const world = fakeWorld(page);
  const server = new FakeServer();
  const transport = new FakeTransport(kind);
  const last: Call[] = [];
  const opening = LiveSession.open({
    world,
    policy: POLICY,
    heartbeatMs: 15_000,
    transports: [transport],
    ask: server.ask,
    sendLast: (call) => void last.push(call),
    key: "k",
    addressOf: (path) => `stream/${path}`,
    closed: () => {},
  });
  await turn();
  await server.answer("POST sessions", { sessionId: ID, token: "t" });
  const session = await opening;
  await turn();
  onTestFinished(async () => {
    void session.close();
    await turn();
    expect(world.timers).toBe(0);
  });
  return {
    world,
    server,
    transport,
    session,
    last,
    async hello(stored = []) {
      transport.listener.event({ type: "hello" }, 10);
      await turn();
      if (kind === "sse") await server.answer("POST heartbeat", { expiresAt: 1 });
      await server.answer("GET session-offsets", stored);
    },
    async follow(stream, epoch, offset) {
      await server.answer("POST subscriptions", { streamId: stream, epoch, offset: at(offset) });
      await server.answer(`GET stream/${stream}`, "[]", { ...UP_TO_DATE, "Stream-Next-Offset": at(offset) });
    },
    push: (streamId, seq, payload = seq) =>
      transport.listener.event({ type: "data", streamId, offset: at(seq), payload }, 10),
  };
}
