/**
 * Requests that are complete HTTP and wrong in every other way: any method, any address, any value in any Sluice header, any
 * query, any body. storm.ts sends them and judges the answers.
 *
 * Invariants: addresses come from the features' own routes, so that a new route is fuzzed without an edit here.
 */
import { header } from "@sluice/protocol";
import fc from "fast-check";
import { ROUTES } from "../../support/routes.ts";

export interface FuzzRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Latin-1: a byte per character. */
  readonly body: string;
  readonly isChunked: boolean;
}

export function render({ method, target, headers, body, isChunked }: FuzzRequest): string {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const start = `${method} ${target} HTTP/1.1\r\nHost: localhost\r\n${lines}`;
  if (!isChunked) return `${start}Content-Length: ${body.length}\r\n\r\n${body}`;
  const chunk = body === "" ? "" : `${body.length.toString(16)}\r\n${body}\r\n`;
  return `${start}Transfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`;
}

const method = fc.oneof(
  { weight: 40, arbitrary: fc.constantFrom("GET", "PUT", "POST", "DELETE", "HEAD") },
  { weight: 3, arbitrary: fc.constantFrom("OPTIONS", "PATCH", "TRACE", "PROPFIND", "M-SEARCH", "PURGE", "QUERY") },
  { weight: 1, arbitrary: fc.stringMatching(/^[A-Z]{1,10}$/) },
);

/** Not fast-check's own unit, which builds a table of all of Unicode before the first test. */
const codePoint = fc.integer({ min: 0, max: 0x10ffff }).map((code) => String.fromCodePoint(code));

/** Parts of a path: plain, escaped, badly escaped, and known traps. */
const piece = fc.oneof(
  { weight: 6, arbitrary: fc.stringMatching(/^[a-z0-9._~-]{1,8}$/) },
  { weight: 3, arbitrary: fc.string({ unit: codePoint, minLength: 1, maxLength: 6 }).map(encodeURIComponentSafely) },
  { weight: 2, arbitrary: fc.stringMatching(/^(%[0-9a-fA-F]{2}){1,4}$/) },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      ..."%|%%|%z|%2|%00|%0d%0a|%7f|%ff|%c0%af|%ed%a0%80|%2e%2e|..|.|%2F|+|#|;|:|@|!|$|'|(|)|*|,|=|[|]|\\|^|`|{|}|||~".split(
        "|",
      ),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom("__ds", "session:1", "$shard", "__proto__", "constructor", "stream", "streams"),
  },
  { weight: 1, arbitrary: fc.integer({ min: 100, max: 1_500 }).map((length) => "p".repeat(length)) },
);

const path = fc.array(piece, { minLength: 0, maxLength: 5 }).map((pieces) => pieces.join("/"));
const project = fc.oneof(fc.constantFrom("default", "one", "two"), piece);
/** Few names, so that requests meet: appends find a stream, and creations find a name taken. */
const known = fc.integer({ min: 0, max: 19 }).map((number) => `known${number}`);

/** Few sessions of the caller, so that requests meet them again. */
export const SESSIONS = Array.from({ length: 4 }, (_, i) => `00000000-0000-4000-8000-00000000000${i}`);
const session = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...SESSIONS) },
  { weight: 1, arbitrary: fc.constantFrom("user-alice", SESSIONS[0]!.toUpperCase(), `${SESSIONS[0]}0`, "%zz", "") },
  { weight: 1, arbitrary: piece },
);

/** Generators for the names in an address. */
const namesOf: Readonly<Record<string, fc.Arbitrary<string>>> = {
  project,
  session,
  path: fc.oneof(known, path),
};

/** Every address of a feature, with its names filled in, the project sometimes left out, and oddities at its end. */
const described = fc
  .tuple(fc.constantFrom(...ROUTES.values()), fc.boolean(), fc.constantFrom("", "", "", "/", "/x"))
  .chain(([{ address: text }, isShort, end]) => {
    const shown = isShort ? text.replace("{project}/", "") : text;
    const pieces = shown
      .split(/[{}]/)
      .map((part, i) => (i % 2 === 0 ? fc.constant(part) : (namesOf[part] ?? fc.oneof(known, piece))));
    return fc.tuple(...pieces).map((filled) => filled.join("") + end);
  });

const address = fc.oneof(
  { weight: 8, arbitrary: described },
  { weight: 1, arbitrary: session.map((id) => `/v1/stream/session:${id}`) },
  { weight: 12, arbitrary: known.map((name) => `/v1/stream/${name}`) },
  { weight: 4, arbitrary: path.map((text) => `/v1/stream/${text}`) },
  { weight: 4, arbitrary: fc.tuple(project, path).map(([name, text]) => `/v1/${name}/stream/${text}`) },
  { weight: 2, arbitrary: project.map((name) => `/v1/${name}/streams`) },
  {
    weight: 2,
    arbitrary: fc.constantFrom("/v1/streams", "/health", "/ready", "/", "/v1", "/v1/", "/v2/stream/a", "//", "*"),
  },
  { weight: 2, arbitrary: path.map((text) => `/v1/stream/__ds/${text}`) },
  { weight: 1, arbitrary: path.map((text) => `/v1/stream/__ds/subscriptions/${text}`) },
  { weight: 2, arbitrary: fc.stringMatching(/^[!-~]{1,40}$/).map((text) => `/${text}`) },
  { weight: 1, arbitrary: path.map((text) => `http://else.where/v1/stream/${text}`) },
);

