/**
 * Connects `node:http` to the request/reply shape. Owns sockets, time limits, the memory for bodies and answers, and shutdown.
 * Compose opens it; it knows no address and no feature.
 *
 * Invariants: every request that begins gets exactly one response, in the order of the requests on its connection. A client that
 * takes nothing of its answer is cut off. A close waits for the responses in flight.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import type { ErrorCode } from "@sluice/protocol";
import type { Deadlines } from "../../core/deadlines.ts";
import type { Headers, HttpRequest, Reply } from "../../core/http.ts";
import { Refusal } from "../../core/refusal.ts";
import { EngineError } from "../../engine/contract.ts";
import { MemoryBudget } from "../memory-budget.ts";
import { AnswerClock, GONE } from "./answer-clock.ts";
import { HTTP_LIMITS, type HttpLimits } from "./defaults.ts";
import { listenFault } from "./listen-fault.ts";
import { capConnections } from "./node-connection-cap.ts";
import { hangUp } from "./node-hang-up.ts";
import { NodeLine, type SharedParts } from "./node-line.ts";
import { NodeRequest, onOver } from "./node-request.ts";
import { NodeSink } from "./node-sink.ts";
import type { CutReason, HttpObserver, ObservedRequest, Traffic } from "./observer.ts";
import { memoryFull, renderFault } from "./problem.ts";
import { responseTo, UpgradableMessage, UpgradeRequest, WebSocketDoor } from "./websocket.ts";

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
const POLICY = "Content-Security-Policy";
/**
 * Content is what a client stored, of the type it chose. A browser that opens it as a page runs none of its scripts and gives
 * it an origin of its own, so that it cannot act with its reader's cookie.
 */
const SANDBOXED = [POLICY, "sandbox; default-src 'none'"];

/** Above this, copying a body costs more than a second buffer for the network. */
const ONE_WRITE_BYTES = 4096;

export class HttpDoor {
  private readonly server: Server;
  private readonly limits: HttpLimits;
  private readonly shared: SharedParts;
  private readonly lines = new Set<NodeLine>();
  private readonly webSockets: WebSocketDoor;
  readonly traffic: Traffic = { receivedBytes: 0, sentBytes: 0 };
  readonly memory: MemoryBudget;
  /** Connections that were cut. */
  readonly cuts: Record<CutReason, number> = { stalled: 0, memory: 0 };
  private closing = false;
  /**
   * Once closing: the connections that are owed a response. While there is one, idle connections stay and may send
   * requests.
   */
  private readonly busy = new Set<NodeLine>();

