import { describe, expect, test } from "vitest";
import {
  FakePage,
  FakeServer,
  FakeTransport,
  fakeWorld,
  POLICY,
  refused,
  turn,
  unreachable,
} from "../../../../test/support/live-client.ts";
import type { SluiceError } from "../error.ts";
import { Identity } from "./identity.ts";
import { Link } from "./link.ts";

const ID = "00000000-0000-4000-8000-00000000000a";
const hello = { type: "hello" } as const;
const bye = (code: string, reconnect = true, retryMs = 0) => ({ type: "bye", code, reconnect, retryMs }) as const;

/** A link that has a session and opens its first connection. */
async function started(kinds: readonly ("websocket" | "sse")[] = ["sse"], page = new FakePage()) {
  const world = fakeWorld(page);
  const server = new FakeServer();
  const transports = kinds.map((kind) => new FakeTransport(kind));
  const story: unknown[] = [];
  const errors: SluiceError[] = [];
  const identity = new Identity({ world, ask: server.ask, key: "k", restored: () => {}, changed: () => {} });
  const link: Link = new Link({
    world,
    policy: POLICY,
    identity,
    transports,
    report: (error) => void errors.push(error),
    changed: () => void story.push(link.state),
    hello: () => void story.push("hello"),
    event: ({ type }) => void story.push(type),
    lost: () => void story.push("lost"),
  });
  link.start();
  const renew = async () => {
    await turn();
    await server.answer("POST sessions", { sessionId: ID, token: "t" });
  };
  await renew();
  return { world, server, transports, transport: transports[0]!, story, errors, identity, link, renew };
}

