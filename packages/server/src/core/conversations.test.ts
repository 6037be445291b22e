/** What the server tells a client of a WebSocket before it ends the connection, and when it does. */
import { expect, test } from "vitest";
import { FakeSink } from "../../../../test/support/fake-sink.ts";
import { manualWorld } from "../../../../test/support/world.ts";
import { type Access, FULL_ACCESS } from "./action.ts";
import { Audience } from "./audience.ts";
import { Conversations } from "./conversations.ts";
import type { Socket } from "./socket.ts";

const CHECK_MS = 1_000;
const SPREAD_MS = 5_000;

class FakeSocket extends FakeSink implements Socket {
  say: (text: string) => Promise<void> = async () => {};

  onText(listener: (text: string) => Promise<void>): void {
    this.say = listener;
  }

  /** The frame behind its two bytes of head. */
  get bye(): unknown {
    return JSON.parse(this.text.slice(this.text.indexOf("{")));
  }
}

function setUp() {
  const world = manualWorld(1);
  const audience = new Audience(10);
  const limits = {
    lifetimeMs: 60_000,
    slowReaderBytes: 100,
    heartbeatMs: 15_000,
    checkMs: CHECK_MS,
    spreadMs: SPREAD_MS,
  };
  const conversations = new Conversations({ engine: world, world, audience, limits });
  const open = (access: Access = FULL_ACCESS) => {
    const socket = new FakeSocket();
    const heard: string[] = [];
    const take = async (text: string) => void heard.push(text);
    let gone = 0;
    conversations.accept(
      access,
      socket,
      () => gone++,
      () => ({ take }),
    );
    return { socket, heard, gone: () => gone };
  };
  return { world, audience, conversations, open };
}

test("the frames of a client reach its conversation, and its leaving is told once", async () => {
  const { conversations, open } = setUp();
  const { socket, heard, gone } = open();
  await socket.say("a");
  await socket.say("b");
  expect(heard).toEqual(["a", "b"]);
  expect(conversations.size).toBe(1);
  socket.leave();
  expect([gone(), conversations.size]).toEqual([1, 0]);
});

test("a connection ends within a second of its token, and the client is asked to come back", () => {
  const { world, open } = setUp();
  const short = open({ ...FULL_ACCESS, untilMs: world.now() + 2_500 });
  const long = open();
  world.advance(2 * CHECK_MS);
  expect(short.socket.endedBy).toBeUndefined();
  world.advance(CHECK_MS);
  expect(short.socket.endedBy).toBe("expired");
  const bye = short.socket.bye as { readonly retryMs: number };
  expect(bye).toMatchObject({ type: "bye", code: "token-expired", reconnect: true });
  expect(bye.retryMs).toBeGreaterThanOrEqual(0);
  expect(bye.retryMs).toBeLessThanOrEqual(SPREAD_MS);
  expect(long.socket.endedBy).toBeUndefined();
});

test("a client of a server that shuts down is told so", () => {
  const { audience, open } = setUp();
  const { socket } = open();
  audience.drain();
  expect(socket.endedBy).toBe("drained");
  expect(socket.bye).toMatchObject({ type: "bye", code: "draining", reconnect: true });
});
