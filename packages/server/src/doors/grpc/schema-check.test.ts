import { expect, it } from "vitest";
import { checkDefinition, checkerOf, type Encoding } from "./schema-check.ts";

const PAINT = JSON.stringify({
  type: "record",
  name: "Paint",
  namespace: "shop",
  fields: [
    { name: "color", type: { type: "enum", name: "Color", symbols: ["RED", "BLUE"] } },
    { name: "liters", type: ["null", "int"], default: null },
    { name: "layers", type: { type: "array", items: "Paint" }, default: [] },
    { name: "notes", type: { type: "map", values: "string" }, default: {} },
  ],
});

function accepts(
  definition: string,
  encoding: Encoding,
  message: string | readonly number[],
  isProto = false,
): boolean {
  const type = isProto ? "PROTOCOL_BUFFER" : "AVRO";
  const bytes = typeof message === "string" ? Buffer.from(message) : Uint8Array.from(message);
  try {
    checkerOf({ type, definition }, encoding)(bytes);
    return true;
  } catch {
    return false;
  }
}

it.each([
  ['{"color":"RED"}', true],
  ['{"color":"RED","liters":{"int":3}}', true],
  ['{"color":"RED","liters":null,"layers":[{"color":"BLUE"}],"notes":{"a":"b"}}', true],
  ['{"color":"GREEN"}', false],
  ['{"color":"RED","liters":3}', false],
  ['{"color":"RED","layers":[{}]}', false],
  ['{"color":"RED","notes":{"a":1}}', false],
  ['{"color":"RED","other":1}', false],
  ["{}", false],
  ["nonsense", false],
])("the JSON %s follows the Avro schema: %s", (message, isValid) => {
  expect(accepts(PAINT, "JSON", message)).toBe(isValid);
});

it.each([
  // Symbol 0, branch 1 with the int 3, no layers, one note "a" = "b".
  [[0, 2, 6, 0, 2, 2, 97, 2, 98, 0], true],
  // One layer, in a block that says its size.
  [[0, 0, 1, 8, 2, 0, 0, 0, 0, 0], true],
  // Symbol 2 of 2.
  [[4, 0, 0, 0], false],
  // Branch 2 of 2.
  [[0, 4, 0, 0], false],
  // A text that is longer than the message, and bytes that are left.
  [[0, 0, 0, 2, 126, 97], false],
  [[0, 0, 0, 0, 0], false],
])("the bytes %j follow the Avro schema: %s", (message, isValid) => {
  expect(accepts(PAINT, "BINARY", message)).toBe(isValid);
});

it("a list of values without bytes is bounded", () => {
  const nulls = JSON.stringify({ type: "array", items: "null" });
  expect(accepts(nulls, "BINARY", [6, 0])).toBe(true);
  expect(accepts(nulls, "BINARY", [255, 255, 255, 255, 15, 0])).toBe(false);
});

it("protocol buffers are checked as JSON and as bytes", () => {
  const definition = 'syntax = "proto3"; package shop; message Paint { string color = 1; int32 full_liters = 2; }';
  expect(accepts(definition, "JSON", '{"color":"red","full_liters":2}', true)).toBe(true);
  expect(accepts(definition, "JSON", '{"colour":"red"}', true)).toBe(false);
  expect(accepts(definition, "BINARY", [10, 1, 97], true)).toBe(true);
  expect(accepts(definition, "BINARY", [10, 9, 97], true)).toBe(false);
});

it.each([
  ["AVRO", '{"type":"record","name":"A","fields":[{"name":"b","type":"Unknown"}]}'],
  ["AVRO", '{"type":"enum","name":"A"}'],
  ["AVRO", "{"],
  ["PROTOCOL_BUFFER", "message {"],
  ["PROTOCOL_BUFFER", 'syntax = "proto3"; message A {} message B {}'],
  ["PROTOCOL_BUFFER", 'syntax = "proto3"; import "google/protobuf/any.proto"; message A {}'],
] as const)("the %s definition %s is refused", (type, definition) => {
  expect(() => checkDefinition({ type, definition })).toThrow("Invalid schema definition");
});
