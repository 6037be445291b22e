/**
 * Serves the request/reply shape over HTTP. Owns sockets, time limits, the memory for bodies and answers, and shutdown. Compose
 * opens it; it knows no address and no feature. Connections begin in the lane (`lane-line.ts`), which answers plain requests, and
 * go on with `node:http` at the first that is not plain.
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
import { ConnectionRoom } from "../connection-room.ts";
import { MemoryBudget } from "../memory-budget.ts";
import type { Secure } from "../tls/certificate.ts";
import { AnswerClock, GONE } from "./answer-clock.ts";
import { HTTP_LIMITS, type HttpLimits } from "./defaults.ts";
import type { DoorLine, DoorRequest, SharedParts } from "./door-request.ts";
import { LaneLine, type LaneParts } from "./lane-line.ts";
import { listenFault } from "./listen-fault.ts";
import { Compressor } from "./node-compression.ts";
import { type Admit, capConnections, type Entrance } from "./node-connection-cap.ts";
import { hangUp } from "./node-hang-up.ts";
import { NodeLine } from "./node-line.ts";
import { type Mounted, mounted } from "./node-mount.ts";
import { NodeRequest } from "./node-request.ts";
import type { CutReason, HttpObserver, ObservedRequest, Traffic } from "./observer.ts";
import { memoryFull, renderFault } from "./problem.ts";
import { lengthOf } from "./response-headers.ts";
import { responseTo, UpgradableMessage, UpgradeRequest, WebSocketDoor } from "./websocket.ts";

export interface HttpDoorOptions extends Partial<HttpLimits> {
  readonly host: string;
  /** Undefined: the door does not listen, and serves only what is mounted. */
  readonly port: number | undefined;
  handle(request: HttpRequest): Promise<Reply> | Reply;
  /**
   * Whether a GET of this address is answered for as long as its client stays. Without it there is no lane, because the lane
   * answers whole responses only.
   */
  readonly staysOpen?: ((path: string, search: string) => boolean) | undefined;
  /** Whether there is an address of this path; requests to others pass a handler that is mounted without a prefix. */
  readonly owns?: ((path: string) => boolean) | undefined;
  /** The connections that this door may have; without it, those of its limits. */
  readonly room?: ConnectionRoom | undefined;
  /** Secures connections where given; without it they are not encrypted. */
  readonly secure?: Secure | undefined;
  /** Adds headers to every response, refusals included. */
  readonly decorate?: ((request: HttpRequest, headers: Headers) => void) | undefined;
  readonly observer?: HttpObserver | undefined;
  /** Limits the time for a response, where given; a request without a response by then is refused. */
  readonly deadlines?: Deadlines | undefined;
  /** Called with every fault whose details the client does not see. */
  report(fault: unknown, request: ObservedRequest): void;
}

/** How often the lane looks for connections that are silent, or within a request. */
const SWEEP_MS = 1_000;

