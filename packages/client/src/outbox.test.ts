import fc from "fast-check";
import { expect, test } from "vitest";
import { Outbox, type Packed } from "./outbox.ts";

interface Message {
  readonly phase: string;
  readonly sequence: number;
  readonly payload: unknown;
}

function messagesOf({ body }: Packed): Message[] {
  const value = JSON.parse(body) as Message | { messages: Message[] };
  return "messages" in value ? value.messages : [value];
}

/** Sends everything; now and then the server finds a request too large. */
function drain(outbox: Outbox, limit: number): { requests: Packed[]; messages: Message[] } {
  const requests: Packed[] = [];
  for (let packed = outbox.first(); packed !== undefined; packed = outbox.first()) {
    if (packed.bytes > limit && outbox.packSmaller()) continue;
    requests.push(packed);
    outbox.sent();
  }
  return { requests, messages: requests.flatMap(messagesOf) };
}

const character = fc.constantFrom("a", "\n", "ß", "\u0001", "\u{1f600}", '"');
const text = fc.tuple(character, fc.nat(1_500), character).map(([a, times, b]) => b + a.repeat(times) + b);

test("every written part arrives in whole characters, numbered without holes, in requests within the limit", () => {
  const parts = fc.array(fc.oneof(text, fc.record({ n: fc.nat() })), { maxLength: 6 });
  fc.assert(
    fc.property(parts, fc.boolean(), (written, isAllAtOnce) => {
      const outbox = new Outbox(2_048);
      outbox.put({ phase: "START", payload: null });
      for (const payload of written) outbox.put({ phase: "DELTA", payload });
      outbox.put({ phase: "END", payload: null });
      if (isAllAtOnce) outbox.packAll();
      const { requests, messages } = drain(outbox, 1_000);
      for (const { body, bytes } of requests) {
        expect(bytes).toBe(new TextEncoder().encode(body).length);
        expect(bytes).toBeLessThanOrEqual(1_000);
      }
      expect(messages.map(({ sequence }) => sequence)).toEqual(messages.map((_, i) => i));
      expect(messages[0]!.phase).toBe("START");
      expect(messages.at(-1)!.phase).toBe("END");
      const payloads = messages.slice(1, -1).map(({ payload }) => payload);
      for (const payload of payloads) expect(String(payload)).not.toMatch(/\p{Cs}/u);
      expect(joined(payloads)).toEqual(joined(written));
      expect(outbox.size).toBe(0);
      expect(outbox.isEmpty).toBe(true);
    }),
    { numRuns: 200 },
  );
});

/** Joins consecutive texts. */
function joined(parts: readonly unknown[]): unknown[] {
  const all: unknown[] = [];
  for (const part of parts) {
    if (typeof part === "string" && typeof all.at(-1) === "string") all.push((all.pop() as string) + part);
    else all.push(part);
  }
  return all.filter((part) => part !== "");
}

test("a packed request stays unchanged while more is written", () => {
  const outbox = new Outbox(1_000);
  outbox.put({ phase: "DELTA", payload: "one" });
  const { body } = outbox.first()!;
  outbox.put({ phase: "DELTA", payload: "two" });
  expect(outbox.first()!.body).toBe(body);
  outbox.sent();
  expect(messagesOf(outbox.first()!)).toEqual([{ phase: "DELTA", payload: "two", sequence: 1 }]);
});

test("a payload that JSON cannot express, or that fits no request, is refused alone and at once", () => {
  const outbox = new Outbox(600);
  outbox.put({ phase: "DELTA", payload: { a: 1 } });
  expect(() => outbox.put({ phase: "DELTA", payload: undefined })).toThrow(/no form in JSON/);
  expect(() => outbox.put({ phase: "DELTA", payload: { a: "x".repeat(600) } })).toThrow(/must fit/);
  expect(messagesOf(outbox.first()!)).toEqual([{ phase: "DELTA", payload: { a: 1 }, sequence: 0 }]);
});
