/** What a client gets for messages: one frame each, or a frame for a run of them. Both say the same. */
import { describe, expect, it } from "vitest";
import { utf8 } from "../core/bytes.ts";
import type { LoggedMessage } from "../engine/contract.ts";
import { messageFrame, messagesFrame } from "./frames.ts";

const of = { id: "s", stream: "größe/1", epoch: 7 };

function logged(seq: number, payload: Uint8Array, more: Partial<LoggedMessage> = {}): LoggedMessage {
  return { position: { generation: 3, seq }, at: 0, payload, ...more } as LoggedMessage;
}

/** The JSON in a text frame, whose length must be the one that it announces. */
function bodyOf(frame: Uint8Array): Record<string, unknown> {
  const short = frame[1]!;
  const [start, length] = short < 126 ? [2, short] : [4, frame[2]! * 256 + frame[3]!];
  expect(frame.length).toBe(start + length);
  return JSON.parse(new TextDecoder().decode(frame.subarray(start)));
}

describe.each([
  ["application/json", utf8('{"n":"ä"}')],
  ["text/plain", utf8("grüße")],
  ["application/octet-stream", new Uint8Array([0, 255, 128])],
])("messages of a stream of %s", (contentType, payload) => {
  it("are the same in a frame of a run as in frames of their own", () => {
    const run = [
      logged(1, payload),
      logged(2, payload, { key: "schlüssel" }),
      logged(3, payload, { attributes: { a: '"ß' } }),
    ];
    const { type, messages, ...source } = bodyOf(messagesFrame(of, contentType, run));
    expect(type).toBe("messages");
    const single = run.map((one) => bodyOf(messageFrame(of, contentType, one)));
    expect((messages as object[]).map((one) => ({ type: "message", ...source, ...one }))).toEqual(single);
    expect(single[1]).toMatchObject({
      ...of,
      contentType,
      key: "schlüssel",
      offset: "0000000000000003_0000000000000002",
    });
  });
});