export const PARAMETERS = [
  ...new Set([...ROUTES.values()].flatMap(({ describe }) => (describe.query ?? []).map(({ name }) => name))),
];

const queryValue = fc.oneof(
  fc.constantFrom(
    "-1",
    "now",
    "sse",
    "long-poll",
    "envelope",
    "raw",
    "1",
    "0",
    "1000",
    "1001",
    "+/x",
    "%23",
    "a/%2B",
    "",
    "%",
    "%zz",
  ),
  fc.constantFrom(
    "0000000000000001_0000000000000001",
    "9007199254740991_0000000000000000",
    "9999999999999999_9999999999999999",
  ),
  piece,
  fc.integer({ min: 1_000, max: 3_000 }).map((length) => "v".repeat(length)),
);
const parameter = fc.oneof(
  fc.tuple(fc.constantFrom(...PARAMETERS), queryValue).map(([name, value]) => `${name}=${value}`),
  fc.constantFrom("offset", "&", "=", "offset==", "%6fffset=-1", "live=sse&live=sse", "x=y", "offset=-1&live=sse"),
);
const query = fc.oneof(
  { weight: 2, arbitrary: fc.constant("") },
  { weight: 3, arbitrary: fc.array(parameter, { maxLength: 4 }).map((parts) => `?${parts.join("&")}`) },
);

export const latin1 = fc.string({
  unit: fc
    .integer({ min: 0x20, max: 0xff })
    .filter((code) => code !== 0x7f)
    .map(String.fromCharCode),
  maxLength: 30,
});

const headerValue = fc.oneof(
  fc.constantFrom(
    "",
    "0",
    "1",
    "7",
    "-1",
    "+1",
    "01",
    "1.5",
    "1e3",
    "0x10",
    "NaN",
    "9007199254740991",
    "9007199254740992",
    "1, 2",
  ),
  fc.constantFrom(
    "true",
    "TRUE",
    "yes",
    "now",
    "2030-01-01T00:00:00Z",
    "2030-13-45T99:99:99Z",
    "9999-12-31T23:59:59-23:59",
    "tomorrow",
  ),
  fc.constantFrom(
    "application/json",
    "text/plain",
    "text/plain; charset=utf-8",
    "application/octet-stream",
    "nonsense",
    "a/b;;;",
    "/",
    "*/*",
  ),
  fc.constantFrom(
    "{}",
    '{"a":"b"}',
    '{"a":1}',
    "{",
    "null",
    "[]",
    '{"__proto__":"x"}',
    "fanout:1",
    "known1",
    "/v1/stream/known2",
    "/v1/stream/%zz",
  ),
  fc.constantFrom(
    "0000000000000001_0000000000000001",
    "9007199254740991_0000000000000000",
    '"-1:0"',
    "*",
    "\t",
    "a\tb",
  ),
  latin1,
  fc.integer({ min: 200, max: 5_000 }).map((length) => "h".repeat(length)),
);
const ourHeader = fc.tuple(fc.constantFrom(...Object.values(header)), headerValue);
const otherHeader = fc.constantFrom<[string, string][]>(
  ["Stream-Shards", "4"],
  ["Expect", "100-continue"],
  ["Expect", "miracles"],
  ["Accept", "text/event-stream"],
  ["Last-Event-ID", "x"],
  ["Authorization", "Bearer x"],
  ["Origin", "null"],
  ["Upgrade", "websocket"],
  ["X-Junk", "\u00ff"],
);

const body = fc.oneof(
  { weight: 3, arbitrary: fc.constant("") },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      "[]",
      "[[]]",
      "{}",
      "1",
      "[1,2,3]",
      "null",
      '"\\ud800"',
      "[1,]",
      "{",
      "[",
      "nul",
      "\xff\xfe",
      "\xef\xbb\xbf[1]",
      '["\xc3"]',
    ),
  },
  { weight: 2, arbitrary: fc.json().map((text) => Buffer.from(text).toString("latin1")) },
  { weight: 2, arbitrary: latin1 },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 5_000 }).map((depth) => "[".repeat(depth)) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 2_000 }).map((depth) => "[".repeat(depth) + "]".repeat(depth)) },
  { weight: 1, arbitrary: fc.integer({ min: 1_000, max: 20_000 }).map((length) => "b".repeat(length)) },
);

