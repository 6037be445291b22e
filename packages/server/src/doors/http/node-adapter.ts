/**
 * `node:http` on one side, the request/reply shape on the other. Owns sockets, body limits, time limits and shutdown;
 * knows no address and no feature.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { errors, problem } from "@sluice/protocol";
import type { Body, HttpRequest, Reply, Sink } from "../../core/http.ts";
import { renderFault } from "./problem.ts";

export interface HttpDoorOptions {
  readonly host: string;
  readonly port: number;
  /** A request must have arrived whole within this time. */
  readonly requestMs: number;
  handle(request: HttpRequest): Promise<Reply> | Reply;
  report(fault: unknown): void;
}

const SAFE = ["X-Content-Type-Options", "nosniff", "Cross-Origin-Resource-Policy", "cross-origin"];
/** How long a client that sent too much may take to read that it did. */
const LINGER_MS = 500;

export class HttpDoor {
  private readonly server: Server;

  private constructor(private readonly options: HttpDoorOptions) {
    this.server = createServer({ requestTimeout: options.requestMs, headersTimeout: Math.min(options.requestMs, 15_000), keepAliveTimeout: 65_000 });
    this.server.on("request", (incoming, outgoing) => this.serve(incoming, outgoing));
    this.server.on("clientError", refuseGarbage);
  }

  static async open(options: HttpDoorOptions): Promise<HttpDoor> {
    const door = new HttpDoor(options);
    await new Promise<void>((resolve, reject) => {
      door.server.once("error", reject);
      door.server.listen(options.port, options.host, () => {
        door.server.off("error", reject);
        resolve();
      });
    });
    return door;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** Takes no more connections; resolves when those in flight have been answered. */
  close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.server.closeIdleConnections();
    return closed;
  }

  /** Ends what is still open. */
  cut(): void {
    this.server.closeAllConnections();
  }

  private serve(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const request = new NodeRequest(incoming, outgoing);
    let answer: Promise<Reply> | Reply;
    try {
      answer = this.options.handle(request);
    } catch (fault) {
      answer = renderFault(fault, this.options.report);
    }
    if (!(answer instanceof Promise)) return send(request, answer);
    answer.then(
      (reply) => send(request, reply),
      (fault) => send(request, renderFault(fault, this.options.report)),
    );
  }
}

class NodeRequest implements HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  /** Set when the client was cut short: the rest of what it sends is not read. */
  overflowed = false;

  constructor(
    readonly incoming: IncomingMessage,
    readonly outgoing: ServerResponse,
  ) {
    const url = incoming.url!;
    const mark = url.indexOf("?");
    this.method = incoming.method!;
    this.path = mark < 0 ? url : url.slice(0, mark);
    this.search = mark < 0 ? "" : url.slice(mark + 1);
  }

  get origin(): string {
    return `http://${this.incoming.headers.host ?? "localhost"}`;
  }

  header(name: string): string | undefined {
    return this.incoming.headers[name] as string | undefined;
  }

  body(maxBytes: number): Promise<Body> {
    const { incoming } = this;
    if (Number(incoming.headers["content-length"]) > maxBytes) {
      this.overflowed = true;
      return Promise.resolve({ kind: "too-large" });
    }
    return new Promise((resolve, reject) => {
      let first: Buffer | undefined;
      let rest: Buffer[] | undefined;
      let length = 0;
      incoming.on("data", (chunk: Buffer) => {
        if (this.overflowed) return;
        length += chunk.length;
        if (length > maxBytes) {
          this.overflowed = true;
          incoming.pause();
          resolve({ kind: "too-large" });
        } else if (first === undefined) first = chunk;
        else if (rest === undefined) rest = [first, chunk];
        else rest.push(chunk);
      });
      incoming.on("end", () => resolve({ kind: "body", bytes: rest ? Buffer.concat(rest, length) : (first ?? Buffer.alloc(0)) }));
      incoming.on("error", reject);
    });
  }

  onGone(task: () => void): void {
    const { outgoing } = this;
    if (outgoing.destroyed) return queueMicrotask(task);
    outgoing.once("close", () => {
      if (!outgoing.writableFinished) task();
    });
  }
}

function send(request: NodeRequest, reply: Reply): void {
  const { outgoing } = request;
  if (outgoing.destroyed) return;
  const headers = reply.headers;
  headers.push(...SAFE);
  if (request.overflowed) return sendAndHangUp(request, reply);
  const { body, live, status } = reply;
  if (live) {
    outgoing.writeHead(status, headers);
    outgoing.flushHeaders();
    live(new NodeSink(outgoing));
    return;
  }
  if (body !== undefined) headers.push("Content-Length", String(typeof body === "string" ? Buffer.byteLength(body) : body.length));
  else if (status !== 204 && status !== 304 && request.method !== "HEAD") headers.push("Content-Length", "0");
  outgoing.writeHead(status, headers);
  if (body === undefined || request.method === "HEAD") outgoing.end();
  else outgoing.end(body);
}

/** Answers, says that this was all, and leaves the client time to read it before the connection goes. */
function sendAndHangUp({ incoming, outgoing }: NodeRequest, reply: Reply): void {
  outgoing.shouldKeepAlive = false;
  outgoing.writeHead(reply.status, [...reply.headers, "Connection", "close"]);
  const { socket } = incoming;
  outgoing.end(reply.body, () => setTimeout(() => socket.destroy(), LINGER_MS).unref());
}

class NodeSink implements Sink {
  constructor(private readonly outgoing: ServerResponse) {
    // A reset by the client is not ours to report; `close` follows it.
    outgoing.on("error", () => {});
  }

  get buffered(): number {
    return this.outgoing.writableLength;
  }

  write(bytes: Uint8Array): void {
    if (!this.outgoing.destroyed) this.outgoing.write(bytes);
  }

  onDrain(task: () => void): void {
    if (this.outgoing.writableNeedDrain) this.outgoing.once("drain", task);
    else queueMicrotask(task);
  }

  onGone(task: () => void): void {
    if (this.outgoing.destroyed) queueMicrotask(task);
    else this.outgoing.once("close", task);
  }

  end(): void {
    this.outgoing.end();
  }

  cut(): void {
    this.outgoing.destroy();
  }
}

/** What is not HTTP, or not in time, gets a plain answer where the socket still takes one. */
function refuseGarbage(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  const code = error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? "body-timeout" : "bad-request";
  const isHeaders = error.code === "HPE_HEADER_OVERFLOW";
  const detail = isHeaders ? "the headers are too large" : code === "body-timeout" ? "the request took too long" : "this is not HTTP/1.1";
  const body = JSON.stringify(problem(code, detail));
  const { status } = errors[code];
  const lines = [
    `HTTP/1.1 ${status} ${status === 408 ? "Request Timeout" : "Bad Request"}`,
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "X-Content-Type-Options: nosniff",
    "Connection: close",
  ];
  socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
}
