/**
 * A client that sends exactly the bytes it is given and reads answers off a keep-alive connection. For requests that no
 * proper client would send, and cheap enough for tens of thousands of them.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { within } from "./server.ts";

export interface RawResponse {
  readonly status: number;
  /** By lower-case name; a repeated one joined by commas. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

/** The answer ended the connection, or none came. */
export type Answer = RawResponse | "closed";

const HEADERS_END = Buffer.from("\r\n\r\n");
export const ANSWER_MS = 10_000;

export class RawConnection {
  private received: Buffer = Buffer.alloc(0);
  private isEnded = false;
  private wake: (() => void) | undefined;
  readonly closed: Promise<void>;

  private constructor(readonly socket: Socket) {
    socket.on("data", (chunk) => {
      this.received = this.received.length === 0 ? chunk : Buffer.concat([this.received, chunk]);
      this.wake?.();
    });
    const end = () => {
      this.isEnded = true;
      this.wake?.();
    };
    socket.on("end", end);
    socket.on("error", () => {});
    this.closed = new Promise((resolve) => socket.once("close", () => resolve(end())));
  }

  /** `halfOpen`: our side stays open when the server ends its own. */
  static async open(port: number, { halfOpen = false } = {}): Promise<RawConnection> {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: halfOpen, noDelay: true });
    const connection = new RawConnection(socket);
    await once(socket, "connect");
    return connection;
  }

  get ended(): boolean {
    return this.isEnded;
  }

  send(bytes: string | Uint8Array): void {
    if (!this.socket.destroyed) this.socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  }

  destroy(): void {
    this.socket.destroy();
  }

  /** Drops the connection with a reset instead of a proper end. */
  reset(): void {
    this.socket.resetAndDestroy();
  }

  /** The next answer, whole. An event stream has no end: only its headers are waited for. */
  answer(method = "GET", ms = ANSWER_MS): Promise<Answer> {
    return within(ms, "an answer", this.read(method));
  }

  /** Waits until the server has closed the connection; returns what is left unread. */
  async untilClosed(ms = ANSWER_MS): Promise<Buffer> {
    await within(
      ms,
      "the end of the connection",
      this.waitFor(() => this.isEnded || undefined),
    );
    return this.received;
  }

  private async read(method: string): Promise<Answer> {
    const end = await this.waitFor(() => {
      const at = this.received.indexOf(HEADERS_END);
      return at < 0 ? undefined : at;
    });
    if (end === undefined) return "closed";
    const [first = "", ...lines] = this.received.toString("latin1", 0, end).split("\r\n");
    this.received = this.received.subarray(end + HEADERS_END.length);
    const status = Number(first.split(" ")[1]);
    const headers = parseHeaders(lines);
    if (status === 100) return this.read(method);
    const isBare = method === "HEAD" || status === 204 || status === 304;
    if (isBare || headers.get("content-type") === "text/event-stream")
      return { status, headers, body: Buffer.alloc(0) };
    const body = await this.readBody(headers);
    return body === undefined ? "closed" : { status, headers, body };
  }

  private async readBody(headers: ReadonlyMap<string, string>): Promise<Buffer | undefined> {
    if (headers.get("transfer-encoding") === "chunked") return this.readChunks();
    const length = headers.get("content-length");
    if (length === undefined) {
      await this.waitFor(() => this.isEnded || undefined);
      return this.take(this.received.length);
    }
    return this.readExactly(Number(length));
  }

  private async readExactly(length: number): Promise<Buffer | undefined> {
    const isThere = await this.waitFor(() => (this.received.length >= length ? true : undefined));
    return isThere && this.take(length);
  }

  private async readChunks(): Promise<Buffer | undefined> {
    const chunks: Buffer[] = [];
    for (;;) {
      const end = await this.waitFor(() => {
        const at = this.received.indexOf("\r\n");
        return at < 0 ? undefined : at;
      });
      if (end === undefined) return undefined;
      const size = Number.parseInt(this.take(end + 2).toString("latin1"), 16);
      const chunk = await this.readExactly(size + 2);
      if (chunk === undefined) return undefined;
      if (size === 0) return Buffer.concat(chunks);
      chunks.push(chunk.subarray(0, size));
    }
  }

  private take(length: number): Buffer {
    const taken = this.received.subarray(0, length);
    this.received = this.received.subarray(length);
    return taken;
  }

  /** Undefined when the connection ended first. */
  private async waitFor<T>(look: () => T | undefined): Promise<T | undefined> {
    for (;;) {
      const found = look();
      if (found !== undefined || this.isEnded) return found;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }
}

function parseHeaders(lines: readonly string[]): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    const earlier = headers.get(name);
    headers.set(name, earlier === undefined ? value : `${earlier}, ${value}`);
  }
  return headers;
}

/** One whole exchange on a connection of its own. */
export async function exchange(port: number, request: string | Uint8Array, method = "GET"): Promise<RawResponse> {
  const connection = await RawConnection.open(port);
  try {
    connection.send(request);
    const answer = await connection.answer(method);
    if (answer === "closed") throw new Error("the server closed the connection without an answer");
    return answer;
  } finally {
    connection.destroy();
  }
}

/** Creates the streams at these addresses, many requests at once on one connection, because nothing else is as cheap. */
export async function createAll(port: number, addresses: readonly string[]): Promise<void> {
  const connection = await RawConnection.open(port);
  const failed: string[] = [];
  for (let i = 0; i < addresses.length; i += 100) {
    const batch = addresses.slice(i, i + 100);
    connection.send(batch.map((address) => `PUT ${address} HTTP/1.1\r\nHost: localhost\r\n\r\n`).join(""));
    for (const address of batch) {
      const answer = await connection.answer("PUT");
      if (answer === "closed" || answer.status !== 201) failed.push(address);
    }
  }
  connection.destroy();
  if (failed.length > 0) throw new Error(`these streams were not created: ${failed.join(" ")}`);
}