const wild: fc.Arbitrary<FuzzRequest> = fc.record({
  method,
  target: fc.tuple(address, query).map(([before, after]) => before + after),
  headers: fc.array(fc.oneof({ weight: 9, arbitrary: ourHeader }, { weight: 1, arbitrary: otherHeader }), {
    maxLength: 5,
  }),
  body,
  isChunked: fc.boolean(),
});

const small = fc.integer({ min: 0, max: 3 }).map(String);
const producer = fc.tuple(fc.constantFrom("p", "q"), small, small).map(([id, epoch, seq]): [string, string][] => [
  ["Producer-Id", id],
  ["Producer-Epoch", epoch],
  ["Producer-Seq", seq],
]);
const sound = fc.tuple(
  fc.constantFrom("application/json", "text/plain", "application/octet-stream").map((type) => [["Content-Type", type]]),
  fc.oneof(
    fc.constant([]),
    producer,
    small.map((seq) => [["Stream-Seq", seq]]),
  ),
  fc.oneof(
    { weight: 4, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.constant([["Stream-Closed", "true"]]) },
    { weight: 1, arbitrary: known.map((name) => [["Stream-Forked-From", name]]) },
    { weight: 1, arbitrary: small.map((limit) => [["Stream-Max-Messages", limit]]) },
    { weight: 1, arbitrary: small.map((ttl) => [["Stream-TTL", ttl]]) },
    { weight: 1, arbitrary: ourHeader.map((one) => [one]) },
  ),
);

/** At most one part is wrong, so that many requests pass the first checks. */
const plausible: fc.Arbitrary<FuzzRequest> = fc.record({
  method: fc.constantFrom("PUT", "PUT", "POST", "POST", "POST", "GET", "GET", "DELETE"),
  target: fc
    .tuple(
      known,
      fc.constantFrom("", "", "?offset=-1", "?offset=-1&live=long-poll", "?offset=now&live=sse", "?format=envelope"),
    )
    .map(([name, rest]) => `/v1/stream/${name}${rest}`),
  headers: sound.map((groups) => groups.flat() as [string, string][]),
  body: fc.constantFrom("[1,2,3]", '{"a":[1]}', '"text"', "7", ""),
  isChunked: fc.boolean(),
});

/** A body of a session route, with at most one wrong part. */
const sessionBody = fc
  .record({
    sessionId: fc.constantFrom<unknown[]>(...SESSIONS, ...SESSIONS, "x", 7, null),
    streamId: fc.oneof({ weight: 9, arbitrary: known }, fc.constantFrom<unknown[]>("", "a b", "session:x", "../x", 7)),
    format: fc.constantFrom<unknown[]>(undefined, undefined, "raw", "envelope", "xml"),
    from: fc.constantFrom<unknown[]>(undefined, undefined, "-1", "now", "x", "0000000000000001_0000000000000001", 7),
  })
  .map((fields) => Buffer.from(JSON.stringify(fields)).toString("latin1"));

const json: [string, string][] = [["Content-Type", "application/json"]];

const aboutSessions: fc.Arbitrary<FuzzRequest> = fc.oneof(
  fc.record({
    method: fc.constantFrom("POST", "POST", "DELETE"),
    target: fc.constantFrom("/v1/subscribe", "/v1/subscribe", "/v1/unsubscribe"),
    headers: fc.constant(json),
    body: fc.oneof({ weight: 6, arbitrary: sessionBody }, body),
    isChunked: fc.boolean(),
  }),
  fc.record({
    method: fc.constant("POST"),
    target: known.map((name) => `/v1/publish/${name}`),
    headers: sound.map((groups) => groups.flat() as [string, string][]),
    body: fc.oneof(fc.constantFrom("[1,2,3]", '"text"', ""), fc.constant(JSON.stringify("x".repeat(1_500)))),
    isChunked: fc.boolean(),
  }),
  fc.record({
    method: fc.constantFrom("GET", "POST", "DELETE", "HEAD"),
    target: fc
      .tuple(
        fc.constantFrom(...SESSIONS),
        fc.constantFrom(
          "session/ID",
          "session/ID",
          "session/ID/touch",
          "stream/session:ID",
          "stream/session:ID?offset=-1&live=sse",
        ),
      )
      .map(([id, at]) => `/v1/${at.replace("ID", id)}`),
    headers: fc.constant([]),
    body: fc.constant(""),
    isChunked: fc.constant(false),
  }),
);

export const fuzzRequest: fc.Arbitrary<FuzzRequest> = fc.oneof(
  { weight: 2, arbitrary: wild },
  { weight: 1, arbitrary: aboutSessions },
  { weight: 1, arbitrary: plausible },
);

function encodeURIComponentSafely(text: string): string {
  return encodeURIComponent(text.replace(/[\ud800-\udfff]/g, "\ufffd"));
}
