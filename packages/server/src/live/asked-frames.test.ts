/** The requests of a client over its WebSocket: their answers, and what malformed ones get. */
import { expect, it } from "vitest";
import { z } from "zod";
import { FakeSink } from "../../../../test/support/fake-sink.ts";
import { Refusal } from "../core/refusal.ts";
import type { Socket } from "../core/socket.ts";
import { AskedFrames } from "./asked-frames.ts";

class FakeSocket extends FakeSink implements Socket {
  ask: (text: string) => Promise<void> = async () => {};

  onText(listener: (text: string) => Promise<void>): void {
    this.ask = listener;
  }
}

function setUp() {
  const socket = new FakeSocket();
  const answers: object[] = [];
  const reports: string[] = [];
  const frames = new AskedFrames(
    socket,
    (frame) => answers.push(frame),
    (what) => reports.push(what),
  );
  frames.on("double", z.strictObject({ n: z.int() }), async ({ n }) => ({ n: 2 * n }));
  frames.on("refused", z.object({}), async () => {
    throw new Refusal("forbidden", "not this");
  });
  frames.on("broken", z.object({}), async () => {
    throw new Error("a defect");
  });
  return { socket, answers, reports };
}

it("answers a request under its reference, and the next one only when that is done", async () => {
  const { socket, answers } = setUp();
  await socket.ask('{"type":"double","ref":"r","n":2}');
  expect(answers).toEqual([{ type: "ok", ref: "r", n: 4 }]);
});

it.each([
  ["[]", { type: "error", code: "bad-body" }],
  ["no json", { type: "error", code: "bad-body", detail: "a frame must be JSON" }],
  ["[".repeat(1_001), { type: "error", code: "bad-body", detail: expect.stringContaining("levels deep") }],
  ['{"type":"unknown","ref":7}', { type: "error", ref: 7, code: "bad-body" }],
  ['{"type":"double","ref":7}', { type: "error", ref: 7, code: "bad-body" }],
  [`{"type":"double","ref":"${"x".repeat(65)}"}`, { type: "error", code: "bad-body" }],
  ['{"type":"refused","ref":"r"}', { type: "error", ref: "r", code: "forbidden", detail: "not this" }],
])("answers %j with its problem", async (text, answer) => {
  const { socket, answers, reports } = setUp();
  await socket.ask(text);
  expect(answers).toMatchObject([answer]);
  expect(reports).toEqual([]);
});

it("reports a defect, of which the client learns no detail", async () => {
  const { socket, answers, reports } = setUp();
  await socket.ask('{"type":"broken","ref":1}');
  expect(answers).toMatchObject([{ type: "error", ref: 1, code: "internal" }]);
  expect(JSON.stringify(answers)).not.toContain("a defect");
  expect(reports).toHaveLength(1);
});