describe("a link", () => {
  test("is open from hello on, and passes on what comes then", async () => {
    const { transport, story, link } = await started();
    expect(link.state).toBe("connecting");
    transport.listener.event(hello, 5);
    transport.listener.event({ type: "notify", streamId: "a", offset: "1" }, 5);
    expect(story).toEqual(["hello", "open", "notify"]);
  });

  test("opens another connection after one is lost, without a new token, after a delay that grows", async () => {
    const { transport, story, world, server } = await started();
    transport.listener.event(hello, 5);
    transport.listener.end(unreachable());
    await turn();
    expect(story).toEqual(["hello", "open", "lost", "offline"]);
    await world.pass(75);
    expect([transport.lines.length, server.waiting.length]).toEqual([2, 0]);
    transport.listener.event(hello, 5);
    transport.listener.end(unreachable());
    await turn();
    await world.pass(149);
    expect(transport.lines.length).toBe(2);
    await world.pass(1);
    expect(transport.lines.length).toBe(3);
    // A connection that lasted was a success.
    transport.listener.event(hello, 5);
    await world.pass(2_000);
    transport.listener.end(unreachable());
    await turn();
    await world.pass(75);
    expect(transport.lines.length).toBe(4);
  });

  test("comes back when the server asked it to, and not before", async () => {
    const { transport, world } = await started();
    transport.listener.event(hello, 5);
    await world.pass(1_000);
    transport.listener.event(bye("draining", true, 3_000), 5);
    expect(transport.last.isClosed).toBe(true);
    await turn();
    await world.pass(3_000);
    expect(transport.lines.length).toBe(1);
    await world.pass(50);
    expect(transport.lines.length).toBe(2);
  });

  test("backs off from a server that ends every connection at once, whatever it asked", async () => {
    const { transport, world } = await started();
    for (const delayMs of [75, 150, 300, 600]) {
      transport.listener.event(hello, 5);
      transport.listener.event(bye("slow-reader", true, 1), 5);
      await turn();
      const { length } = transport.lines;
      await world.pass(delayMs - 1);
      expect(transport.lines.length).toBe(length);
      await world.pass(1);
      expect(transport.lines.length).toBe(length + 1);
    }
  });

  test("tries at once when the page is shown again", async () => {
    const { transport, world, link } = await started();
    transport.listener.event(hello, 5);
    transport.listener.event(bye("draining", true, 3_000), 5);
    await turn();
    link.wake();
    await turn();
    expect([transport.lines.length, world.timers]).toEqual([2, 1]);
  });

  test("replaces a connection at once that was silent while the machine slept, and no other", async () => {
    const { transport, world, link } = await started();
    transport.listener.event(hello, 5);
    link.wake();
    expect(transport.last.isClosed).toBe(false);
    const asleep = world.now() + 3_600_000;
    // The clock of the machine goes on, its timers do not.
    Object.assign(world, { now: () => asleep });
    link.wake();
    expect([transport.last.isClosed, world.timers]).toEqual([true, 0]);
  });

  test("renews the token after token-expired", async () => {
    const { transport, world, server, renew } = await started();
    transport.listener.event(hello, 5);
    transport.listener.event(bye("token-expired"), 5);
    await turn();
    await world.pass(75);
    expect(server.asked.at(-1)).toBe(`POST sessions {"sessionId":"${ID}"}`);
    await renew();
    expect(transport.lines.length).toBe(2);
  });

  test("makes a new session when the server knows it no more", async () => {
    const { transport, world, identity, server } = await started();
    transport.listener.event(hello, 5);
    transport.listener.event(bye("session-not-found", false), 5);
    await turn();
    expect(identity.id).toBeUndefined();
    await world.pass(75);
    expect(server.asked.at(-1)).toBe("POST sessions {}");
  });

  test("that was displaced keeps its session when its lock shows that no other tab has it, else makes another", async () => {
    for (const hasLocks of [true, false]) {
      const page = new FakePage();
      page.hasLocks = hasLocks;
      const { transport, identity } = await started(["sse"], page);
      transport.listener.event(hello, 5);
      transport.listener.event(bye("displaced", false), 5);
      await turn();
      expect(identity.id === ID).toBe(hasLocks);
    }
  });

  test("takes server-sent events when WebSockets do not open although the server answers, and stays with them", async () => {
    const { transports, world, renew, transport } = await started(["websocket", "sse"]);
    for (const delayMs of [75, 150]) {
      transport.listener.end(unreachable());
      await turn();
      await world.pass(delayMs);
      // The token is asked for anew, and tells a server that is down from a WebSocket that is blocked.
      await renew();
    }
    const [, sse] = transports;
    expect([transport.lines.length, sse!.lines.length]).toEqual([2, 1]);
    sse!.listener.event(hello, 5);
    sse!.listener.end(unreachable());
    await turn();
    await world.pass(10_000);
    expect([transport.lines.length, sse!.lines.length]).toEqual([2, 2]);
  });

  test("stays with WebSockets after they have worked once", async () => {
    const { transports, world, renew, transport } = await started(["websocket", "sse"]);
    transport.listener.end(unreachable());
    await turn();
    await world.pass(75);
    await renew();
    transport.listener.event(hello, 5);
    transport.listener.end(unreachable());
    await turn();
    await world.pass(1_000);
    expect([transport.lines.length, transports[1]!.lines.length]).toEqual([3, 0]);
  });

  test("gives up a connection without hello, and one that is silent", async () => {
    const { transport, world, renew } = await started();
    await world.pass(10_000);
    expect(transport.last.isClosed).toBe(true);
    await world.pass(75);
    await renew();
    transport.listener.event(hello, 5);
    await world.pass(30_000);
    transport.listener.heard();
    await world.pass(44_000);
    expect(transport.last.isClosed).toBe(false);
    await world.pass(1_000);
    expect(transport.last.isClosed).toBe(true);
  });

  test("reports a refusal, and keeps trying, seldom", async () => {
    const { transport, world, errors, server } = await started();
    transport.listener.end(refused(403, "forbidden"));
    await turn();
    expect(errors.map(({ code }) => code)).toEqual(["forbidden"]);
    await world.pass(9_999);
    expect(server.waiting).toEqual([]);
    await world.pass(1);
    expect(server.open).toEqual(["POST sessions"]);
  });

  test("leaves neither connection nor timer when it is closed", async () => {
    const { transport, world, link } = await started();
    transport.listener.event(hello, 5);
    link.close();
    await turn();
    expect([transport.last.isClosed, world.timers, link.state]).toEqual([true, 0, "offline"]);
  });
});
