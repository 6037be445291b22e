import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { SocketLike } from "../text-socket.ts";
import { WireLine } from "./wire-line.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A line to a server that says nothing. */
function openLine() {
  const socket: SocketLike = { onmessage: null, onclose: null, onerror: null, send: () => {}, close: () => {} };
  const ended = vi.fn();
  new WireLine(() => socket, { opened: () => {}, ended });
  (socket.onopen as () => void)();
  return ended;
}

it("a clock that is set forward does not end a line", () => {
  const ended = openLine();
  vi.setSystemTime(Date.now() + 3_600_000);
  vi.advanceTimersByTime(40_000);
  expect(ended).not.toHaveBeenCalled();
});

it("a line to a silent server ends in time, also if the clock is set back", () => {
  const ended = openLine();
  vi.setSystemTime(Date.now() - 3_600_000);
  vi.advanceTimersByTime(60_000);
  expect(ended).toHaveBeenCalledOnce();
});
