import { describe, expect, test } from "vitest";
import { at, FakePage, refused, turn, unreachable } from "../../../../test/support/live-client.ts";
import { ID, openTab, UP_TO_DATE } from "../../../../test/support/live-tab.ts";

const OTHER = "00000000-0000-4000-8000-00000000000b";

describe("a session", () => {
  test("tells its status: connecting, catching up, live, offline", async () => {
    const { session, hello, follow, transport, world, server } = await openTab();
    const story: string[] = [session.status];
    session.on("status", (status) => story.push(status));
    session.subscribe("a", () => {});
    await hello();
    await follow("a", 1, 0);
    transport.listener.end(unreachable());
    await turn();
    await world.pass(75);
    await hello([{ streamId: "a", lastOffset: at(0), epoch: 1 }]);
    await server.answer("GET stream/a", "[]", { ...UP_TO_DATE, "Stream-Next-Offset": at(0) });
    const once = ["connecting", "catching-up", "live"];
    expect(story).toEqual([...once, "offline", ...once]);
  });

  test("is offline as soon as the platform says so, and tries at once when the network is back", async () => {
    const { session, hello, world, transport } = await openTab();
    await hello();
    world.page.offline!();
    await turn();
    expect([session.status, transport.last.isClosed]).toEqual(["offline", true]);
    world.page.wake!();
    await turn();
    expect([session.status, transport.lines.length]).toEqual(["connecting", 2]);
  });

  test("follows a stream from the answer on, and gives each message to every handler once", async () => {
    const { session, hello, follow, push, server } = await openTab();
    await hello();
    const seen: unknown[] = [];
    session.subscribe("a", ({ value }) => void seen.push(value));
    await follow("a", 1, 3);
    push("a", 4);
    session.subscribe("a", ({ value }) => void seen.push(`second ${value}`));
    await server.answer("GET stream/a", "[]", { ...UP_TO_DATE, "Stream-Next-Offset": at(4) });
    push("a", 5);
    push("a", 5);
    push("unknown", 1);
    expect(seen).toEqual([4, 5, "second 5"]);
    expect(server.asked.filter((line) => line.startsWith("POST subscriptions")).length).toBe(1);
  });

  test("says what was processed right after hello, and then catches up, from its own offset", async () => {
    const { session, hello, follow, push, transport, world, server } = await openTab();
    await hello();
    session.subscribe("a", () => {});
    await follow("a", 1, 3);
    push("a", 4);
    transport.listener.end(unreachable());
    await turn();
    await world.pass(75);
    server.asked.length = 0;
    transport.listener.event({ type: "hello" }, 10);
    await turn();
    expect(server.asked).toEqual([
      `POST heartbeat {"sessionId":"${ID}","offsets":[{"streamId":"a","lastOffset":"${at(4)}","epoch":1}]}`,
      `GET stream/a?offset=${at(4)}&session=${ID}`,
      `GET session-offsets/${ID}`,
    ]);
  });

  test("does not wait for answers to requests of an earlier connection", async () => {
    const { session, hello, follow, push, transport, world, server } = await openTab();
    await hello();
    session.subscribe("a", () => {});
    await follow("a", 1, 3);
    push("a", 4);
    transport.listener.event({ type: "notify", streamId: "a", offset: at(5) }, 10);
    session.subscribe("b", () => {});
    await world.pass(15_000);
    const open = ["GET stream/a", "POST subscriptions", "POST heartbeat"];
    expect(server.open).toEqual(open);
    transport.listener.end(unreachable());
    await turn();
    await world.pass(75);
    server.asked.length = 0;
    transport.listener.event({ type: "hello" }, 10);
    await turn();
    expect(server.open).toEqual(["POST heartbeat", `GET session-offsets/${ID}`]);
    await world.pass(75);
    expect(server.open.sort()).toEqual([...open, `GET session-offsets/${ID}`].sort());
  });

  test("sends in a heartbeat what is new, at its interval, and the least of several handlers", async () => {
    const { session, hello, follow, push, world, server, transport } = await openTab();
    await hello();
    session.subscribe("a", () => {});
    await follow("a", 1, 3);
    session.subscribe("a", ({ value }) => (value === 5 ? new Promise(() => {}) : undefined));
    await server.answer("GET stream/a", "[]", { ...UP_TO_DATE, "Stream-Next-Offset": at(3) });
    push("a", 4);
    push("a", 5);
    const beat = async () => {
      server.asked.length = 0;
      await world.pass(15_000);
      await server.answer("POST heartbeat", { expiresAt: 1 });
      return server.asked.filter((line) => line.startsWith("POST heartbeat"));
    };
    expect(await beat()).toEqual([
      `POST heartbeat {"sessionId":"${ID}","offsets":[{"streamId":"a","lastOffset":"${at(4)}","epoch":1}]}`,
    ]);
    expect(await beat()).toEqual([`POST heartbeat {"sessionId":"${ID}","offsets":[]}`]);
    // A handler that has not begun has finished nothing.
    transport.listener.heard();
    push("a", 6);
    session.subscribe("a", () => {}, { from: "beginning" });
    expect(await beat()).toEqual([`POST heartbeat {"sessionId":"${ID}","offsets":[]}`]);
  });

  test("sends heartbeats over the connection where it can", async () => {
    const { session, hello, follow, push, world, transport, server } = await openTab(new FakePage(), "websocket");
    await hello();
    session.subscribe("a", () => {});
    await follow("a", 1, 3);
    push("a", 4);
    await world.pass(15_000);
    expect(transport.beats.at(-1)).toEqual({
      sessionId: ID,
      offsets: [{ streamId: "a", lastOffset: at(4), epoch: 1 }],
    });
    expect(server.asked.filter((line) => line.startsWith("POST heartbeat"))).toEqual([]);
  });

  test("sends no heartbeat that is larger than a server takes, and tells of every stream", async () => {
    const { session, hello, follow, push, world, transport } = await openTab(new FakePage(), "websocket");
    await hello();
    const streams = Array.from({ length: 500 }, (_, i) => `${"道".repeat(50)}/${i}`);
    for (const stream of streams) {
      session.subscribe(stream, () => {});
      await follow(stream, 1, 3);
      push(stream, 4);
    }
    transport.beats.length = 0;
    await world.pass(15_000);
    await turn();
    const beats = transport.beats as { readonly offsets: readonly { readonly streamId: string }[] }[];
    for (const beat of beats) expect(Buffer.byteLength(JSON.stringify(beat))).toBeLessThan(64 * 1024);
    expect(beats.flatMap(({ offsets }) => offsets.map(({ streamId }) => streamId))).toEqual(streams);
  });

  test("says its last word when the page is hidden, within what browsers allow, and keeps its offsets", async () => {
    const page = new FakePage();
    const { session, hello, follow, push, last } = await openTab(page);
    await hello();
    session.subscribe("a", () => {});
    await follow("a", 1, 3);
    page.hide!({ bytes: 1_000 });
    expect(last).toEqual([]);
    push("a", 4);
    page.hide!({ bytes: 10 });
    expect(last).toEqual([]);
    page.hide!({ bytes: 1_000 });
    expect(JSON.parse(last[0]!.body as string).offsets).toEqual([{ streamId: "a", lastOffset: at(4), epoch: 1 }]);
    expect(JSON.parse(page.items.get("k")!)).toEqual({ id: ID, offsets: { a: at(4) } });
  });

  test("starts after a reload where the page before stopped, also if its last word was lost", async () => {
    const page = new FakePage();
    page.items.set("k", JSON.stringify({ id: ID, offsets: { a: at(6) } }));
    const { session, hello, server } = await openTab(page);
    await hello();
    session.subscribe("a", () => {});
    await turn();
    await server.answer("POST subscriptions", { streamId: "a", epoch: 1, offset: at(4) });
    expect(server.asked.at(-1)).toBe(`GET stream/a?offset=${at(6)}&session=${ID}`);
  });

  test("asks again for a subscription that the server has lost", async () => {
    const { session, hello, follow, transport, world, server } = await openTab();
    await hello();
    session.subscribe("a", () => {});
    await follow("a", 1, 3);
    transport.listener.end(unreachable());
    await turn();
    await world.pass(75);
    server.asked.length = 0;
    await hello([{ streamId: "b", lastOffset: at(1), epoch: 2 }]);
    expect(server.asked.at(-1)).toBe(`POST subscriptions {"sessionId":"${ID}","streamId":"a"}`);
  });

  test("leaves a stream that only an earlier page followed, when the page does not subscribe to it soon", async () => {
    const { session, hello, world, server } = await openTab();
    await hello([
      { streamId: "a", lastOffset: at(1), epoch: 4 },
      { streamId: "b", lastOffset: at(1), epoch: 5 },
    ]);
    session.subscribe("b", () => {});
    await world.pass(16_500);
    expect(server.asked.filter((line) => line.startsWith("DELETE"))).toEqual([
      `DELETE subscriptions {"sessionId":"${ID}","streamId":"a","epoch":4}`,
    ]);
  });

  test("keeps a subscription for a moment after its last handler, and then removes it, before it asks again", async () => {
    const { session, hello, follow, world, server } = await openTab();
    await hello();
    session.subscribe("a", () => {}).unsubscribe();
    const again = session.subscribe("a", () => {});
    await turn();
    await follow("a", 1, 3);
    again.unsubscribe();
    await world.pass(999);
    const third = session.subscribe("a", () => {});
    await server.answer("GET stream/a", "[]", { ...UP_TO_DATE, "Stream-Next-Offset": at(3) });
    third.unsubscribe();
    server.asked.length = 0;
    await world.pass(1_000);
    const removal = `DELETE subscriptions {"sessionId":"${ID}","streamId":"a","epoch":1}`;
    expect(server.asked).toEqual([removal]);
    session.subscribe("a", () => {});
    await server.refuse("DELETE", unreachable());
    await world.pass(75);
    expect(server.asked).toEqual([removal, removal]);
    await server.answer("DELETE", "", {}, 204);
    expect(server.asked.at(-1)).toBe(`POST subscriptions {"sessionId":"${ID}","streamId":"a"}`);
  });

  test("resumes a parked subscription after a while, also one that was parked before its answer", async () => {
    const { session, hello, follow, world, server, transport } = await openTab();
    await hello();
    session.subscribe("a", () => {});
    await turn();
    transport.listener.event({ type: "idle", streamId: "a", epoch: 1 }, 10);
    await follow("a", 1, 3);
    for (let i = 0; i < 2; i++) {
      server.asked.length = 0;
      await world.pass(1_500);
      await follow("a", 1, 3);
      expect(server.asked.map((line) => line.split(" ")[1]!.split("?")[0])).toEqual(["subscriptions", "stream/a"]);
      transport.listener.event({ type: "idle", streamId: "a", epoch: 1 }, 10);
      transport.listener.event({ type: "idle", streamId: "a", epoch: 0 }, 10);
    }
  });

  test("goes on with another session when the server forgets this one, from its own offsets", async () => {
    const { session, hello, follow, push, transport, world, server } = await openTab();
    await hello();
    const seen: unknown[] = [];
    session.subscribe("a", ({ value }) => void seen.push(value));
    await follow("a", 1, 3);
    push("a", 4);
    await world.pass(15_000);
    await server.refuse("POST heartbeat", refused(404, "session-not-found"));
    expect(transport.last.isClosed).toBe(true);
    await world.pass(75);
    await server.answer("POST sessions", { sessionId: OTHER, token: "t" });
    await hello();
    await server.answer("POST subscriptions", { streamId: "a", epoch: 1, offset: at(6) });
    expect(server.asked.at(-1)).toBe(`GET stream/a?offset=${at(4)}&session=${OTHER}`);
    expect([session.id, seen]).toEqual([OTHER, [4]]);
  });

  test("ends a subscription to a stream that does not exist, with a report", async () => {
    const { session, hello, server } = await openTab();
    await hello();
    const story: unknown[] = [];
    session.on("error", ({ code }) => story.push(code));
    session.subscribe("a", () => {}, { onEnd: ({ reason, error }) => story.push(reason, error?.code) });
    await turn();
    await server.refuse("POST subscriptions", refused(404, "stream-not-found"));
    expect([story, session.status]).toEqual([["stream-not-found", "refused", "stream-not-found"], "live"]);
  });

  test("asks anew when a user subscribes again because the stream is gone", async () => {
    const { session, hello, follow, transport, server } = await openTab();
    await hello();
    const ends: string[] = [];
    const follows = () =>
      void session.subscribe("a", () => {}, {
        onEnd: ({ reason }) => {
          ends.push(reason);
          follows();
        },
      });
    follows();
    await turn();
    await follow("a", 1, 3);
    server.asked.length = 0;
    transport.listener.event({ type: "gone", streamId: "a", epoch: 1 }, 10);
    await turn();
    expect([ends, server.asked]).toEqual([["gone"], [`POST subscriptions {"sessionId":"${ID}","streamId":"a"}`]]);
  });

  test("reads again when the server says that a heartbeat is ahead of its stream", async () => {
    const { session, hello, follow, push, world, server } = await openTab();
    await hello();
    session.subscribe("a", () => {});
    await follow("a", 1, 3);
    push("a", 4);
    await world.pass(15_000);
    await server.refuse("POST heartbeat", refused(400, "offset-ahead"));
    expect(server.open).toContain("GET stream/a");
  });

  test("shows itself on a stream, lists the members anew after every hello, and tells of changes together", async () => {
    const { session, hello, follow, transport, world, server } = await openTab();
    await hello();
    const presence = session.presence("a", { state: { cursor: 1 } });
    const told: string[][] = [];
    presence.on("change", (members) => told.push(members.map(({ sessionId }) => sessionId)));
    await turn();
    expect(server.asked.at(-1)).toBe(
      `POST subscriptions {"sessionId":"${ID}","streamId":"a","presence":true,"state":{"cursor":1}}`,
    );
    await server.answer("POST subscriptions", { streamId: "a", epoch: 1, offset: at(0) });
    const event = (type: "join" | "leave" | "update", sessionId: string) =>
      transport.listener.event({ type: "presence", streamId: "a", event: type, member: { sessionId, since: 1 } }, 10);
    event("join", "x");
    event("join", "y");
    await world.pass(20);
    event("leave", "x");
    await world.pass(20);
    expect([told, presence.members.length]).toEqual([[["x", "y"], ["y"]], 1]);
    transport.listener.end(unreachable());
    await turn();
    await world.pass(75);
    await hello([{ streamId: "a", lastOffset: at(0), epoch: 1 }]);
    event("join", "z");
    await world.pass(20);
    expect(told.at(-1)).toEqual(["z"]);
    presence.setState(2);
    await turn();
    expect(server.asked.at(-1)).toContain('"state":2');
    await server.answer("POST subscriptions", { streamId: "a", epoch: 1, offset: at(0) });
    session.subscribe("a", () => {});
    presence.leave();
    await turn();
    await follow("a", 1, 0);
    expect(server.asked.filter((line) => line.startsWith("POST subscriptions")).at(-1)).toBe(
      `POST subscriptions {"sessionId":"${ID}","streamId":"a"}`,
    );
    expect(() => presence.setState("x".repeat(2_000))).toThrow("1024 bytes");
  });

  test("refuses wrong arguments at once, and everything after it was closed", async () => {
    const { session } = await openTab();
    expect(() => session.subscribe("a", 5 as never)).toThrow(TypeError);
    expect(() => session.subscribe("a", () => {}, { from: 5 as never })).toThrow("from must be");
    expect(() => session.subscribe("a", () => {}, { onGap: "x" as never })).toThrow("onGap must be");
    expect(() => session.on("status", 1 as never)).toThrow(TypeError);
    void session.close();
    expect(() => session.subscribe("a", () => {})).toThrow("closed");
  });

  test("reports to the platform when no listener hears an error, and survives listeners that throw", async () => {
    const { session, world, hello } = await openTab();
    session.on("status", () => {
      throw new Error("no");
    });
    await hello();
    expect(world.reported.map(({ code }) => code)).toEqual(["handler-failed"]);
    const stop = session.on("error", () => {
      throw new Error("not even this");
    });
    session.subscribe("a", () => {});
    expect(world.reported.length).toBe(2);
    stop();
  });
});
