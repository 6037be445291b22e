/**
 * The wire format of Redis: calls become bytes, bytes become replies. `node.ts` writes and reads with it. It is written for
 * speed, because the engine sends thousands of calls per second; other code uses the client library.
 *
 *   a call    *3 CRLF $5 CRLF FCALL CRLF $4 CRLF name CRLF $1 CRLF 0 CRLF
 *   a reply   +text  -error  :number  $length, that many bytes  *count, that many replies; each ended by CRLF; length -1 is null
 */

export type Argument = string | Buffer;

/** An error reply of Redis; the first word is its code. */
export class RedisRefusal extends Error {}

const ASKING = "*1\r\n$6\r\nASKING\r\n";
/** The most bytes that an argument's length takes, with its delimiters. */
const FRAME_BYTES = 20;
const MAX_BYTES_PER_UNIT = 3;

export function encode(calls: readonly { readonly args: readonly Argument[]; readonly asking: boolean }[]): Buffer {
  const out = Buffer.allocUnsafe(roomFor(calls));
  let at = 0;
  let text = "";
  for (const { args, asking } of calls) {
    if (asking) text += ASKING;
    text += `*${args.length}\r\n`;
    for (const arg of args) {
      if (typeof arg === "string") text += `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`;
      else {
        at += out.write(`${text}$${arg.length}\r\n`, at);
        out.set(arg, at);
        at += arg.length;
        text = "\r\n";
      }
    }
  }
  at += out.write(text, at);
  return out.subarray(0, at);
}

function roomFor(calls: readonly { readonly args: readonly Argument[]; readonly asking: boolean }[]): number {
  let room = 0;
  for (const { args } of calls) {
    room += ASKING.length + FRAME_BYTES;
    for (const arg of args)
      room += FRAME_BYTES + (typeof arg === "string" ? arg.length * MAX_BYTES_PER_UNIT : arg.length);
  }
  return room;
}

/** Receives the replies, in the order of the calls. */
export interface Receiver {
  /** Whether the reply that begins now is wanted as text; otherwise as bytes. */
  isText(): boolean;
  receive(reply: unknown): void;
}

const CR = 13;
const [TEXT, ERROR, NUMBER, BULK, ARRAY] = [0x2b, 0x2d, 0x3a, 0x24, 0x2a];

interface Unfinished {
  readonly items: unknown[];
  readonly count: number;
}

/** Decodes bytes that come in pieces of any size. A piece that ends within a reply waits for the next. */
export class Decoder {
  private pieces: Buffer[] = [];
  private heldBytes = 0;
  /** The decoder cannot proceed with fewer bytes than this. */
  private neededBytes = 1;
  /** The length of the bytes that come next; -1 if a line comes next. */
  private bulk = -1;
  private readonly stack: Unfinished[] = [];
  private isText = false;

  constructor(private readonly receiver: Receiver) {}

  /** Throws if the bytes violate the protocol. */
  push(piece: Buffer): void {
    this.pieces.push(piece);
    this.heldBytes += piece.length;
    if (this.heldBytes < this.neededBytes) return;
    const bytes = this.pieces.length === 1 ? piece : Buffer.concat(this.pieces, this.heldBytes);
    const read = this.read(bytes);
    const rest = bytes.subarray(read);
    this.pieces = rest.length === 0 ? [] : [rest];
    this.heldBytes = rest.length;
  }

  /** Returns how far it got, and records how many bytes it needs to continue. */
  private read(bytes: Buffer): number {
    let at = 0;
    for (;;) {
      if (this.bulk >= 0) {
        const end = at + this.bulk;
        if (end + 2 > bytes.length) {
          this.neededBytes = this.bulk + 2;
          return at;
        }
        this.bulk = -1;
        this.take(this.isText ? bytes.toString("latin1", at, end) : bytes.subarray(at, end));
        at = end + 2;
      } else {
        const end = lineEnd(bytes, at);
        if (end < 0) {
          this.neededBytes = bytes.length - at + 1;
          return at;
        }
        this.readLine(bytes, at, end);
        at = end + 2;
      }
    }
  }

  private readLine(bytes: Buffer, at: number, end: number): void {
    if (this.stack.length === 0) this.isText = this.receiver.isText();
    const type = bytes[at];
    if (type === BULK) {
      this.bulk = numberIn(bytes, at + 1, end);
      if (this.bulk < 0) this.take(null);
    } else if (type === ARRAY) {
      const count = numberIn(bytes, at + 1, end);
      if (count > 0) this.stack.push({ items: [], count });
      else this.take(count < 0 ? null : []);
    } else if (type === NUMBER) this.take(numberIn(bytes, at + 1, end));
    else if (type === TEXT) this.take(bytes.toString("utf8", at + 1, end));
    else if (type === ERROR) this.take(new RedisRefusal(bytes.toString("utf8", at + 1, end)));
    else throw new Error("the server does not speak the Redis protocol");
  }

  /** Takes a whole value, and completes every array of which it is the last element. */
  private take(value: unknown): void {
    let whole = value;
    for (let top = this.stack.at(-1); top !== undefined; top = this.stack.at(-1)) {
      top.items.push(whole);
      if (top.items.length < top.count) return;
      this.stack.pop();
      whole = top.items;
    }
    this.receiver.receive(whole);
  }
}

/** The end of the line that begins at `at`; -1 if it has not arrived yet. */
function lineEnd(bytes: Buffer, at: number): number {
  for (let i = at; i < bytes.length - 1; i++) if (bytes[i] === CR) return i;
  return -1;
}

function numberIn(bytes: Buffer, from: number, end: number): number {
  const isNegative = bytes[from] === 0x2d;
  let value = 0;
  for (let i = isNegative ? from + 1 : from; i < end; i++) value = value * 10 + bytes[i]! - 0x30;
  return isNegative ? -value : value;
}
