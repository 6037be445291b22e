// A keep-alive HTTP/1.1 connection on a raw socket, one request at a time, as cheap as a client can be. Filling, catch-up reading
// and publishing use it, because the load generator must not become the bottleneck. It understands Content-Length, chunked, and
// replies without a body, and nothing else.

import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface Reply {
  readonly status: number;
  header(name: string): string | undefined;
}

export interface Request {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
  /** Called with every piece of the reply's body. The bytes are valid during the call only. */
  readonly onBody?: (piece: Buffer) => void;
}

const HEAD_LIMIT_BYTES = 64 * 1024;
const HEAD_END = Buffer.from("\r\n\r\n");

type Phase = "idle" | "head" | "sized" | "chunk-size" | "chunk-data" | "chunk-end";

export class HttpConnection {
  private phase: Phase = "idle";
  private pending: Buffer = Buffer.alloc(0);
  private remaining = 0;
  private request: Request | undefined;
  private reply: Reply | undefined;
  private settle: { resolve(reply: Reply): void; reject(error: Error): void } | undefined;

  private constructor(
    private readonly socket: Socket,
    private readonly host: string,
  ) {
    socket.setNoDelay(true);
    socket.on("data", (bytes) => this.receive(bytes));
    socket.on("error", (error) => this.fail(error));
    socket.on("close", () => this.fail(new Error("the server closed the connection")));
  }

  static async open(url: URL): Promise<HttpConnection> {
    const socket = connect({ host: url.hostname, port: Number(url.port) });
    await once(socket, "connect");
    return new HttpConnection(socket, url.host);
  }

  send(request: Request): Promise<Reply> {
    if (this.phase !== "idle" || this.socket.destroyed) return Promise.reject(new Error("the connection is not free"));
    const body = request.body ?? "";
    let head = `${request.method} ${request.path} HTTP/1.1\r\nHost: ${this.host}\r\n`;
    for (const name in request.headers) head += `${name}: ${request.headers[name]}\r\n`;
    if (request.method === "PUT" || request.method === "POST") head += `Content-Length: ${Buffer.byteLength(body)}\r\n`;
    this.request = request;
    this.phase = "head";
    const replied = new Promise<Reply>((resolve, reject) => {
      this.settle = { resolve, reject };
    });
    if (typeof body === "string") this.socket.write(`${head}\r\n${body}`);
    else {
      this.socket.cork();
      this.socket.write(`${head}\r\n`);
      this.socket.write(body);
      this.socket.uncork();
    }
    return replied;
  }

  close(): void {
    this.socket.destroy();
  }

  private receive(bytes: Buffer): void {
    let rest: Buffer | undefined = this.pending.length > 0 ? Buffer.concat([this.pending, bytes]) : bytes;
    this.pending = Buffer.alloc(0);
    try {
      while (rest && rest.length > 0) rest = this.step(rest);
    } catch (error) {
      this.fail(error as Error);
      this.socket.destroy();
    }
  }

  /** Consumes as many of the bytes as it can; returns the rest, or nothing if it must wait for more. */
  private step(bytes: Buffer): Buffer | undefined {
    switch (this.phase) {
      case "idle":
        throw new Error("the server sent bytes without a request");
      case "head":
        return this.takeHead(bytes);
      case "sized":
      case "chunk-data":
        return this.takeBody(bytes);
      case "chunk-size":
      case "chunk-end":
        return this.takeChunkLine(bytes);
    }
  }

  private takeHead(bytes: Buffer): Buffer | undefined {
    const end = bytes.indexOf(HEAD_END);
    if (end === -1) {
      if (bytes.length > HEAD_LIMIT_BYTES) throw new Error("the reply's head is too long");
      this.pending = bytes;
      return undefined;
    }
    const head = bytes.toString("latin1", 0, end + 2);
    const lowered = head.toLowerCase();
    const status = Number(head.slice(9, 12));
    const header = (name: string) => {
      const at = lowered.indexOf(`\r\n${name.toLowerCase()}:`);
      return at === -1 ? undefined : head.slice(at + name.length + 3, head.indexOf("\r\n", at + 2)).trim();
    };
    this.reply = { status, header };
    const rest = bytes.subarray(end + HEAD_END.length);
    const bodiless = status === 204 || status === 304 || this.request!.method === "HEAD";
    if (!bodiless && header("transfer-encoding") === "chunked") {
      this.phase = "chunk-size";
    } else {
      this.remaining = bodiless ? 0 : Number(header("content-length") ?? 0);
      this.phase = "sized";
      if (this.remaining === 0) this.finish();
    }
    return rest;
  }

  private takeBody(bytes: Buffer): Buffer {
    const piece = bytes.length > this.remaining ? bytes.subarray(0, this.remaining) : bytes;
    this.remaining -= piece.length;
    this.request!.onBody?.(piece);
    if (this.remaining === 0) {
      if (this.phase === "sized") this.finish();
      else this.phase = "chunk-end";
    }
    return bytes.subarray(piece.length);
  }

  private takeChunkLine(bytes: Buffer): Buffer | undefined {
    const end = bytes.indexOf("\r\n");
    if (end === -1) {
      this.pending = bytes;
      return undefined;
    }
    const rest = bytes.subarray(end + 2);
    if (this.phase === "chunk-end") {
      if (this.remaining === -1) this.finish();
      else this.phase = "chunk-size";
      return rest;
    }
    this.remaining = Number.parseInt(bytes.toString("latin1", 0, end), 16);
    if (Number.isNaN(this.remaining)) throw new Error("the reply's chunking is broken");
    if (this.remaining === 0) {
      // The last chunk has no data; -1 marks that the empty line after it ends the reply.
      this.remaining = -1;
      this.phase = "chunk-end";
    } else this.phase = "chunk-data";
    return rest;
  }

  private finish(): void {
    const { settle, reply } = this;
    this.phase = "idle";
    this.settle = undefined;
    this.request = undefined;
    settle!.resolve(reply!);
  }

  private fail(error: Error): void {
    this.settle?.reject(error);
    this.settle = undefined;
  }
}
