import fc from "fast-check";
import { expect, test } from "vitest";
import { utf8 } from "../core/bytes.ts";
import { jsonMessages } from "./json.ts";

function split(text: string): string[] | "invalid" {
  const body = jsonMessages(utf8(text));
  if (body.kind !== "messages") return "invalid";
  return body.payloads.map((payload) => new TextDecoder().decode(payload));
}

test("a value that is not an array is one message, as it was written", () => {
  expect(split(' {"n": 1.0e0, "big": 12345678901234567890} \n')).toEqual(['{"n": 1.0e0, "big": 12345678901234567890}']);
  expect(split('"[1,2]"')).toEqual(['"[1,2]"']);
});

test("one array level is flattened, deeper ones are not", () => {
  expect(split('[ 1 , [2, 3] ,{"a":[4]}, "x,]\\"", null ]')).toEqual(["1", "[2, 3]", '{"a":[4]}', '"x,]\\""', "null"]);
  expect(split("[[]]")).toEqual(["[]"]);
  expect(split(" [ ] ")).toEqual([]);
});

test("what is not JSON is refused", () => {
  for (const text of ["", "{", "[1,]", "[1", "nul", "[1] 2", "'a'", '["a', '["a\\', "[}", "[1]]", "[{]}"])
    expect(split(text)).toBe("invalid");
  expect(jsonMessages(Uint8Array.of(0x22, 0xff, 0x22)).kind).toBe("invalid");
});

test("whatever array is sent, its messages are its elements", () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), fc.constantFrom(0, 1, 3), (values, indent) => {
      const messages = split(JSON.stringify(values, null, indent)) as string[];
      expect(messages.map((message) => JSON.parse(message))).toEqual(JSON.parse(JSON.stringify(values)));
    }),
  );
});

test("too many messages are refused, unless the body is worse", () => {
  const kindOf = (text: string) => jsonMessages(utf8(text), 2).kind;
  expect(kindOf("[1,2]")).toBe("messages");
  expect(kindOf("[1,2,3]")).toBe("too-many");
  expect(kindOf("[1,2,3")).toBe("invalid");
  expect(kindOf(`[1,2,${"[".repeat(1_001)}`)).toBe("too-deep");
});

test("nesting beyond the limit is found before the body is parsed", () => {
  for (const open of ["[".repeat(1_001), `${'{"a":'.repeat(1_001)}`, `[1,{"a":${"[".repeat(999)}`])
    expect(jsonMessages(utf8(open)).kind).toBe("too-deep");
  expect(split(`${"[".repeat(1_000)}7${"]".repeat(1_000)}`)).toEqual([`${"[".repeat(999)}7${"]".repeat(999)}`]);
});
