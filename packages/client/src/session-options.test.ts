import { expect, test } from "vitest";
import { sessionSettings } from "./session-options.ts";

test("the options of a session are checked, and say what they allow", () => {
  for (const [options, says] of [
    [{ name: 5 }, "name must be a text; got 5"],
    [{ heartbeatMs: 10 }, "heartbeatMs must be a number of at least 1000; got 10"],
    [{ heartbeatMs: 60_000 }, "heartbeatMs must be at most 30000; got 60000"],
    [{ transport: "carrier pigeon" }, 'transport must be "auto", "websocket" or "sse"; got "carrier pigeon"'],
    [{ WebSocket: "ws" }, 'WebSocket must be a class; got "ws"'],
    [{ storage: {} }, "storage must be like sessionStorage, or false"],
  ] as const) {
    expect(() => sessionSettings(options as never)).toThrow(says);
  }
});

test("a WebSocket is used where there is one, unless the caller wants events, and must exist where the caller wants it", () => {
  class Socket {}
  const WebSocket = Socket as never;
  expect(sessionSettings({ WebSocket })).toMatchObject({ Socket, usesSse: true });
  expect(sessionSettings({ WebSocket, transport: "websocket" })).toMatchObject({ Socket, usesSse: false });
  expect(sessionSettings({ WebSocket, transport: "sse" })).toMatchObject({ Socket: undefined, usesSse: true });
});
