import fc from "fast-check";
import { expect, test } from "vitest";
import { type SseEvent, SseParser } from "./sse-parser.ts";

/** Parses a complete text in one step. */
function parseWhole(text: string): SseEvent[] {
  const lines = text.split(/\r\n|\n|\r/);
  // The text after the last line end is not a line yet.
  lines.pop();
  const events: SseEvent[] = [];
  let event = "message";
  let data: string[] = [];
  let id = "";
  for (const line of lines) {
    const [, field, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!;
    if (line === "") {
      if (data.length > 0) events.push({ event, data: data.join("\n"), id });
      event = "message";
      data = [];
    } else if (field === "data") data.push(value ?? "");
    else if (field === "event") event = value || "message";
    else if (field === "id" && !value?.includes("\0")) id = value ?? "";
  }
  return events;
}

function parsePieces(text: string, cuts: readonly number[]): SseEvent[] {
  const parser = new SseParser(1_000_000);
  const places = [0, ...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length];
  return places.slice(1).flatMap((end, i) => parser.push(text.slice(places[i], end)));
}

const word = fc.string({ unit: fc.constantFrom("a", "ß", ":", " ", "\u{1f600}", "\0", "\ufeff"), maxLength: 6 });
const line = fc.oneof(
  word.map((text) => `data:${text}`),
  word.map((text) => `data: ${text}`),
  word.map((text) => `event: ${text}`),
  word.map((text) => `id: ${text}`),
  word.map((text) => `:${text}`),
  fc.constantFrom("", "", "", "data", "event", "id", "retry: 10", "other: x"),
);
const ending = fc.constantFrom("\n", "\r", "\r\n");
const text = fc
  .array(fc.tuple(line, ending), { maxLength: 30 })
  .chain((lines) => fc.tuple(fc.constant(lines.flat().join("")), word).map(([whole, rest]) => whole + rest));

test("the events are the same wherever the text is cut and whichever line ends it uses", () => {
  fc.assert(
    fc.property(text, fc.array(fc.nat(), { maxLength: 20 }), (whole, cuts) => {
      expect(parsePieces(whole, cuts)).toEqual(parseWhole(whole));
    }),
    { numRuns: 1_000 },
  );
});

test("any text parses to the same events one character at a time as in one piece", () => {
  const anything = fc.string({ unit: fc.constantFrom("\n", "\r", ":", " ", "d", "data", "event", "id", "\0") });
  fc.assert(
    fc.property(anything, (whole) => {
      const everywhere = Array.from({ length: whole.length }, (_, i) => i);
      expect(parsePieces(whole, everywhere)).toEqual(parseWhole(whole));
    }),
    { numRuns: 1_000 },
  );
});

test("comments, unknown fields and events without data yield no event, and an id stays until the next one", () => {
  const parser = new SseParser(1_000);
  expect(parser.push(": heartbeat\n\nevent: x\n\nid: 7\nretry: 5\n\n")).toEqual([]);
  expect(parser.push("event: stream\ndata: one\ndata:\ndata:  two\n\ndata: three\n\n")).toEqual([
    { event: "stream", data: "one\n\n two", id: "7" },
    { event: "message", data: "three", id: "7" },
  ]);
});

test("a line, an event or a comment without an end is refused at the bound, however it is cut", () => {
  for (const piece of ["data: xxxxxxxxx", "data: xxxxxxxxx\n", ": xxxxxxxxxxxx", "data\n"]) {
    const parser = new SseParser(1_000);
    const push = () => {
      for (let i = 0; i < 1_100; i++) parser.push(piece);
    };
    expect(push).toThrow(/longer than 1000/);
  }
  const parser = new SseParser(1_000);
  for (let i = 0; i < 1_000; i++) expect(parser.push(": a comment\n\ndata: x\n\n")).toHaveLength(1);
});

test("a long line in small pieces takes time in proportion to its length", () => {
  const parser = new SseParser(64 * 1024 * 1024);
  parser.push("data: ");
  const piece = "x".repeat(100);
  for (let i = 0; i < 100_000; i++) parser.push(piece);
  const [event] = parser.push("\n\n");
  expect(event!.data).toHaveLength(10_000_000);
});
