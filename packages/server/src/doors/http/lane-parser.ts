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
const VERSION = Buffer.from(" HTTP/1.1");
const METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"].map((name) => ({
  name,
  bytes: Buffer.from(`${name} `),
}));
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
    if (bytes[end + 1] !== LF || !this.takeLine(bytes, from, end)) return "other";
    this.line.keep(bytes, from, end + 2);
    return "request";
  }

  private takeLine(bytes: Buffer, from: number, end: number): boolean {
    const method = METHODS.find((known) => isAt(known.bytes, known.bytes.length, bytes, from));
    const versionAt = end - VERSION.length;
    if (method === undefined || !isAt(VERSION, VERSION.length, bytes, versionAt)) return false;
    const target = textOf(bytes, from + method.bytes.length, versionAt);
    if (!TARGET.test(target)) return false;
    const mark = target.indexOf("?");
    this.method = method.name;
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
    if (!this.takeBlock(bytes, blockAt, end + 2)) return "other";
    this.block.keep(bytes, blockAt, end + END_OF_HEAD.length);
    return "request";
  }

  private takeBlock(bytes: Buffer, from: number, end: number): boolean {
    const headers = headersOf(bytes, from, end);
    if (headers === undefined) return false;
    const length = headers.get("content-length") ?? "0";
    const isPlain = LENGTH.test(length) && (headers.get("connection") ?? "keep-alive").toLowerCase() === "keep-alive";
    if (!isPlain || !HOST.test(headers.get("host") ?? "") || FRAMING.some((name) => headers.has(name))) return false;
    this.headers = headers;
    this.bodyBytes = Number(length);
    return true;
  }

  private isBeginning(bytes: Buffer, from: number): boolean {
    return bytes.length - from < this.maxHead && BEGINNING.test(textOf(bytes, from, bytes.length));
  }
}

/** Bytes to compare with. They are a copy, because the originals may be a small part of a large buffer. */
class KnownBytes {
  private bytes = NOTHING;
  length = 0;

  isAt(bytes: Buffer, at: number): boolean {
    return this.length > 0 && isAt(this.bytes, this.length, bytes, at);
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

/** Whether `known` is at this place. A loop, because most of it has a few dozen bytes and a native call costs more. */
function isAt(known: Buffer, length: number, bytes: Buffer, at: number): boolean {
  if (at < 0 || bytes.length < at + length) return false;
  for (let i = 0; i < length; i++) if (bytes[at + i] !== known[i]) return false;
  return true;
}

/**
 * A text of its own. A slice of a longer text would be compared by native code, each time that it is looked up in a map or held
 * against another text.
 */
const textOf = (bytes: Buffer, from: number, end: number): string => bytes.toString("latin1", from, end);

/** The headers in these lines; undefined for a header that is malformed, folded, or there twice. */
function headersOf(bytes: Buffer, from: number, end: number): LaneHeaders | undefined {
  const lines = textOf(bytes, from, end);
  const headers = new Map<string, string>();
  for (let at = 0; at < lines.length; ) {
    const lineEnd = lines.indexOf("\r\n", at);
    const colon = lines.indexOf(":", at);
    if (colon < 0 || colon > lineEnd) return undefined;
    const name = lines.slice(at, colon).toLowerCase();
    // The blanks around a value do not belong to it.
    let valueAt = colon + 1;
    let valueEnd = lineEnd;
    while (valueAt < valueEnd && isBlank(lines, valueAt)) valueAt++;
    while (valueEnd > valueAt && isBlank(lines, valueEnd - 1)) valueEnd--;
    const value = textOf(bytes, from + valueAt, from + valueEnd);
    if (!NAME.test(name) || !VALUE.test(value) || headers.has(name)) return undefined;
    headers.set(name, value);
    at = lineEnd + 2;
  }
  return headers;
}

const isBlank = (text: string, at: number): boolean => text[at] === " " || text[at] === "\t";
