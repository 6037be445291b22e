import { describe, expect, test } from "vitest";
import { FakePage, FakeServer, fakeWorld, refused, turn, unreachable } from "../../../../test/support/live-client.ts";
import { Identity } from "./identity.ts";

const A = "00000000-0000-4000-8000-00000000000a";
const B = "00000000-0000-4000-8000-00000000000b";

function identityOn(page = new FakePage()) {
  const world = fakeWorld(page);
  const server = new FakeServer();
  const story: unknown[] = [];
  const identity = new Identity({
    world,
    ask: server.ask,
    key: "k",
    restored: (offsets) => void story.push(offsets),
    changed: () => void story.push("changed"),
  });
  return { world, page, server, identity, story };
}

/** A tab that has a session and has stored it. */
async function settledOn(page = new FakePage(), sessionId = A) {
  const all = identityOn(page);
  const ready = all.identity.ready();
  await turn();
  await all.server.answer("POST sessions", { sessionId, token: "t1" });
  await ready;
  return all;
}

describe("a tab", () => {
  test("makes a session, stores it, holds its lock, and asks once for all callers", async () => {
    const { identity, server, page } = identityOn();
    const both = Promise.all([identity.ready(), identity.ready()]);
    await turn();
    expect(server.asked).toEqual(["POST sessions {}"]);
    await server.answer("POST sessions", { sessionId: A, token: "t1" });
    expect(await both).toEqual([
      { sessionId: A, token: "t1" },
      { sessionId: A, token: "t1" },
    ]);
    expect([identity.isSole, [...page.locks], page.items.get("k")]).toEqual([
      true,
      [`sluice:session:${A}`],
      JSON.stringify({ id: A, offsets: {} }),
    ]);
  });

  test("takes up its session and its offsets after a reload", async () => {
    const { identity: before, page } = await settledOn();
    before.save({ "doc/9": "5" });
    page.locks.clear();
    const { identity, server, story } = identityOn(page);
    const ready = identity.ready();
    await turn();
    await server.answer("POST sessions", { sessionId: A, token: "t2" });
    expect([await ready, server.asked, story]).toEqual([
      { sessionId: A, token: "t2" },
      [`POST sessions {"sessionId":"${A}"}`],
      [{ "doc/9": "5" }],
    ]);
  });

  test("that was duplicated makes a session of its own, because the first tab holds the lock", async () => {
    const { page, identity: first } = await settledOn();
    const { identity, story } = await settledOn(page, B);
    expect([first.id, identity.id, story]).toEqual([A, B, []]);
    expect(page.locks.size).toBe(2);
  });

  test("makes a new session when the server knows the stored one no more", async () => {
    const { page } = await settledOn();
    page.locks.clear();
    const { identity, server, story } = identityOn(page);
    const ready = identity.ready();
    await turn();
    await server.refuse("POST sessions", refused(404, "session-not-found"));
    await server.answer("POST sessions", { sessionId: B, token: "t" });
    expect([(await ready).sessionId, story, [...page.locks]]).toEqual([B, [{}, "changed"], [`sluice:session:${B}`]]);
  });

  test("renews its token every few minutes, and when it is distrusted", async () => {
    const { identity, server, world } = await settledOn();
    await world.pass(239_000);
    expect(await identity.ready()).toEqual({ sessionId: A, token: "t1" });
    expect(server.waiting).toEqual([]);
    await world.pass(1_000);
    const renewed = identity.ready();
    await turn();
    await server.answer("POST sessions", { sessionId: A, token: "t2" });
    expect((await renewed).token).toBe("t2");
    identity.distrust();
    void identity.ready();
    await turn();
    expect(server.open).toEqual(["POST sessions"]);
  });

  test("ignores what another script has put into its storage", async () => {
    for (const stored of ["", "{", "null", "7", '{"id":5}', '{"id":"no uuid"}']) {
      const page = new FakePage();
      page.items.set("k", stored);
      const { server } = await settledOn(page);
      expect(server.asked).toEqual(["POST sessions {}"]);
    }
  });

  test("works without locks, and knows that it may not be alone", async () => {
    const page = new FakePage();
    page.hasLocks = false;
    const { identity } = await settledOn(page);
    expect(identity.isSole).toBe(false);
  });

  test("rejects with the error of the server, and an answer that is no session's", async () => {
    const { identity, server } = identityOn();
    const lost = identity.ready();
    await turn();
    const failed = expect(lost).rejects.toMatchObject({ code: "unreachable" });
    await server.refuse("POST sessions", unreachable());
    await failed;
    const odd = expect(identity.ready()).rejects.toMatchObject({ code: "bad-answer" });
    await turn();
    await server.answer("POST sessions", "<html>");
    await odd;
  });
});
