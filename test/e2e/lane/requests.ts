/**
 * The requests of a connection, from a seed: most are plain, some have oddities that parsers disagree about, and some are
 * damaged at a random byte.
 */
import type { Random } from "../../sim/random.ts";

const PATHS = [
  "/v1/stream/a",
  "/v1/stream/b/c",
  "/v1/default/stream/a%20b",
  "/v1/other/stream/a",
  "/v1/stream/a?offset=-1",
  "/v1/stream/a?offset=now",
  "/v1/stream/a?offset=-1&x=%zz",
  "/v1/stream/a?offset=wrong",
  "/v1/stream/none?offset=-1",
  "/v1/unused/streams?limit=2",
  "/v1/channels/q/publish",
  "/v1/bad.project/stream/a",
  "/health",
  "/ready",
  "/nowhere",
  "/v1/stream/__ds/x",
  "//v1/stream/a",
  "/v1/stream/a/../b",
  "/",
];
const METHODS = [
  "GET",
  "GET",
  "GET",
  "POST",
  "POST",
  "POST",
  "PUT",
  "PUT",
  "HEAD",
  "DELETE",
  "OPTIONS",
  "PATCH",
  "BREW",
];
const TYPES = ["application/json", "application/json", "text/plain", "application/octet-stream", "nonsense", ""];
const BODIES = [
  "",
  "[1]",
  '["a","b"]',
  "{",
  "text",
  "\xff\x00\x80",
  "x".repeat(50),
  '{"phase":"START","sequence":0,"payload":1}',
];
/** Headers that change what a message is, or that parsers read differently. */
const ODD = [
  "Transfer-Encoding: chunked",
  "Transfer-Encoding: gzip, chunked",
  "Transfer-Encoding : chunked",
  "Transfer-Encoding: x",
  "Content-Length: 5",
  "Content-Length: +5",
  "Content-Length: 05",
  "Content-Length: 5, 5",
  "Content-Length: -1",
  "Content-Length: 99999",
  "Connection: close",
  "Connection: keep-alive",
  "Connection: Keep-Alive",
  "Connection: keep-alive, X-A",
  "Connection: upgrade",
  "Upgrade: h2c",
  "Expect: 100-continue",
  "Expect: other",
  "Trailer: X",
  "TE: trailers",
  "Host: b",
  "Host:",
  "X-A: a",
  " folded: yes",
  "X-Space : a",
  "X-Tab:\ta\t",
  "no colon",
  ": no name",
  "X-Utf: \xc3\xa4",
  "X-Nul: a\0b",
  "X-Cr: a\rb",
  "If-None-Match: *",
  "Origin: http://evil.example",
  "Origin: http://localhost:1234",
  "Authorization: Bearer nonsense",
  "Cookie: sluice_token=x",
  "Producer-Id: p",
  "Producer-Epoch: 0",
  "Producer-Seq: 0",
  "Stream-Closed: true",
  "Stream-TTL: x",
  "Range: bytes=0-1",
  "Accept-Encoding: gzip",
];

/**
 * Texts that a client sends one after another, each when the one before is answered. A text of several requests names other
 * streams in each, because a server may work on them at the same time. `connection` keeps what one connection creates apart
 * from what another does.
 */
export function conversation(random: Random, connection: number): string[] {
  const count = 1 + random.below(4);
  const isPipelined = random.chance(0.5);
  const place = (i: number) => (isPipelined ? `n${connection}-${i}` : `n${connection}`);
  const requests = Array.from({ length: count }, (_, i) => request(random, place(i)));
  const texts = isPipelined ? [requests.join("")] : requests;
  const last = texts.pop()!;
  texts.push(random.chance(0.2) ? damaged(last, random) : last);
  return random.chance(0.05) ? [...texts.slice(0, -1), last.slice(0, random.below(last.length))] : texts;
}

function request(random: Random, place: string): string {
  const path = random
    .pick(PATHS)
    .replace(/\/stream\/([ab]|none)/, `/stream/${place}/$1`)
    .replace("/q/", `/${place}/`);
  const method = random.pick(METHODS);
  const body = method === "GET" || method === "HEAD" ? "" : random.pick(BODIES);
  const headers = [`Host: localhost`];
  const type = random.pick(TYPES);
  if (type !== "") headers.push(`${random.pick(["Content-Type", "content-type"])}: ${type}`);
  if (body !== "" || random.chance(0.3)) headers.push(`Content-Length: ${body.length}`);
  while (random.chance(0.2)) headers.splice(random.below(headers.length + 1), 0, random.pick(ODD));
  if (random.chance(0.02)) headers.push(`X-Long: ${"l".repeat(random.pick([4_000, 9_000, 17_000]))}`);
  const target = random.chance(0.03) ? random.pick([`http://localhost${path}`, "*", `${path}#f`, `${path} `]) : path;
  const version = random.chance(0.03) ? random.pick(["HTTP/1.0", "HTTP/1.2", "http/1.1", "HTTP/2.0", ""]) : "HTTP/1.1";
  const end = random.chance(0.02) ? "\n" : "\r\n";
  return `${[`${method} ${target} ${version}`, ...headers].join(end)}${end}${end}${body}`;
}

function damaged(text: string, random: Random): string {
  const at = random.below(text.length);
  const byte = String.fromCharCode(random.below(256));
  const rest = text.slice(random.chance(0.5) ? at + 1 : at);
  return text.slice(0, at) + (random.chance(0.3) ? "" : byte) + rest;
}
