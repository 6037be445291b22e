/**
 * WebSockets on the port of HTTP: a request to upgrade goes through the same router, auth and refusals as every other request,
 * and becomes a socket if its route answers with one. The adapter calls it for the `upgrade` event of `node:http`.
 *
 * Invariants: nothing is compressed, because a compressor per connection costs more memory than the connection. A frame from a
 * client has at most `frameBytes`. A client that answers no ping is cut. Bytes are written to the socket as they are given:
 * they are whole frames, shared by all clients. Bytes that only this connection holds, in either direction, are charged to the
 * memory budget.
 */
import { IncomingMessage, ServerResponse } from "node:http";
import type { Socket as NetSocket } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import type { Reply } from "../../core/http.ts";
import type { EndReason } from "../../core/sink.ts";
import type { Socket } from "../../core/socket.ts";
import { type FramePort, FrameQueue } from "../frame-queue.ts";
import type { HttpLimits } from "./defaults.ts";
import type { NodeLine } from "./node-line.ts";
import { NodeRequest } from "./node-request.ts";

/**
 * A message that asks for an upgrade only if it asks for a WebSocket. Node takes any other upgrade for the end of HTTP, body
 * included, although a server may ignore it. Some clients offer HTTP/2 with every first request.
 */
export class UpgradableMessage extends IncomingMessage {
  private asksForUpgrade: boolean | null = null;

  /** Set and read by Node. */
  get upgrade(): boolean {
    return this.asksForUpgrade === true && (this.method === "CONNECT" || asksForWebSocket(this));
  }

  set upgrade(asked: boolean | null) {
    this.asksForUpgrade = asked;
  }
}

function asksForWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket";
}

/** A request for a WebSocket. Its response, if it is refused, is written to the bare socket. */
export class UpgradeRequest extends NodeRequest {
  readonly isUpgrade = true;

  constructor(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    line: NodeLine,
    /** The first bytes after the request. */
    readonly head: Buffer,
    private readonly door: WebSocketDoor,
    url?: string,
    prefix?: string,
  ) {
    super(incoming, outgoing, line, false, url, prefix);
  }

  override respond(reply: Reply, isClosing: boolean): void {
    if (reply.socket === undefined) super.respond(reply, isClosing);
    else this.door.accept(this, reply.socket);
  }
}

/** Undefined if the connection cannot be answered; it is then destroyed. */
export function responseTo(incoming: IncomingMessage, socket: NetSocket): ServerResponse | undefined {
  // A reset by the client is not a fault of the server; `close` follows it.
  socket.on("error", () => {});
  const outgoing = new ServerResponse(incoming);
  outgoing.shouldKeepAlive = false;
  try {
    outgoing.assignSocket(socket);
  } catch {
    // An earlier request on this connection is not answered yet. No client sends an upgrade behind one.
    socket.destroy();
    return undefined;
  }
  outgoing.on("finish", () => socket.destroySoon());
  return outgoing;
}

export class WebSocketDoor {
  private readonly server: WebSocketServer;

  constructor({ frameBytes }: HttpLimits) {
    this.server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: frameBytes,
      autoPong: false,
    });
  }

  /** Completes the handshake. A malformed one is refused by the library, and `open` is not called. */
  accept(request: UpgradeRequest, open: (socket: Socket) => void): void {
    const { incoming, outgoing, head } = request;
    const { socket } = incoming;
    if (socket.destroyed) return;
    outgoing.detachSocket(socket);
    // The handshake and the first frames leave in one write.
    socket.cork();
    this.server.handleUpgrade(incoming, socket, head, (client) => open(new NodeSocket(client, request)));
    socket.uncork();
  }
}

/** Pings without an answer after which a client is taken for gone. */
const MAX_SILENCE = 2;
const BINARY_REFUSED = 1003;
/** The status of the close frame, by the reason of the server. */
const STATUS: Readonly<Partial<Record<EndReason, number>>> = {
  drained: 1001,
  fault: 1011,
  "slow-reader": 1008,
  expired: 1008,
};
const NORMAL = 1000;

class NodeSocket implements Socket {
  private readonly socket: NetSocket;
  private readonly line: NodeLine;
  private readonly draining: (() => void)[] = [];
  /** What the budget is charged for, until the network has taken everything. */
  private held = 0;
  private unanswered = 0;

  constructor(
    private readonly client: WebSocket,
    private readonly request: UpgradeRequest,
  ) {
    this.socket = request.incoming.socket;
    this.line = request.line;
    // A client that breaks the protocol is closed by the library; `close` follows.
    client.on("error", () => {});
    client.on("pong", () => this.hear());
    client.on("ping", (data) => this.pong(data));
  }

  get buffered(): number {
    return this.socket.writableLength;
  }

  write(bytes: Uint8Array, isShared = false): void {
    if (this.socket.destroyed || this.client.readyState !== this.client.OPEN) return;
    this.line.shared.traffic.sentBytes += bytes.length;
    this.socket.write(bytes, this.written);
    if (!isShared && this.buffered > 0) this.charge(bytes.length);
  }

  private charge(bytes: number): void {
    if (this.line.requests.hold(bytes)) this.held += bytes;
    else this.cut("slow-reader");
  }

  onDrain(task: () => void): void {
    if (this.buffered === 0) queueMicrotask(task);
    else this.draining.push(task);
  }

  private readonly written = (): void => {
    if (this.buffered > 0) return;
    if (this.held > 0) {
      this.line.requests.drained(this.held);
      this.held = 0;
    }
    if (this.draining.length > 0) for (const task of this.draining.splice(0)) task();
  };

  onGone(task: () => void): void {
    if (this.socket.destroyed) queueMicrotask(task);
    else this.socket.once("close", task);
  }

  onText(listener: (text: string) => Promise<void>): void {
    const { limits, memory, traffic } = this.line.shared;
    const queue = new FrameQueue((frame) => listener(frame.toString()), this.framePort, limits, memory);
    this.client.on("message", (data, isBinary) => {
      this.hear();
      traffic.receivedBytes += (data as Buffer).length;
      if (isBinary) this.client.close(BINARY_REFUSED);
      else queue.arrive(data as Buffer);
    });
    this.onGone(() => queue.close());
  }

  private get framePort(): FramePort {
    const { client } = this;
    return { pause: () => client.pause(), resume: () => client.resume(), cut: () => this.cut("slow-reader") };
  }

  ping(): void {
    if (this.unanswered >= MAX_SILENCE) {
      this.cut("slow-reader");
      return;
    }
    this.unanswered++;
    this.client.ping();
  }

  /** A client that pings and does not read must not fill the memory. It may be left without an answer (RFC 6455, 5.5.3). */
  private pong(data: Buffer): void {
    this.hear();
    if (this.buffered <= this.line.shared.limits.waitingBytes) this.client.pong(data);
  }

  private hear(): void {
    this.unanswered = 0;
  }

  end(why?: EndReason): void {
    this.request.endedBy ??= why;
    this.client.close((why && STATUS[why]) ?? NORMAL);
  }

  cut(why?: EndReason): void {
    if (!this.socket.destroyed && why !== undefined) this.request.endedBy = why;
    this.client.terminate();
  }
}
