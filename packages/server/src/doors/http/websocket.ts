/**
 * WebSockets on the port of HTTP: a request to upgrade goes through the same router, auth and refusals as every other request,
 * and becomes a socket if its route answers with one. The adapter calls it for the `upgrade` event of `node:http`.
 *
 * Invariants: nothing is compressed, because a compressor per connection costs more memory than the connection. A frame from a
 * client has at most `frameBytes`. A client that answers no ping is cut. Bytes are written to the socket as they are given:
 * they are whole frames, shared by all clients.
 */
import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket as NetSocket } from "node:net";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import type { EndReason } from "../../core/sink.ts";
import type { Socket } from "../../core/socket.ts";
import { NodeRequest } from "./node-request.ts";
import type { Traffic } from "./observer.ts";

/** A request to upgrade. Its response, if it is refused, is written to the bare socket. */
export class UpgradeRequest extends NodeRequest {
  constructor(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    traffic: Traffic,
    /** The first bytes after the request. */
    readonly head: Buffer,
  ) {
    super(incoming, outgoing, traffic);
  }

  /** Any other protocol is ignored, as HTTP/1.1 allows, and the request is answered as if it did not ask. */
  get isUpgrade(): boolean {
    return this.method === "GET" && this.header("upgrade")?.toLowerCase() === "websocket";
  }

  /** The one place for checks that concern upgrades only, such as Host and Origin. A Refusal thrown here answers the request. */
  override check(): void {
    super.check();
  }
}

/** Undefined if the connection cannot be answered; it is then destroyed. */
export function upgradeRequest(
  incoming: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  traffic: Traffic,
): UpgradeRequest | undefined {
  // A reset by the client is not a fault of the server; `close` follows it.
  socket.on("error", () => {});
  const outgoing = new ServerResponse(incoming);
  outgoing.shouldKeepAlive = false;
  try {
    outgoing.assignSocket(socket as NetSocket);
  } catch {
    // An earlier request on this connection is not answered yet. No client sends an upgrade behind one.
    socket.destroy();
    return undefined;
  }
  outgoing.on("finish", () => (socket as NetSocket).destroySoon());
  return new UpgradeRequest(incoming, outgoing, traffic, head);
}

export class WebSocketDoor {
  private readonly server: WebSocketServer;

  constructor(frameBytes: number) {
    this.server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: frameBytes,
    });
  }

  /** Completes the handshake. A malformed one is refused by the library, and `open` is not called. */
  accept(request: UpgradeRequest, open: (socket: Socket) => void): void {
    const { incoming, outgoing, head } = request;
    const { socket } = incoming;
    if (socket.destroyed) return;
    outgoing.detachSocket(socket);
    this.server.handleUpgrade(incoming, socket, head, (client) => open(new NodeSocket(client, request)));
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
  private readonly draining: (() => void)[] = [];
  private unanswered = 0;

  constructor(
    private readonly client: WebSocket,
    private readonly request: UpgradeRequest,
  ) {
    this.socket = request.incoming.socket;
    // A client that breaks the protocol is closed by the library; `close` follows.
    client.on("error", () => {});
    client.on("pong", () => this.hear());
  }

  get buffered(): number {
    return this.socket.writableLength;
  }

  write(bytes: Uint8Array): void {
    if (this.socket.destroyed || this.client.readyState !== this.client.OPEN) return;
    this.request.traffic.sentBytes += bytes.length;
    this.socket.write(bytes, this.written);
  }

  onDrain(task: () => void): void {
    if (this.buffered === 0) queueMicrotask(task);
    else this.draining.push(task);
  }

  private readonly written = (): void => {
    if (this.draining.length > 0 && this.buffered === 0) for (const task of this.draining.splice(0)) task();
  };

  onGone(task: () => void): void {
    if (this.socket.destroyed) queueMicrotask(task);
    else this.socket.once("close", task);
  }

  onText(listener: (text: string) => void): void {
    this.client.on("message", (data, isBinary) => {
      this.hear();
      if (isBinary) this.client.close(BINARY_REFUSED);
      else listener(data.toString());
    });
  }

  pause(): void {
    this.client.pause();
  }

  resume(): void {
    this.client.resume();
  }

  ping(): void {
    if (this.unanswered >= MAX_SILENCE) {
      this.cut("slow-reader");
      return;
    }
    this.unanswered++;
    this.client.ping();
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
