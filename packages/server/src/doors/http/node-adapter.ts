/**
 * Connects `node:http` to the request/reply shape. Owns sockets, body limits, time limits and shutdown. Compose opens
 * it; it knows no address and no feature.
 *
 * Invariants: every request gets exactly one response, in the order of the requests on its connection. A close waits
 * for the responses in flight.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import type { ErrorCode } from "@sluice/protocol";
import type { Deadlines } from "../../core/deadlines.ts";
import type { Headers, HttpRequest, Reply } from "../../core/http.ts";
import { Refusal } from "../../core/refusal.ts";
import type { EndReason, Sink } from "../../core/sink.ts";
import { EngineError } from "../../engine/contract.ts";
import { AnswerClock, GONE } from "./answer-clock.ts";
import { HTTP_LIMITS, type HttpLimits } from "./limits.ts";
import { listenFault } from "./listen-fault.ts";
import { capConnections } from "./node-connection-cap.ts";
import { hangUp } from "./node-hang-up.ts";
import { NodeRequest, onOver } from "./node-request.ts";
import type { HttpObserver, ObservedRequest, Traffic } from "./observer.ts";
import { renderFault } from "./problem.ts";

export interface HttpDoorOptions extends Partial<HttpLimits> {
  readonly host: string;
  readonly port: number;
  handle(request: HttpRequest): Promise<Reply> | Reply;
  /** Adds headers to every response, refusals included. */
  readonly decorate?: ((request: HttpRequest, headers: Headers) => void) | undefined;
  readonly observer?: HttpObserver | undefined;
  /** Limits the time for a response, where given; a request without a response by then is refused. */
  readonly deadlines?: Deadlines | undefined;
  /** Called with every fault whose details the client does not see. */
  report(fault: unknown, request: ObservedRequest): void;
}

const SAFE = ["X-Content-Type-Options", "nosniff", "Cross-Origin-Resource-Policy", "cross-origin"];

/** One connection: how many responses it is owed, and whether it closes after them. */
interface Line {
  waiting: number;
  /**
   * The latest request, until it has arrived completely and is answered. Keeping it longer would promote it, and all it
   * refers to, to the old generation of the heap. Responses go out in the order of the requests.
   */
  latest: IncomingMessage | undefined;
  /** The connection closes when at most this many responses are owed. */
  endsAt: number | undefined;
}

const LINE = Symbol("line");
type LinedSocket = Socket & { [LINE]?: Line };

export class HttpDoor {
  private readonly server: Server;
  private readonly limits: HttpLimits;
  private readonly sockets = new Set<Socket>();
  readonly traffic: Traffic = { receivedBytes: 0, sentBytes: 0 };
  private closing = false;
  /**
   * Once closing: the connections that are owed a response. While there is one, idle connections stay and may send
   * requests.
   */
  private readonly busy = new Set<Socket>();

  private constructor(private readonly options: HttpDoorOptions) {
    const limits = { ...HTTP_LIMITS, ...options };
    this.limits = limits;
    this.server = createServer({
      requestTimeout: limits.requestMs,
      headersTimeout: Math.min(limits.requestMs, limits.headersMs),
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: Math.min(limits.requestMs, limits.checkMs),
      maxHeaderSize: limits.headerBytes,
      // The door refuses it itself, as a problem.
      requireHostHeader: false,
    });
    const door = this;
    this.answered = function (this: ServerResponse) {
      door.endIfDue(this.req);
    };
    this.server.on("connection", (socket) => this.welcome(socket));
    const { traffic } = this;
    this.server.on("request", (incoming, outgoing) => this.serve(new NodeRequest(incoming, outgoing, traffic)));
    this.server.on("checkContinue", (incoming, outgoing) => {
      this.serve(new NodeRequest(incoming, outgoing, traffic, true));
    });
    this.server.on("checkExpectation", (incoming, outgoing) => {
      this.serve(new NodeRequest(incoming, outgoing, traffic, true), () => {
        throw new Refusal("bad-header", "Expect must be 100-continue");
      });
    });
    this.server.on("connect", (_, socket) => {
      socket.on("error", () => {});
      const allow = "Allow: GET, HEAD, PUT, POST, DELETE, OPTIONS";
      this.hangUp(socket as Socket, "method-not-allowed", "CONNECT is not known here", [allow]);
    });
    this.server.on("clientError", (error, socket) => this.refuseGarbage(error, socket as Socket));
    capConnections(this.server, limits.connections, limits.lingerMs);
  }

