import { describe, expect, test } from "vitest";
import { LANE_BYTES, LaneParser } from "./lane-parser.ts";

const parse = (text: string, from = 0) => {
  const parser = new LaneParser(16_384);
  const bytes = Buffer.from(text, "latin1");
  return { found: parser.parse(bytes, from), parser, bytes };
};
const head = (line: string, ...headers: string[]) => `${[line, ...headers].join("\r\n")}\r\n\r\n`;
const HOST = "Host: a";

describe("a plain request", () => {
  test("is taken with its address, headers and body", () => {
    const text = `${head("POST /v1/stream/a%20b?x=1&y HTTP/1.1", HOST, "Content-Length:  3 ", "X-A:\tb c\t")}abcNEXT`;
    const { found, parser, bytes } = parse(text);
    expect(found).toBe("request");
    expect([parser.method, parser.path, parser.search]).toEqual(["POST", "/v1/stream/a%20b", "x=1&y"]);
    expect([...parser.headers]).toEqual([
      ["host", "a"],
      ["content-length", "3"],
      ["x-a", "b c"],
    ]);
    expect(bytes.toString("latin1", parser.bodyAt, parser.end)).toBe("abc");
  });

  test("is found behind another, and the same headers mean the same again", () => {
    const one = head("GET /a HTTP/1.1", HOST, "Connection: Keep-Alive");
    const { parser, bytes } = parse(one + one.replace("/a", "/b?"));
    expect(parser.parse(bytes, parser.end)).toBe("request");
    expect([parser.path, parser.search, parser.headers.get("host")]).toEqual(["/b", "", "a"]);
  });

  test.each(["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"])("may be a %s", (method) => {
    expect(parse(head(`${method} / HTTP/1.1`, HOST)).found).toBe("request");
  });

  test("is more to come, wherever it ends early", () => {
    const text = `${head("PUT /a HTTP/1.1", HOST, "Content-Length: 2")}ab`;
    for (let end = 1; end < text.length; end++)
      expect(parse(text.slice(0, end)).found, text.slice(0, end)).toBe("more");
    expect(parse(text).found).toBe("request");
  });

  test("has the length of its own headers, not of those before", () => {
    const text = `${head("POST /a HTTP/1.1", HOST, "Content-Length: 2")}ab${head("POST /a HTTP/1.1", HOST)}`;
    const { parser, bytes } = parse(text);
    parser.parse(bytes, parser.end);
    expect(parser.end).toBe(text.length);
    expect(parser.bodyAt).toBe(parser.end);
  });
});

const GET = "GET / HTTP/1.1";
const POST = "POST / HTTP/1.1";

