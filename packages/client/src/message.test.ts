import { expect, test } from "vitest";
import { messagesOfBytes } from "./message.ts";

const span = { before: "05", next: "09" };
const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const read = (value: unknown) =>
  messagesOfBytes(bytes(value), "application/json; charset=utf-8", span).map((message) => [
    message.offset,
    message.value,
  ]);
const envelope = (offset: unknown, more: object = {}) => ({
  offset,
  payload: "p",
  contentType: "text/plain",
  publishedAt: 1,
  ...more,
});

test("envelopes are opened", () => {
  expect(read([envelope("07"), envelope("09", { payload: "AP8=", encoding: "base64" })])).toEqual([
    ["07", "p"],
    ["09", new Uint8Array([0, 255])],
  ]);
});

test.each<[string, unknown[]]>([
  ["have no time", [envelope("07", { publishedAt: undefined })]],
  ["have an offset behind the answer's end", [envelope("10")]],
  ["do not ascend", [envelope("08"), envelope("07")]],
  ["stand beside a message that is none", [envelope("07"), 5]],
  ["are a session's copies", [{ stream: "a", offset: "07", contentType: "text/plain", payload: "p" }]],
  ["are null", [null]],
])("messages of a plain server that look like envelopes and %s are messages", (_, values) => {
  expect(read(values).map(([, value]) => value)).toEqual(JSON.parse(JSON.stringify(values)));
});

test("a plain message carries the position before its batch, and the last one the position behind it", () => {
  expect(read([1, 2, 3])).toEqual([
    ["05", 1],
    ["05", 2],
    ["09", 3],
  ]);
});

test("plain text is a string, and other bytes stay bytes", () => {
  const text = new TextEncoder().encode("\ufeffgrüß");
  expect(messagesOfBytes(text, "text/plain", span)).toMatchObject([{ offset: "09", value: "\ufeffgrüß" }]);
  expect(messagesOfBytes(text, "image/png", span)).toMatchObject([{ offset: "09", value: text }]);
  expect(messagesOfBytes(new Uint8Array(), "text/plain", span)).toEqual([]);
});