export class HttpDoor {
  private readonly server: Server;
  private readonly limits: HttpLimits;
  private readonly shared: SharedParts;
  private readonly lines = new Set<DoorLine>();
  /** The connections that `node:http` reads, of this server and of those that this one is mounted in. */
  private readonly nodeLines = new WeakMap<Socket, NodeLine>();
  private readonly webSockets: WebSocketDoor;
  /** Connections of other servers with a response of this one in flight. */
  private readonly visiting = new Set<DoorLine>();
  private visitorsLeft: (() => void) | undefined;
  readonly traffic: Traffic = { receivedBytes: 0, sentBytes: 0 };
  readonly memory: MemoryBudget;
  private readonly compressor: Compressor;
  /** Connections that were cut. */
  readonly cuts: Record<CutReason, number> = { stalled: 0, memory: 0 };
  /** Looks after the connections of the lane. */
  private sweep: NodeJS.Timeout | undefined;
  private closing = false;
  private closed = false;
  /**
   * Once closing: the connections that are owed a response. While there is one, idle connections stay and may send
   * requests.
   */
  private readonly busy = new Set<DoorLine>();

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
    this.compressor = new Compressor(limits, this.memory);
    const serve = (request: DoorRequest) => this.serve(request);
    const cut = (line: DoorLine, why: CutReason) => this.cutOff(line, why);
    this.shared = { limits, memory: this.memory, traffic, serve, cut };
    const door = this;
    this.answered = function (this: ServerResponse) {
      door.lineOf(this.req.socket).answered(this, door.closing);
    };
    this.server.on("connection", (socket) => this.welcome(socket));
    this.server.on("request", (incoming, outgoing) => this.arrive(incoming, outgoing));
    this.server.on("checkContinue", (incoming, outgoing) => this.arrive(incoming, outgoing, true));
    this.server.on("checkExpectation", (incoming, outgoing) => {
      this.arrive(incoming, outgoing, true, new Refusal("bad-header", "Expect must be 100-continue"));
    });
    this.server.on("timeout", (socket) => this.endIfStalled(this.lineOf(socket)));
    this.server.on("upgrade", (incoming, socket, head) => {
      const outgoing = responseTo(incoming, socket as Socket);
      if (outgoing === undefined) return;
      const line = this.lineOf(incoming.socket);
      line.arrive(new UpgradeRequest(incoming, outgoing, line, head, this.webSockets));
    });
    this.server.on("connect", (_, socket) => {
      socket.on("error", () => {});
      const allow = "Allow: GET, HEAD, PUT, POST, DELETE, OPTIONS";
      this.hangUp(socket as Socket, "method-not-allowed", "CONNECT is not known here", [allow]);
    });
    this.server.on("clientError", (error, socket) => this.refuseGarbage(error, socket as Socket));
    const { staysOpen } = options;
    const enter = limits.lane && staysOpen !== undefined ? this.openLane(staysOpen) : undefined;
    const room = options.room ?? new ConnectionRoom(limits.connections);
    capConnections(this.server, room, limits.lingerMs, enter, options.secure);
  }

  static async open(options: HttpDoorOptions): Promise<HttpDoor> {
    const door = new HttpDoor(options);
    const { port } = options;
    if (port === undefined) return door;
    await new Promise<void>((resolve, reject) => {
      const refuse = (fault: Error) => reject(listenFault(fault, options.host, port));
      door.server.once("error", refuse);
      door.server.listen(port, options.host, () => {
        door.server.off("error", refuse);
        resolve();
      });
    });
    return door;
  }

  /** 0 for a door that does not listen. */
  get port(): number {
    return (this.server.address() as AddressInfo | null)?.port ?? 0;
  }

  /** Serves what another server takes at this prefix. */
  mount(prefix: string): Mounted {
    return mounted(prefix, {
      shared: this.shared,
      nodeLines: this.nodeLines,
      webSockets: this.webSockets,
      isClosing: () => this.closing,
      isClosed: () => this.closed,
      owns: (url) => this.options.owns?.(url.split("?")[0]!) ?? true,
      busy: (line) => this.visiting.add(line),
      idle: (line) => {
        this.visiting.delete(line);
        if (this.busy.delete(line)) this.endIdle();
        if (this.visiting.size === 0) this.visitorsLeft?.();
      },
    });
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
    const served = new Promise<void>((resolve) => {
      this.visitorsLeft = resolve;
      if (this.visiting.size === 0) resolve();
    });
    return Promise.all([closed, served]).then(() => {
      this.closed = true;
      // Without connections, the HTTP server's own close is safe, and stops its timer.
      this.server.close();
      clearInterval(this.sweep);
      this.options.deadlines?.stop();
    });
  }

  private endIdle(): void {
    if (this.busy.size === 0) for (const line of this.lines) if (line.isIdle) line.socket.destroy();
  }

  /** Destroys the connections that are still open. */
  cut(): void {
    for (const { socket } of [...this.lines, ...this.visiting]) socket.destroy();
  }

  private welcome(socket: Socket): void {
    const line = new NodeLine(socket, this.shared);
    this.nodeLines.set(socket, line);
    this.add(line);
  }

  private lineOf(socket: Socket): NodeLine {
    return this.nodeLines.get(socket)!;
  }

  private add(line: DoorLine): void {
    this.lines.add(line);
    line.socket.once("close", () => this.remove(line));
  }

  private remove(line: DoorLine): void {
    this.lines.delete(line);
    if (this.busy.delete(line)) this.endIdle();
  }

  /** Returns what takes each new connection, with the function that gives it to `node:http`. */
  private openLane(staysOpen: LaneParts["staysOpen"]): Entrance {
    const lanes = new Map<LaneLine, Admit>();
    const due: LaneLine[] = [];
    const flush = () => {
      for (const line of due.splice(0)) line.flush();
    };
    const parts: LaneParts = {
      ...this.shared,
      staysOpen,
      isClosing: () => this.closing,
      refuse: (socket, isWithinBody) => this.refuseInput(socket, isWithinBody),
      flushLater: (line) => {
        if (due.push(line) === 1) process.nextTick(flush);
      },
      passOn: (line) => {
        const admit = lanes.get(line)!;
        lanes.delete(line);
        admit(line.socket);
        this.remove(line);
      },
    };
    this.sweep = setInterval(() => {
      for (const line of lanes.keys()) line.sweep(SWEEP_MS);
    }, SWEEP_MS).unref();
    return (socket, admit) => {
      const line = new LaneLine(socket, parts);
      lanes.set(line, admit);
      this.add(line);
      line.socket.once("close", () => lanes.delete(line));
    };
  }

  private arrive(incoming: IncomingMessage, outgoing: ServerResponse, mustHangUp = false, refusal?: Refusal): void {
    const request = new NodeRequest(incoming, outgoing, this.lineOf(incoming.socket), mustHangUp);
    request.refusal = refusal;
    outgoing.on("close", this.answered);
    request.line.arrive(request);
  }

  /** One listener for all responses, because it is added for every request. */
  private readonly answered: (this: ServerResponse) => void;

  private serve(request: DoorRequest): void {
    const { observer, deadlines, handle } = this.options;
    if (this.closing) this.busy.add(request.line);
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

  private settle(request: DoorRequest, reply: Reply): void {
    const { clock } = request;
    request.settle();
    if (clock?.isUp) {
      reply.live?.(GONE);
      reply.socket?.(GONE);
      return;
    }
    clock?.stop();
    const encoding = reply.mayCompress ? this.compressor.choose(reply, request) : undefined;
    if (encoding === undefined) this.send(request, reply);
    else void this.compressor.compress(reply, encoding).then((smaller) => this.send(request, smaller));
  }

  /** The handler continues, as it does when a client has left. */
  private readonly refuseLate = (request: HttpRequest): void => {
    const detail = `the request was not completed within ${this.options.deadlines!.spanMs} ms; the outcome of a write is unknown`;
    const late = request as DoorRequest;
    this.send(late, this.renderFault(new EngineError("unavailable", detail), late));
  };

  private renderFault(fault: unknown, request: DoorRequest): Reply {
    return renderFault(fault, (unexpected) => this.options.report(unexpected, request));
  }

  private send(request: DoorRequest, built: Reply): void {
    const { observer, report } = this.options;
    const reply = this.hasRoomFor(built, request) ? built : this.renderFault(memoryFull(), request);
    // The id lets a client name the request when it reports a failure.
    if (observer && reply.status >= 500) reply.headers.push("X-Request-Id", observer.idOf(request));
    const { hasLeft } = request;
    const isOpened = reply.live !== undefined || reply.socket !== undefined;
    if (observer && isOpened && !hasLeft) this.observeLive(observer, request, reply.status);
    else observer?.answered(request, reply.status, hasLeft);
    try {
      this.options.decorate?.(request, reply.headers);
      request.respond(reply, this.closing);
    } catch (fault) {
      // A response that cannot be written is a defect of the server. It must not affect other connections.
      report(fault, request);
      request.drop();
    }
    request.leaveWork();
  }

  /** The network takes most small answers at once, so these are charged only if it does not. */
  private hasRoomFor({ body }: Reply, { method }: DoorRequest): boolean {
    if (body === undefined || body.length <= this.limits.smallBytes || method === "HEAD") return true;
    return this.memory.hasRoom(lengthOf(body));
  }

  /** Nothing was sent or received on this connection for `stallMs`, or for `keepAliveMs` while it was idle. */
  private endIfStalled(line: NodeLine): void {
    if (line.isStalled) this.cutOff(line, "stalled");
    else if (line.requests.owed === 0) line.socket.destroy();
  }

  private cutOff(line: DoorLine, why: CutReason): void {
    const { socket } = line;
    if (!socket.destroyed) this.cuts[why]++;
    line.close();
    socket.destroy();
  }

  private observeLive(observer: HttpObserver, request: DoorRequest, status: number): void {
    observer.opened(request, status);
    request.onOver(() => observer.ended(request, status, request.endedBy ?? "gone"));
  }

  /** Refuses input that is not HTTP, or not in time. If earlier requests are owed responses, those come first. */
  private refuseGarbage(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === "ECONNRESET" || !socket.writable) {
      socket.destroy();
      return;
    }
    const line = this.lineOf(socket);
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
    else this.refuseInput(socket, isWithinBody);
  }

  private refuseInput(socket: Socket, isWithinBody: boolean): void {
    const detail = isWithinBody ? "the body is not framed as HTTP/1.1 requires" : "this is not HTTP/1.1";
    this.hangUp(socket, "bad-request", detail);
  }

  private hangUp(socket: Socket, code: ErrorCode, detail: string, more: readonly string[] = []): void {
    this.options.observer?.malformed();
    hangUp(socket, this.limits.lingerMs, code, detail, more);
  }
}