describe("what another parser could read in another way is left to node:http", () => {
  test.each<[string, string]>([
    ["two lengths", head(POST, HOST, "Content-Length: 1", "Content-Length: 1")],
    ["a list of lengths", head(POST, HOST, "Content-Length: 1, 1")],
    ["a length with a sign", head(POST, HOST, "Content-Length: +1")],
    ["a negative length", head(POST, HOST, "Content-Length: -1")],
    ["a length with a leading zero", head(POST, HOST, "Content-Length: 01")],
    ["a hexadecimal length", head(POST, HOST, "Content-Length: 0x1")],
    ["an empty length", head(POST, HOST, "Content-Length:")],
    ["a length with a fraction", head(POST, HOST, "Content-Length: 1.0")],
    ["a length and chunks (CL.TE)", head(POST, HOST, "Content-Length: 1", "Transfer-Encoding: chunked")],
    ["chunks and a length (TE.CL)", head(POST, HOST, "Transfer-Encoding: chunked", "Content-Length: 1")],
    ["chunks twice (TE.TE)", head(POST, HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: x")],
    ["chunks", head(POST, HOST, "Transfer-Encoding: chunked")],
    ["chunks in disguise", head(POST, HOST, "Transfer-Encoding : chunked")],
    ["chunks behind a tab", head(POST, HOST, "\tTransfer-Encoding: chunked")],
    ["a folded header", head(GET, HOST, "X-A: a", " b")],
    ["a folded first header", head(GET, " X-A: a", HOST)],
    ["a space before the colon", head(GET, HOST, "X-A : a")],
    ["a header without a colon", head(GET, HOST, "X-A")],
    ["a header without a name", head(GET, HOST, ": a")],
    ["bare line feeds", `${GET}\n${HOST}\n\n`],
    ["a bare line feed among line ends", `${GET}\r\n${HOST}\nX-A: a\r\n\r\n`],
    ["a bare carriage return", `${GET}\r\n${HOST}\rX-A: a\r\n\r\n`],
    ["a NUL", head(GET, HOST, "X-A: a\0b")],
    ["a byte beyond ASCII", head(GET, HOST, "X-A: \xe4")],
    ["a DEL", head(GET, HOST, "X-A: \x7f")],
    ["no host", head(GET)],
    ["two hosts", head(GET, HOST, "host: b")],
    ["an empty host", head(GET, "Host:")],
    ["a host with a path", head(GET, "Host: a/b")],
    ["a header twice", head(GET, HOST, "X-A: a", "x-a: b")],
    ["an absolute address", head("GET http://a/ HTTP/1.1", HOST)],
    ["an asterisk", head("OPTIONS * HTTP/1.1", HOST)],
    ["a fragment", head("GET /#a HTTP/1.1", HOST)],
    ["a backslash", head("GET /a\\b HTTP/1.1", HOST)],
    ["a byte beyond ASCII in the address", head("GET /\xe4 HTTP/1.1", HOST)],
    ["two spaces", head("GET  / HTTP/1.1", HOST)],
    ["a tab", head("GET\t/ HTTP/1.1", HOST)],
    ["a space in the address", head("GET /a b HTTP/1.1", HOST)],
    ["no version", head("GET /", HOST)],
    ["HTTP/1.0", head("GET / HTTP/1.0", HOST)],
    ["HTTP/1.2", head("GET / HTTP/1.2", HOST)],
    ["HTTP/2", head("PRI * HTTP/2.0")],
    ["a small method", head("get / HTTP/1.1", HOST)],
    ["another method", head("PATCH / HTTP/1.1", HOST)],
    ["CONNECT", head("CONNECT a:1 HTTP/1.1", HOST)],
    ["an empty line first", `\r\n${head(GET, HOST)}`],
    ["a connection that is to close", head(GET, HOST, "Connection: close")],
    ["an upgrade", head(GET, HOST, "Connection: Upgrade", "Upgrade: websocket")],
    ["an upgrade alone", head(GET, HOST, "Upgrade: h2c")],
    ["an expectation", head(POST, HOST, "Expect: 100-continue", "Content-Length: 1")],
    ["a trailer", head(POST, HOST, "Trailer: a")],
    ["a GET with a body", `${head(GET, HOST, "Content-Length: 1")}a`],
    ["a long head", head(GET, HOST, `X-A: ${"a".repeat(8_192)}`)],
    ["a long body", head(POST, HOST, `Content-Length: ${LANE_BYTES}`)],
    ["a very long body", head(POST, HOST, "Content-Length: 9999999999999999999999")],
    ["TLS", "\x16\x03\x01\x02\x00\x01"],
  ])("%s", (_, text) => {
    expect(parse(text).found).toBe("other");
  });

  test("a head that cannot become a plain one is not waited for", () => {
    expect(parse("GET / HTTP/1.1\nHost: a").found).toBe("other");
    expect(parse(`GET / HTTP/1.1\r\nHost: a\0`).found).toBe("other");
    expect(parse(`GET /${"a".repeat(8_192)}`).found).toBe("other");
  });
});

describe("a parser that has read other requests", () => {
  const lines = [
    GET,
    POST,
    "PUT /a HTTP/1.1",
    "PUT /ab?c HTTP/1.1",
    "HEAD / HTTP/1.1",
    "GET / HTTP/1.0",
    "POST  / HTTP/1.1",
  ];
  const blocks = [
    [HOST],
    ["Host: b"],
    [HOST, "Content-Length: 3"],
    [HOST, "Content-Length: 12"],
    [HOST, "X-A: 1"],
    [HOST, "X-A: 12"],
    [HOST, "Transfer-Encoding: chunked"],
    ["X-A: 1"],
    [],
  ];
  const requests = lines.flatMap((line) => blocks.map((block) => `${head(line, ...block)}abcdefghijkl`));
  const seen = (parser: LaneParser, found: string) => {
    if (found !== "request") return found === "more" ? [found, parser.isWithinBody] : [found];
    const { method, path, search, headers, bodyAt, end } = parser;
    return [method, path, search, [...headers], bodyAt, end];
  };

  test("reads each request, and each beginning of one, as a new parser does", () => {
    for (const first of requests) {
      for (const text of requests) {
        for (const length of [text.length, text.length - 12, text.length - 13, text.indexOf("\r") + 2, 5]) {
          const used = new LaneParser(16_384);
          // A parser whose connection was passed on reads nothing more.
          if (used.parse(Buffer.from(first), 0) === "other") break;
          const bytes = Buffer.from(`skipped${text.slice(0, length)}`);
          const fresh = new LaneParser(16_384);
          const expected = seen(fresh, fresh.parse(bytes, 7));
          expect(seen(used, used.parse(bytes, 7)), JSON.stringify([first, text.slice(0, length)])).toEqual(expected);
        }
      }
    }
  });

  test("tells whether the headers are those of the request before, to the byte", () => {
    const parser = new LaneParser(16_384);
    const hasSame = (text: string) => {
      expect(parser.parse(Buffer.from(text), 0)).toBe("request");
      return parser.hasSameHeaders;
    };
    const one = head(GET, HOST, "X-A: 1");
    expect([one, one, one.replace("/", "/b"), one.replace("X-A", "x-a"), one].map(hasSame)).toEqual([
      false,
      true,
      true,
      false,
      false,
    ]);
  });
});
