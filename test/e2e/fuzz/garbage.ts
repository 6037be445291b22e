/**
 * Bytes on a socket that are not a proper request, or only a part of one: half requests, bad framing, nonsense behind a good
 * request, clients that leave early or send slowly. storm.ts sends them.
 *
 * Invariants: each item says how many whole requests it holds, and each of those gets an answer.
 */
import fc from "fast-check";

export interface Garbage {
  /** Sent one after the other, each in a turn of its own. */
  readonly pieces: readonly string[];
  /** How many whole requests the first pieces hold; the server must answer each. */
  readonly owed: number;
  /** The client's last step: it waits for the server's answer, or disconnects without a word. */
  readonly ending: "wait" | "leave" | "reset";
}

const POST = "POST /v1/stream/known1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n";
const GOOD = [
  "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "GET /v1/stream/absent HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
  `${POST}Content-Length: 2\r\n\r\nhi`,
  `${POST}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n`,
  "GET /v1/stream/known1?offset=now&live=long-poll HTTP/1.1\r\nHost: localhost\r\n\r\n",
];

/** None of these is a request, whatever comes before or after it. */
const NONSENSE = [
  "\u0000\u0001\u0002\u0003",
  "GET\r\n\r\n",
  "GET /\r\n\r\n",
  "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
  "GET / HTTP/1.1\r\nno colon here\r\n\r\n",
  "GET / HTTP/1.1\r\nHost: localhost\r\nX\u0000Y: z\r\n\r\n",
  "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\u0000b\r\n\r\n",
  "GET / HTTP/1.1\r\nHost : fuzz\r\n\r\n",
  "GET /a b c HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "get / http/1.1\r\nhost: localhost\r\n\r\n",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003",
  "EHLO fuzz\r\n",
  `${POST}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`,
  `${POST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  `${POST}Content-Length: -5\r\n\r\n`,
  `${POST}Content-Length: 99999999999999999999\r\n\r\n`,
  `${POST}Content-Length: 0x5\r\n\r\nhello`,
  `${POST}Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n`,
  `${POST}Transfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n`,
  `${POST}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n`,
  `${POST}Transfer-Encoding: chunked\r\n\r\n5\r\nhelloworld\r\n0\r\n\r\n`,
  `${POST}Transfer-Encoding: chunked, identity\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
  `GET / HTTP/1.1\r\nHost: localhost\r\n${"X: y\r\n".repeat(4_000)}\r\n`,
  `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${"y".repeat(20_000)}\r\n\r\n`,
  `GET /${"z".repeat(20_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
];

const ending = fc.constantFrom("wait", "wait", "leave", "reset") as fc.Arbitrary<Garbage["ending"]>;
const bytes = fc.uint8Array({ minLength: 1, maxLength: 60 }).map((array) => Buffer.from(array).toString("latin1"));

/** A good request up to some byte. */
const half: fc.Arbitrary<Garbage> = fc
  .tuple(fc.constantFrom(...GOOD), fc.double({ min: 0, max: 0.99, noNaN: true }), ending)
  .map(([request, part, how]) => ({
    pieces: [request.slice(0, Math.floor(request.length * part))],
    owed: 0,
    ending: how,
  }));

const nonsense: fc.Arbitrary<Garbage> = fc
  .tuple(fc.oneof(fc.constantFrom(...NONSENSE), bytes), ending)
  .map(([text, how]) => ({ pieces: [text], owed: 0, ending: how }));

/** Good requests first, in one piece with the rest. */
const pipelined: fc.Arbitrary<Garbage> = fc
  .tuple(fc.array(fc.constantFrom(...GOOD), { minLength: 1, maxLength: 5 }), fc.constantFrom(...NONSENSE, ""), ending)
  .map(([good, text, how]) => ({ pieces: [good.join("") + text], owed: good.length, ending: how }));

/** A few bytes at a time. */
const dawdling: fc.Arbitrary<Garbage> = fc
  .tuple(fc.constantFrom(...GOOD), fc.integer({ min: 1, max: 40 }), fc.boolean(), ending)
  .map(([request, size, isWhole, how]) => {
    const pieces: string[] = [];
    for (let at = 0; at < request.length; at += size) pieces.push(request.slice(at, at + size));
    return { pieces: isWhole ? pieces : pieces.slice(0, -1), owed: isWhole ? 1 : 0, ending: how };
  });

/** A good request with a few bytes changed. */
const mutated: fc.Arbitrary<Garbage> = fc
  .tuple(fc.constantFrom(...GOOD), fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { minLength: 1, maxLength: 3 }), ending)
  .map(([request, changes, how]) => {
    const text = [...request];
    for (const [at, code] of changes) text[at % text.length] = String.fromCharCode(code);
    return { pieces: [text.join("")], owed: 0, ending: how };
  });

export const garbage: fc.Arbitrary<Garbage> = fc.oneof(half, nonsense, pipelined, dawdling, mutated);