  static async open(options: HttpDoorOptions): Promise<HttpDoor> {
    const door = new HttpDoor(options);
    await new Promise<void>((resolve, reject) => {
      const refuse = (fault: Error) => reject(listenFault(fault, options.host, options.port));
      door.server.once("error", refuse);
      door.server.listen(options.port, options.host, () => {
        door.server.off("error", refuse);
        resolve();
      });
    });
    return door;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get connections(): number {
    return this.sockets.size;
  }

  /**
   * Accepts no more connections; resolves when the requests in flight have been answered. Until then a kept-alive
   * connection can still ask for readiness and learn that the server is shutting down.
   */
  close(): Promise<void> {
    this.closing = true;
    // `Server.close` cuts off responses that are written but not yet received; the one of `net.Server` waits for them.
    const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(this.server, () => resolve()));
    for (const socket of this.sockets) if (!this.isIdle(socket)) this.busy.add(socket);
    this.endIdle();
    return closed.then(() => {
      // Without connections, the HTTP server's own close is safe, and stops its timer.
      this.server.close();
      this.options.deadlines?.stop();
    });
  }

  private endIdle(): void {
    if (this.busy.size === 0) for (const socket of this.sockets) if (this.isIdle(socket)) socket.destroy();
  }

  /** No response is owed, and no first request has begun to arrive. */
  private isIdle(socket: Socket): boolean {
    const line = (socket as LinedSocket)[LINE];
    return line === undefined ? socket.bytesRead === 0 : line.waiting === 0 && !isArriving(line);
  }

  /** Destroys the connections that are still open. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  private welcome(socket: Socket): void {
    // A client may pipeline any number of requests, and each may listen for the end of the connection.
    socket.setMaxListeners(0);
    this.sockets.add(socket);
    socket.once("close", () => {
      this.sockets.delete(socket);
      if (this.busy.delete(socket)) this.endIdle();
    });
  }

  private serve(request: NodeRequest, handle = this.options.handle): void {
    this.track(request);
    const { observer, deadlines } = this.options;
    observer?.began(request);
    if (deadlines !== undefined) {
      request.clock = new AnswerClock(deadlines, request, this.refuseLate);
      request.clock.start();
    }
    let answer: Promise<Reply> | Reply;
    try {
      request.check();
      answer = observer?.surround ? observer.surround(request, handle) : handle(request);
    } catch (fault) {
      answer = this.renderFault(fault, request);
    }
    if (!(answer instanceof Promise)) this.settle(request, answer);
    else {
      answer.then(
        (reply) => this.settle(request, reply),
        (fault) => this.settle(request, this.renderFault(fault, request)),
      );
    }
  }

  private settle(request: NodeRequest, reply: Reply): void {
    const { clock } = request;
    if (clock?.isUp) {
      reply.live?.(GONE);
      return;
    }
    clock?.stop();
    this.send(request, reply);
  }

  /** The handler continues, as it does when a client has left. */
  private readonly refuseLate = (request: HttpRequest): void => {
    const detail = `the request was not completed within ${this.options.deadlines!.spanMs} ms; the outcome of a write is unknown`;
    const late = request as NodeRequest;
    this.send(late, this.renderFault(new EngineError("unavailable", detail), late));
  };

  private renderFault(fault: unknown, request: NodeRequest): Reply {
    return renderFault(fault, (unexpected) => this.options.report(unexpected, request));
  }

  private send(request: NodeRequest, reply: Reply): void {
    const { observer, report } = this.options;
    if (this.closing) request.outgoing.shouldKeepAlive = false;
    // The id lets a client name the request when it reports a failure.
    if (observer && reply.status >= 500) reply.headers.push("X-Request-Id", observer.idOf(request));
    const hasLeft = request.outgoing.destroyed;
    if (observer && reply.live && !hasLeft) this.observeLive(observer, request, reply.status);
    else observer?.answered(request, reply.status, hasLeft);
    try {
      this.options.decorate?.(request, reply.headers);
      send(request, reply, this.limits.lingerMs);
    } catch (fault) {
      // A response that cannot be written is a defect of the server. It must not affect other connections.
      report(fault, request);
      request.outgoing.destroy();
    }
  }

  private observeLive(observer: HttpObserver, request: NodeRequest, status: number): void {
    observer.opened(request, status);
    onOver(request, () => observer.ended(request, status, request.endedBy ?? "gone"));
  }

  /**
   * Counts the responses that a connection is owed, so that a connection that must close does so after the last one.
   */
  private track({ incoming, outgoing }: NodeRequest): void {
    const socket: LinedSocket = incoming.socket;
    const line = socket[LINE];
    if (line === undefined) socket[LINE] = { waiting: 1, latest: incoming, endsAt: undefined };
    else {
      line.waiting++;
      line.latest = incoming;
    }
    if (this.closing) this.busy.add(socket);
    outgoing.on("close", this.answered);
  }

  /** One listener for all responses, because it is added for every request. */
  private readonly answered: (this: ServerResponse) => void;

