import { expect, test } from "vitest";
import {
  at,
  FakePage,
  FakeServer,
  FakeTransport,
  fakeWorld,
  POLICY,
  refused,
  turn,
  unreachable,
} from "../../../../test/support/live-client.ts";
import { ID, openTab } from "../../../../test/support/live-tab.ts";
import { LiveSession } from "./live-session.ts";

const OTHER = "00000000-0000-4000-8000-00000000000b";

test("a session that cannot be opened rejects: at once when it is refused, after a while when there is no answer", async () => {
  const world = fakeWorld();
  const server = new FakeServer();
  const open = () =>
    LiveSession.open({
      world,
      policy: { ...POLICY, giveUpMs: 200 },
      heartbeatMs: 15_000,
      transports: [new FakeTransport()],
      ask: server.ask,
      sendLast: () => {},
      key: "k",
      addressOf: (path) => path,
      closed: () => {},
    });
  const forbidden = expect(open()).rejects.toMatchObject({ code: "forbidden" });
  await turn();
  await server.refuse("POST sessions", refused(403, "forbidden"));
  await forbidden;
  const lost = expect(open()).rejects.toMatchObject({ code: "unreachable" });
  await turn();
  await server.refuse("POST sessions", unreachable());
  await world.pass(75);
  await server.refuse("POST sessions", unreachable());
  await lost;
  expect(world.timers).toBe(0);
});

test("a session that could not be opened leaves its lock, so that the next attempt takes up the session of the page", async () => {
  const page = new FakePage();
  page.items.set("k", JSON.stringify({ id: ID, offsets: { a: at(6) } }));
  const server = new FakeServer();
  const opening = LiveSession.open({
    world: fakeWorld(page),
    policy: { ...POLICY, giveUpMs: 0 },
    heartbeatMs: 15_000,
    transports: [new FakeTransport("sse")],
    ask: server.ask,
    sendLast: () => {},
    key: "k",
    addressOf: (path) => path,
    closed: () => {},
  });
  const failed = expect(opening).rejects.toMatchObject({ code: "unreachable" });
  await turn();
  await server.refuse("POST sessions", unreachable());
  await failed;
  expect((await openTab(page)).server.asked[0]).toBe(`POST sessions {"sessionId":"${ID}"}`);
});

test("a session that is closed while it makes another one keeps no lock", async () => {
  const page = new FakePage();
  const { session, server, transport } = await openTab(page);
  transport.listener.event({ type: "bye", code: "session-not-found", reconnect: false, retryMs: 0 }, 10);
  await turn();
  page.wake!();
  await turn();
  void session.close();
  await server.answer("POST sessions", { sessionId: OTHER, token: "t" });
  expect([...page.locks]).toEqual([]);
});
