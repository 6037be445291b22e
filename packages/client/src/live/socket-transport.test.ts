import { expect, test } from "vitest";
import { turn } from "../../../../test/support/live-client.ts";
import type { SocketLike } from "../text-socket.ts";
import { SocketTransport } from "./socket-transport.ts";
import type { Line, LineListener } from "./transport.ts";

class FakeSocket implements SocketLike {
  static last: FakeSocket;
  onmessage: ((message: { readonly data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly sent: string[] = [];
  isClosed = false;

  constructor(readonly url: string) {
    FakeSocket.last = this;
  }

  send(text: string): void {
    if (this.isClosed) throw new Error("closed");
    this.sent.push(text);
  }

  close(): void {
    this.isClosed = true;
    this.onclose?.();
  }

  says(frame: unknown): void {
    this.onmessage?.({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
  }
}

function opened(Socket: new (url: string) => SocketLike = FakeSocket) {
  const story: unknown[] = [];
  const listener: LineListener = {
    heard: () => void story.push("heard"),
    event: ({ type }, chars) => void story.push([type, chars]),
    end: ({ code, retryable }) => void story.push([code, retryable]),
  };
  const transport = new SocketTransport(Socket, ({ sessionId, token }) => `ws://x/${sessionId}?token=${token}`);
  const line: Line = transport.open({ sessionId: "s", token: "t" }, listener);
  return { story, line };
}

test("a socket is opened at the session's address, and passes on the events that the client knows", () => {
  const { story } = opened();
  expect(FakeSocket.last.url).toBe("ws://x/s?token=t");
  FakeSocket.last.says({ type: "hello" });
  FakeSocket.last.says({ type: "of a newer server" });
  expect(story).toEqual(["heard", ["hello", 16], "heard"]);
});

test("a request over a socket is answered by its number, whatever comes in between", async () => {
  const { line } = opened();
  const [first, second] = [line.ask!("heartbeat", { a: 1 }), line.ask!("heartbeat", { a: 2 })];
  expect(FakeSocket.last.sent).toEqual(['{"type":"heartbeat","ref":1,"a":1}', '{"type":"heartbeat","ref":2,"a":2}']);
  const refused = expect(second).rejects.toMatchObject({ code: "offset-ahead", message: "no", retryable: false });
  FakeSocket.last.says({ type: "error", ref: 2, code: "offset-ahead", detail: "no" });
  FakeSocket.last.says({ type: "hello" });
  FakeSocket.last.says({ type: "ok", ref: 1 });
  await first;
  await refused;
});

test("requests reject when their socket ends, and it ends once", async () => {
  const { line, story } = opened();
  const asked = expect(line.ask!("heartbeat", {})).rejects.toMatchObject({ code: "unreachable", retryable: true });
  FakeSocket.last.onerror?.();
  FakeSocket.last.onclose?.();
  FakeSocket.last.says({ type: "hello" });
  await asked;
  expect(story).toEqual([["unreachable", true]]);
  await expect(line.ask!("heartbeat", {})).rejects.toMatchObject({ code: "unreachable" });
});

test("a socket that the client closes says nothing more", () => {
  const { line, story } = opened();
  line.close();
  FakeSocket.last.says({ type: "hello" });
  expect([story, FakeSocket.last.isClosed]).toEqual([[], true]);
});

test("a frame that is no event ends the connection", () => {
  for (const frame of [
    "nonsense",
    "5",
    "null",
    {},
    { type: "data", streamId: "a" },
    { type: "presence", streamId: "a" },
  ]) {
    const { story } = opened();
    FakeSocket.last.says(frame);
    expect(story).toEqual(["heard", ["unreachable", true]]);
  }
});

test("a socket that the page may not make ends, after the caller has its line", async () => {
  const { story } = opened(
    class {
      constructor() {
        throw new Error("SecurityError");
      }
    } as never,
  );
  expect(story).toEqual([]);
  await turn();
  expect(story).toEqual([["unreachable", true]]);
});
