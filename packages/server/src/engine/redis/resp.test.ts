import fc from "fast-check";
import { expect, test } from "vitest";
import { Decoder, encode, RedisRefusal } from "./resp.ts";

function decoded(pieces: readonly Buffer[], isText = false): unknown[] {
  const replies: unknown[] = [];
  const decoder = new Decoder({ isText: () => isText, receive: (reply) => replies.push(reply) });
  for (const piece of pieces) decoder.push(piece);
  return replies;
}

/** The bytes that a Redis would send for this reply. */
function sent(reply: unknown): Buffer {
  if (reply === null) return Buffer.from("$-1\r\n");
  if (typeof reply === "number") return Buffer.from(`:${reply}\r\n`);
  if (reply instanceof RedisRefusal) return Buffer.from(`-${reply.message}\r\n`);
  if (typeof reply === "string") return Buffer.from(`+${reply}\r\n`);
  if (Array.isArray(reply)) return Buffer.concat([Buffer.from(`*${reply.length}\r\n`), ...reply.map(sent)]);
  const bytes = reply as Buffer;
  return Buffer.concat([Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n")]);
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, i) => bytes.subarray(at[i], end));
}

const { reply: anyReply } = fc.letrec<{ reply: unknown }>((tie) => ({
  reply: fc.oneof(
    { depthSize: "small" },
    fc.constant(null),
    fc.integer(),
    fc.stringMatching(/^[a-zA-Z ]*$/),
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    fc.array(tie("reply"), { maxLength: 5 }),
  ),
}));

test("the replies are the same wherever the bytes were cut", () => {
  fc.assert(
    fc.property(fc.array(anyReply, { maxLength: 5 }), fc.array(fc.nat(), { maxLength: 20 }), (replies, places) => {
      expect(decoded(cut(Buffer.concat(replies.map(sent)), places))).toEqual(replies);
    }),
  );
});

test("an error reply is reported as one, and the replies after it are read", () => {
  const [refusal, after] = decoded([Buffer.from("-MOVED 1 a:1\r\n:5\r\n")]);
  expect(refusal).toBeInstanceOf(RedisRefusal);
  expect((refusal as Error).message).toBe("MOVED 1 a:1");
  expect(after).toBe(5);
});

test("bytes come as text if the receiver wants text", () => {
  expect(decoded([sent([Buffer.from("done"), 1, [Buffer.from("7")]])], true)).toEqual([["done", 1, ["7"]]]);
});

test("bytes that violate the protocol are an error", () => {
  expect(() => decoded([Buffer.from("HTTP/1.1 400\r\n")])).toThrow(/Redis protocol/);
});

test("Redis reads an encoded call as the same call", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(fc.array(fc.oneof(fc.string({ unit: "binary" }), fc.uint8Array()), { minLength: 1 }), fc.boolean()),
      ),
      (calls) => {
        const asBuffers = (args: readonly (string | Uint8Array)[]) => args.map((arg) => Buffer.from(arg as string));
        const given = calls.map(([args, asking]) => ({
          args: args.map((arg) => (typeof arg === "string" ? arg : Buffer.from(arg))),
          asking,
        }));
        const expected = calls.flatMap(([args, asking]) => [
          ...(asking ? [[Buffer.from("ASKING")]] : []),
          asBuffers(args),
        ]);
        expect(decoded([encode(given)])).toEqual(expected);
      },
    ),
  );
});
