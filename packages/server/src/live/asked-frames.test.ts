/** The requests of a client over its WebSocket: their order, their bound, and what malformed ones get. */
import { expect, it } from "vitest";
import { z } from "zod";
import { FakeSink } from "../../../../test/support/fake-sink.ts";
import { Refusal } from "../core/refusal.ts";
import type { Socket } from "../core/socket.ts";
import { AskedFrames } from "./asked-frames.ts";

class FakeSocket extends FakeSink implements Socket {
  isPaused = false;
  ask: (text: string) => void = () => {};

  onText(listener: (text: string) => void): void {
    this.ask = listener;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

function setUp(max = 2) {
  const socket = new FakeSocket();
  const answers: object[] = [];
  const reports: string[] = [];
  const waiting: (() => void)[] = [];
  const frames = new AskedFrames(
    socket,
    (frame) => answers.push(frame),
    max,
    (what) => reports.push(what),
  );
  frames.on("slow", z.strictObject({ n: z.int() }), async ({ n }) => {
    await new Promise<void>((resolve) => waiting.push(resolve));
    return { n };
  });
  frames.on("refused", z.object({}), async () => {
    throw new Refusal("forbidden", "not this");
  });
  frames.on("broken", z.object({}), async () => {
    throw new Error("a defect");
  });
  const ask = (frame: object) => socket.ask(JSON.stringify(frame));
  return { socket, answers, reports, waiting, ask };
}

it("answers in order, one at a time, and reads no further while too many wait", async () => {
  const { socket, answers, waiting, ask } = setUp();
  for (const n of [1, 2]) ask({ type: "slow", ref: n, n });
  await settled();
  expect([waiting.length, socket.isPaused]).toEqual([1, false]);
  ask({ type: "slow", ref: 3, n: 3 });
  expect(socket.isPaused).toBe(true);
  for (let i = 0; i < 3; i++) {
    waiting[i]!();
    await settled();
  }
  expect(answers).toEqual([1, 2, 3].map((n) => ({ type: "ok", ref: n, n })));
  expect(socket.isPaused).toBe(false);
});

it.each([
  ["[]", { type: "error", code: "bad-body" }],
  ["no json", { type: "error", code: "bad-body" }],
  ['{"type":"unknown","ref":7}', { type: "error", ref: 7, code: "bad-body" }],
  ['{"type":"slow","ref":7}', { type: "error", ref: 7, code: "bad-body" }],
  [`{"type":"slow","ref":"${"x".repeat(65)}"}`, { type: "error", code: "bad-body" }],
  ['{"type":"refused","ref":"r"}', { type: "error", ref: "r", code: "forbidden", detail: "not this" }],
])("answers %j with its problem", async (text, answer) => {
  const { socket, answers, reports } = setUp();
  socket.ask(text);
  await settled();
  expect(answers).toMatchObject([answer]);
  expect(reports).toEqual([]);
});

it("reports a defect, of which the client learns no detail", async () => {
  const { answers, reports, ask } = setUp();
  ask({ type: "broken", ref: 1 });
  await settled();
  expect(answers).toMatchObject([{ type: "error", ref: 1, code: "internal" }]);
  expect(JSON.stringify(answers)).not.toContain("a defect");
  expect(reports).toHaveLength(1);
});
