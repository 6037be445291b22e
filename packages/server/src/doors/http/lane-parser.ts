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

const NO_HEADERS: LaneHeaders = new Map();

/** A longer head or body is not at hand in one or two reads, and gains nothing from a faster parser. */
export const LANE_BYTES = 64 * 1_024;
/** The longest head that the lane takes, if the limit of the door allows it. */
const MAX_HEAD = 8 * 1_024;

const NOTHING = Buffer.alloc(0);
/** Lines that differ by some digits fit into the same memory. */
const ROOM = 16;
const CR = 0x0d;
const LF = 0x0a;
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
  headers: LaneHeaders = NO_HEADERS;
  /** The connection had just these headers before, to the byte. */
  hasSameHeaders = false;
  /** Where the body begins and ends. */
  bodyAt = 0;
  end = 0;
  /** After `more`: the head has arrived, and the body has not. */
  isWithinBody = false;
  /** The line and the headers of the request before, with their ends. Most clients send the same again. */
  private readonly line = new KnownBytes();
  private readonly block = new KnownBytes();
  private bodyBytes = 0;

  private readonly maxHead: number;

  constructor(headerBytes: number) {
    this.maxHead = Math.min(headerBytes, MAX_HEAD);
  }

  parse(bytes: Buffer, from: number): Finding {
    this.isWithinBody = false;
    if (!this.line.isAt(bytes, from)) {
      const found = this.readLine(bytes, from);
      if (found !== "request") return found;
    }
    const blockAt = from + this.line.length;
    this.hasSameHeaders = this.block.isAt(bytes, blockAt);
    if (!this.hasSameHeaders) {
      const found = this.readBlock(bytes, from, blockAt);
      if (found !== "request") return found;
    }
    this.bodyAt = blockAt + this.block.length;
    this.end = this.bodyAt + this.bodyBytes;
    const isOdd = this.bodyBytes > 0 && (this.method === "GET" || this.method === "HEAD");
    // Each of a known line and known headers may be long.
    if (isOdd || this.bodyAt - from > this.maxHead || this.end - from > LANE_BYTES) return "other";
    this.isWithinBody = this.end > bytes.length;
    return this.isWithinBody ? "more" : "request";
  }

  /** Gives back its memory, once it reads no more. */
  forget(): void {
    this.line.forget();
    this.block.forget();
    this.headers = NO_HEADERS;
  }

  private readLine(bytes: Buffer, from: number): Finding {
    const most = Math.min(bytes.length, from + this.maxHead);
    let end = from;
    while (end < most && bytes[end] !== CR) end++;
    if (end + 1 >= most) return this.isBeginning(bytes, from) ? "more" : "other";
    if (bytes[end + 1] !== LF || !this.takeLine(bytes.toString("latin1", from, end))) return "other";
    this.line.keep(bytes, from, end + 2);
    return "request";
  }

  private takeLine(line: string): boolean {
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

  private readBlock(bytes: Buffer, from: number, blockAt: number): Finding {
    // The line of a request without headers ends with the first half.
    const end = bytes.indexOf(END_OF_HEAD, blockAt - 2);
    if (end < 0) return this.isBeginning(bytes, from) ? "more" : "other";
    if (end + END_OF_HEAD.length - from > this.maxHead) return "other";
    // With the line end of the last header, and without the empty line.
    if (!this.takeBlock(bytes.toString("latin1", blockAt, end + 2))) return "other";
    this.block.keep(bytes, blockAt, end + END_OF_HEAD.length);
    return "request";
  }

  private takeBlock(block: string): boolean {
    const headers = headersOf(block);
    if (headers === undefined) return false;
    const length = headers.get("content-length") ?? "0";
    const isPlain = LENGTH.test(length) && (headers.get("connection") ?? "keep-alive").toLowerCase() === "keep-alive";
    if (!isPlain || !HOST.test(headers.get("host") ?? "") || FRAMING.some((name) => headers.has(name))) return false;
    this.headers = headers;
    this.bodyBytes = Number(length);
    return true;
  }

  private isBeginning(bytes: Buffer, from: number): boolean {
    return bytes.length - from < this.maxHead && BEGINNING.test(bytes.toString("latin1", from));
  }
}

/** Bytes to compare with. They are a copy, because the originals may be a small part of a large buffer. */
class KnownBytes {
  private bytes = NOTHING;
  length = 0;

  /** A loop, because most of what it compares has a few dozen bytes and a call to native code costs more. */
  isAt(bytes: Buffer, at: number): boolean {
    const { bytes: known, length } = this;
    if (length === 0 || bytes.length < at + length) return false;
    for (let i = 0; i < length; i++) if (bytes[at + i] !== known[i]) return false;
    return true;
  }

  keep(bytes: Buffer, from: number, to: number): void {
    const length = to - from;
    if (this.bytes.length < length || this.bytes.length > 4 * length)
      this.bytes = Buffer.allocUnsafeSlow(length + ROOM);
    for (let i = 0; i < length; i++) this.bytes[i] = bytes[from + i]!;
    this.length = length;
  }

  forget(): void {
    this.bytes = NOTHING;
    this.length = 0;
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
