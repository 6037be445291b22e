import fc from "fast-check";
import { expect, test } from "vitest";
import { rawMessages, rawPayload } from "./raw-payload.ts";

const members = fc.dictionary(fc.string(), fc.jsonValue());
const indent = fc.constantFrom(undefined, 0, 2, "\t");

test("the payload is what JSON.parse finds, on one line, however the text is laid out", () => {
  fc.assert(
    fc.property(members, fc.jsonValue(), members, indent, (before, payload, later, space) => {
      const text = JSON.stringify({ ...before, payload, ...later }, undefined, space as string | undefined);
      const raw = rawPayload(` \n${text}\r\n`);
      expect(JSON.parse(raw)).toEqual(JSON.parse(text).payload);
      expect(raw).not.toMatch(/[\r\n]/);
    }),
  );
});

test("each message of several is found", () => {
  fc.assert(
    fc.property(fc.array(members), members, indent, (messages, others, space) => {
      const text = JSON.stringify({ ...others, messages }, undefined, space as string | undefined);
      expect(rawMessages(text).map((one) => JSON.parse(one))).toEqual(JSON.parse(text).messages);
    }),
  );
});

test("stays as it was written", () => {
  expect(rawPayload('{"payload":12345678901234567890.10}')).toBe("12345678901234567890.10");
  expect(rawPayload('{"payload":1, "pay\\u006coad" : [ 1.0,\n "\\"]" ] }')).toBe('[ 1.0,  "\\"]" ]');
  expect(rawPayload('{"x":{"payload":1}}')).toBe("null");
  expect(rawPayload("{}")).toBe("null");
  expect(rawMessages('{"messages":[ ]}')).toEqual([]);
});