  private constructor(private readonly options: HttpDoorOptions) {
    const limits = { ...HTTP_LIMITS, ...options };
    this.limits = limits;
    this.webSockets = new WebSocketDoor(limits);
    this.server = createServer({
      requestTimeout: limits.requestMs,
      headersTimeout: Math.min(limits.requestMs, limits.headersMs),
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: Math.min(limits.requestMs, limits.checkMs),
      maxHeaderSize: limits.headerBytes,
      // The door refuses it itself, as a problem.
      requireHostHeader: false,
      IncomingMessage: UpgradableMessage,
    });
    const { traffic } = this;
    this.memory = new MemoryBudget(limits);
    const serve = (request: NodeRequest) => this.serve(request);
    const cut = (line: NodeLine) => this.cutOff(line, "memory");
    this.shared = { limits, memory: this.memory, traffic, serve, cut };
    const door = this;
    this.answered = function (this: ServerResponse) {
      NodeLine.of(this.req.socket).answered(this, door.closing);
    };
    this.server.on("connection", (socket) => this.welcome(socket));
    this.server.on("request", (incoming, outgoing) => this.arrive(incoming, outgoing));
    this.server.on("checkContinue", (incoming, outgoing) => this.arrive(incoming, outgoing, true));
    this.server.on("checkExpectation", (incoming, outgoing) => {
      this.arrive(incoming, outgoing, true, new Refusal("bad-header", "Expect must be 100-continue"));
    });
    this.server.on("timeout", (socket) => this.endIfStalled(NodeLine.of(socket)));
    this.server.on("upgrade", (incoming, socket, head) => {
      const outgoing = responseTo(incoming, socket as Socket);
      if (outgoing !== undefined) this.take(new UpgradeRequest(incoming, outgoing, NodeLine.of(incoming.socket), head));
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
    return this.lines.size;
  }

  /**
   * Accepts no more connections; resolves when the requests in flight have been answered. Until then a kept-alive
   * connection can still ask for readiness and learn that the server is shutting down.
   */
  close(): Promise<void> {
    this.closing = true;
    // `Server.close` cuts off responses that are written but not yet received; the one of `net.Server` waits for them.
    const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(this.server, () => resolve()));
    for (const line of this.lines) if (!line.isIdle) this.busy.add(line);
    this.endIdle();
    return closed.then(() => {
      // Without connections, the HTTP server's own close is safe, and stops its timer.
      this.server.close();
      this.options.deadlines?.stop();
    });
  }

  private endIdle(): void {
    if (this.busy.size === 0) for (const line of this.lines) if (line.isIdle) line.socket.destroy();
  }

  /** Destroys the connections that are still open. */
  cut(): void {
    for (const { socket } of this.lines) socket.destroy();
  }

  private welcome(socket: Socket): void {
    const line = new NodeLine(socket, this.shared);
    this.lines.add(line);
    socket.once("close", () => {
      this.lines.delete(line);
      if (this.busy.delete(line)) this.endIdle();
    });
  }

  private arrive(incoming: IncomingMessage, outgoing: ServerResponse, mustHangUp = false, refusal?: Refusal): void {
    const request = new NodeRequest(incoming, outgoing, NodeLine.of(incoming.socket), mustHangUp);
    request.refusal = refusal;
    outgoing.on("close", this.answered);
    this.take(request);
  }

  private take(request: NodeRequest): void {
    if (this.closing) this.busy.add(request.line);
    request.line.arrive(request);
  }

  /** One listener for all responses, because it is added for every request. */
  private readonly answered: (this: ServerResponse) => void;

  private serve(request: NodeRequest): void {
    const { observer, deadlines, handle } = this.options;
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
    request.settle();
    if (clock?.isUp) {
      reply.live?.(GONE);
      reply.socket?.(GONE);
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

  private send(request: NodeRequest, built: Reply): void {
    const { observer, report } = this.options;
    const reply = this.hasRoomFor(built, request) ? built : this.renderFault(memoryFull(), request);
    if (this.closing) request.outgoing.shouldKeepAlive = false;
    // The id lets a client name the request when it reports a failure.
    if (observer && reply.status >= 500) reply.headers.push("X-Request-Id", observer.idOf(request));
    const hasLeft = request.outgoing.destroyed;
    const isOpened = reply.live !== undefined || reply.socket !== undefined;
    if (observer && isOpened && !hasLeft) this.observeLive(observer, request, reply.status);
    else observer?.answered(request, reply.status, hasLeft);
    try {
      if (reply.socket !== undefined && request instanceof UpgradeRequest) {
        this.webSockets.accept(request, reply.socket);
      } else {
        this.options.decorate?.(request, reply.headers);
        send(request, reply, this.limits.lingerMs);
        if (reply.live === undefined && request.outgoing.writableLength > 0) this.awaitClient(request);
      }
    } catch (fault) {
      // A response that cannot be written is a defect of the server. It must not affect other connections.
      report(fault, request);
      request.outgoing.destroy();
    }
    request.leaveWork();
  }

  /** The network takes most small answers at once, so these are charged only if it does not. */
  private hasRoomFor({ body }: Reply, { method }: NodeRequest): boolean {
    if (body === undefined || body.length <= this.limits.smallBytes || method === "HEAD") return true;
    return this.memory.hasRoom(lengthOf(body));
  }

  /** The network has not taken the whole answer. An answer that is as small as its request is not charged to the budget. */
  private awaitClient(request: NodeRequest): void {
    const { line, outgoing } = request;
    const bytes = outgoing.writableLength;
    line.limitSilence();
    if (bytes <= this.limits.requestBytes) return;
    if (line.requests.hold(bytes)) onOver(request, () => line.requests.drained(bytes));
    else this.cutOff(line, "memory");
  }

  /** Nothing was sent or received on this connection for `stallMs`, or for `keepAliveMs` while it was idle. */
  private endIfStalled(line: NodeLine): void {
    if (line.isStalled) this.cutOff(line, "stalled");
    else if (line.requests.owed === 0) line.socket.destroy();
  }

  private cutOff({ socket, requests }: NodeLine, why: CutReason): void {
    if (!socket.destroyed) this.cuts[why]++;
    requests.close();
    socket.destroy();
  }

  private observeLive(observer: HttpObserver, request: NodeRequest, status: number): void {
    observer.opened(request, status);
    onOver(request, () => observer.ended(request, status, request.endedBy ?? "gone"));
  }

  /** Refuses input that is not HTTP, or not in time. If earlier requests are owed responses, those come first. */
  private refuseGarbage(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === "ECONNRESET" || !socket.writable) {
      socket.destroy();
      return;
    }
    const line = NodeLine.of(socket);
    const isWithinBody = line.isArriving;
    const owed = line.requests.owed - (isWithinBody ? 1 : 0);
    // Below zero: the request was answered before its body arrived.
    if (owed < 0) socket.destroySoon();
    else if (owed > 0) line.endAfter(owed);
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

function send(request: NodeRequest, reply: Reply, lingerMs: number): void {
  const { outgoing } = request;
  if (outgoing.destroyed) return;
  const headers = reply.headers;
  headers.push(...SAFE);
  const { body, live, status } = reply;
  // A page of the server itself brings its own policy.
  if ((body !== undefined || live !== undefined) && !headers.includes(POLICY)) headers.push(...SANDBOXED);
  if (request.mustHangUp && live === undefined) {
    sendAndHangUp(request, reply, lingerMs);
    return;
  }
  if (live) {
    request.line.live = outgoing;
    outgoing.writeHead(status, headers);
    outgoing.flushHeaders();
    live(new NodeSink(request));
    return;
  }
  if (body !== undefined) headers.push("Content-Length", String(countSent(request, body)));
  else if (status !== 204 && status !== 304 && request.method !== "HEAD") headers.push("Content-Length", "0");
  outgoing.writeHead(status, headers);
  if (body === undefined || request.method === "HEAD") outgoing.end();
  else if (typeof body !== "string" && body.length <= ONE_WRITE_BYTES) outgoing.end(latin1(body), "latin1");
  else outgoing.end(body);
}

/** One character for each byte. `node:http` sends a head and a string in one write, a head and bytes in two. */
function latin1(body: Uint8Array): string {
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("latin1");
}

/** The length of a body that is about to be sent. */
function countSent({ method, line }: NodeRequest, body: Uint8Array | string): number {
  const length = lengthOf(body);
  if (method !== "HEAD") line.shared.traffic.sentBytes += length;
  return length;
}

function lengthOf(body: Uint8Array | string): number {
  return typeof body === "string" ? Buffer.byteLength(body) : body.length;
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