  private endIfDue(incoming: IncomingMessage): void {
    const socket: LinedSocket = incoming.socket;
    const line = socket[LINE]!;
    line.waiting--;
    if (line.latest === incoming && incoming.complete) line.latest = undefined;
    if (line.waiting <= (line.endsAt ?? -1) || (this.closing && line.waiting === 0)) socket.destroySoon();
  }

  /** Refuses input that is not HTTP, or not in time. If earlier requests are owed responses, those come first. */
  private refuseGarbage(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === "ECONNRESET" || !socket.writable) {
      socket.destroy();
      return;
    }
    const line = (socket as LinedSocket)[LINE];
    const isWithinBody = line !== undefined && isArriving(line);
    const owed = line === undefined ? 0 : isWithinBody ? line.waiting - 1 : line.waiting;
    // Below zero: the request was answered before its body arrived.
    if (owed < 0) socket.destroySoon();
    else if (owed > 0) line!.endsAt = line!.waiting - owed;
    else if (error.code === "HPE_HEADER_OVERFLOW")
      this.hangUp(
        socket,
        "bad-request",
        `the headers have more than ${this.limits.headerBytes} bytes; send fewer or shorter ones`,
      );
    else if (error.code === "ERR_HTTP_REQUEST_TIMEOUT")
      this.hangUp(socket, "body-timeout", "the request took too long to arrive");
    else if (isWithinBody) this.hangUp(socket, "bad-request", "the body is not framed as HTTP/1.1 requires");
    else this.hangUp(socket, "bad-request", "this is not HTTP/1.1");
  }

  private hangUp(socket: Socket, code: ErrorCode, detail: string, more: readonly string[] = []): void {
    this.options.observer?.malformed();
    hangUp(socket, this.limits.lingerMs, code, detail, more);
  }
}

/** Whether a request has begun and its body is not complete. */
function isArriving({ latest }: Line): boolean {
  return latest !== undefined && !latest.complete;
}

function send(request: NodeRequest, reply: Reply, lingerMs: number): void {
  const { outgoing } = request;
  if (outgoing.destroyed) return;
  const headers = reply.headers;
  headers.push(...SAFE);
  const { body, live, status } = reply;
  if (request.mustHangUp && live === undefined) {
    sendAndHangUp(request, reply, lingerMs);
    return;
  }
  if (live) {
    outgoing.writeHead(status, headers);
    outgoing.flushHeaders();
    live(new NodeSink(request));
    return;
  }
  if (body !== undefined) headers.push("Content-Length", String(countSent(request, body)));
  else if (status !== 204 && status !== 304 && request.method !== "HEAD") headers.push("Content-Length", "0");
  outgoing.writeHead(status, headers);
  if (body === undefined || request.method === "HEAD") outgoing.end();
  else outgoing.end(body);
}

/** The length of a body that is about to be sent. */
function countSent({ method, traffic }: NodeRequest, body: Uint8Array | string): number {
  const length = typeof body === "string" ? Buffer.byteLength(body) : body.length;
  if (method !== "HEAD") traffic.sentBytes += length;
  return length;
}

/**
 * Sends the response with `Connection: close`, and leaves the client time to read it before the connection is
 * destroyed.
 */
function sendAndHangUp(request: NodeRequest, reply: Reply, lingerMs: number): void {
  const { incoming, outgoing } = request;
  if (reply.body !== undefined) countSent(request, reply.body);
  outgoing.shouldKeepAlive = false;
  outgoing.writeHead(reply.status, [...reply.headers, "Connection", "close"]);
  const { socket } = incoming;
  outgoing.end(reply.body, () => setTimeout(() => socket.destroy(), lingerMs).unref());
}

class NodeSink implements Sink {
  private readonly outgoing: ServerResponse;
  private readonly draining: (() => void)[] = [];

  constructor(private readonly request: NodeRequest) {
    this.outgoing = request.outgoing;
    // A reset by the client is not a fault of the server; `close` follows it.
    this.outgoing.on("error", () => {});
  }

  get buffered(): number {
    return this.outgoing.writableLength;
  }

  write(bytes: Uint8Array): void {
    if (this.outgoing.destroyed) return;
    this.request.traffic.sentBytes += bytes.length;
    this.outgoing.write(bytes, this.written);
  }

  /** Runs when everything is written. Node's `drain` fires at its high-water mark, below which much may still wait. */
  onDrain(task: () => void): void {
    if (this.buffered === 0) queueMicrotask(task);
    else this.draining.push(task);
  }

  private readonly written = (): void => {
    if (this.draining.length > 0 && this.buffered === 0) for (const task of this.draining.splice(0)) task();
  };

  onGone(task: () => void): void {
    onOver(this.request, task);
  }

  end(why?: EndReason): void {
    this.request.endedBy ??= why;
    this.outgoing.end();
  }

  cut(why?: EndReason): void {
    if (!this.outgoing.destroyed && why !== undefined) this.request.endedBy = why;
    this.outgoing.destroy();
  }
}
