/**
 * Reads the requests that are beyond doubt from the bytes of a connection. A lane has one per connection. Whatever it does not
 * take is for the parser of `node:http`, so no request is ever understood in two ways.
 *
 * Invariants: it takes only what RFC 9112 lets every parser read alike: one form of request line, headers of visible ASCII that
 * come once each, and a body whose length one plain number gives. It never takes a request that is longer than `LANE_BYTES`.
 */

/** `request`: the fields of the parser tell it. `more`: its end has not arrived. `other`: the lane does not take it. */
export type Finding = "request" | "more" | "other";

export type LaneHeaders = ReadonlyMap<string, string>;

/** A longer head or body is not at hand in one or two reads, and gains nothing from a faster parser. */
export const LANE_BYTES = 64 * 1_024;
/** The longest head that the lane takes, if the limit of the door allows it. */
const MAX_HEAD = 8 * 1_024;

const END_OF_HEAD = Buffer.from("\r\n\r\n");
const VERSION = " HTTP/1.1";
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]);
const TARGET = /^\/[\w\-.~%!$&'()*+,;=:@/?]*$/;
const NAME = /^[\w!#$%&'*+\-.^`|~]+$/;
const VALUE = /^[\t\x20-\x7e]*$/;
const HOST = /^[\w.\-:[\]]+$/;
const LENGTH = /^(?:0|[1-9]\d{0,5})$/;
/** The beginning of a head: visible ASCII in lines that end with CRLF. */
const BEGINNING = /^[A-Z](?:[\t\x20-\x7e]|\r\n)*\r?$/;
/** Headers that change how a message is framed, or what becomes of its connection. */
const FRAMING: readonly string[] = ["transfer-encoding", "expect", "upgrade", "trailer", "te", "http2-settings"];

export class LaneParser {
  method = "";
  path = "";
  search = "";
  headers: LaneHeaders = new Map();
  /** Where the body begins and ends. */
  bodyAt = 0;
  end = 0;
  /** After `more`: the head has arrived, and the body has not. */
  isWithinBody = false;
  /** Most clients send the same headers again, so the last ones are kept with their meaning. */
  private lastBlock: string | undefined = undefined;
  private lastLength = 0;

  private readonly maxHead: number;

  constructor(headerBytes: number) {
    this.maxHead = Math.min(headerBytes, MAX_HEAD);
  }

  parse(bytes: Buffer, from: number): Finding {
    this.isWithinBody = false;
    const headEnd = bytes.indexOf(END_OF_HEAD, from);
    if (headEnd < 0) return this.isBeginning(bytes, from) ? "more" : "other";
    if (headEnd + END_OF_HEAD.length - from > this.maxHead) return "other";
    // With the line end of the last header.
    const head = bytes.toString("latin1", from, headEnd + 2);
    const lineEnd = head.indexOf("\r\n");
    if (!this.readLine(head.slice(0, lineEnd)) || !this.readBlock(head.slice(lineEnd + 2))) return "other";
    const length = this.lastLength;
    if (length > 0 && (this.method === "GET" || this.method === "HEAD")) return "other";
    this.bodyAt = headEnd + END_OF_HEAD.length;
    this.end = this.bodyAt + length;
    if (this.end - from > LANE_BYTES) return "other";
    this.isWithinBody = this.end > bytes.length;
    return this.isWithinBody ? "more" : "request";
  }

  private isBeginning(bytes: Buffer, from: number): boolean {
    return bytes.length - from < this.maxHead && BEGINNING.test(bytes.toString("latin1", from));
  }

  private readLine(line: string): boolean {
    const space = line.indexOf(" ");
    const method = line.slice(0, space);
    if (!METHODS.has(method) || !line.endsWith(VERSION)) return false;
    const target = line.slice(space + 1, -VERSION.length);
    if (!TARGET.test(target)) return false;
    const mark = target.indexOf("?");
    this.method = method;
    this.path = mark < 0 ? target : target.slice(0, mark);
    this.search = mark < 0 ? "" : target.slice(mark + 1);
    return true;
  }

  private readBlock(block: string): boolean {
    if (block === this.lastBlock) return true;
    const headers = headersOf(block);
    if (headers === undefined) return false;
    const length = headers.get("content-length") ?? "0";
    const isPlain = LENGTH.test(length) && (headers.get("connection") ?? "keep-alive").toLowerCase() === "keep-alive";
    if (!isPlain || !HOST.test(headers.get("host") ?? "") || FRAMING.some((name) => headers.has(name))) return false;
    this.headers = headers;
    this.lastLength = Number(length);
    this.lastBlock = block;
    return true;
  }
}

/** Undefined for a header that is malformed, folded, or there twice. */
function headersOf(block: string): LaneHeaders | undefined {
  const headers = new Map<string, string>();
  for (let at = 0; at < block.length; ) {
    const end = block.indexOf("\r\n", at);
    const colon = block.indexOf(":", at);
    if (colon < 0 || colon > end) return undefined;
    const name = block.slice(at, colon).toLowerCase();
    const value = block.slice(colon + 1, end);
    if (!NAME.test(name) || !VALUE.test(value) || headers.has(name)) return undefined;
    headers.set(name, trimmed(value));
    at = end + 2;
  }
  return headers;
}

/** Without the spaces and tabs around it, which do not belong to a header's value. */
function trimmed(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isBlank(value, start)) start++;
  while (end > start && isBlank(value, end - 1)) end--;
  return value.slice(start, end);
}

const isBlank = (text: string, at: number): boolean => text[at] === " " || text[at] === "\t";
