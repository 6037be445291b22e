/**
 * One connection of `node:http`: the responses that it is owed, and the line of its requests. The adapter makes one per socket
 * and finds it again by the socket. A connection of another server has one line in each door that serves it.
 *
 * Invariants: while the line is paused the socket is not read, although `node:http` resumes sockets for reasons of its own.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type LinePort, RequestLine } from "../request-line.ts";
import type { DoorLine, SharedParts } from "./door-request.ts";
import type { NodeRequest } from "./node-request.ts";

export class NodeLine implements LinePort<NodeRequest>, DoorLine {
  readonly requests: RequestLine<NodeRequest>;
  /**
   * The latest request, until it has arrived completely and is answered. Keeping it longer would promote it, and all it
   * refers to, to the old generation of the heap. Responses go out in the order of the requests.
   */
  private latest: IncomingMessage | undefined = undefined;
  private hasAsked = false;
  /** The latest live response, until it ends. */
  live: ServerResponse | undefined = undefined;
  /** The connection closes when at most this many responses are owed. */
  private endsAt = -1;

  constructor(
    readonly socket: Socket,
    readonly shared: SharedParts,
  ) {
    this.requests = new RequestLine(this, shared.limits, shared.memory);
    // A client may pipeline many requests, and each may listen for the end of the connection.
    socket.setMaxListeners(0);
    socket.on("resume", () => {
      if (this.requests.isPaused) socket.pause();
    });
    socket.once("close", () => this.requests.close());
  }

  /** No response is owed, and no request has begun to arrive. */
  get isIdle(): boolean {
    return this.hasAsked ? this.requests.owed === 0 && !this.isArriving : this.socket.bytesRead === 0;
  }

  /** Whether a request has begun and its body is not complete. */
  get isArriving(): boolean {
    return this.latest !== undefined && !this.latest.complete;
  }

  /** Has the socket report `timeout` when its client takes nothing for `stallMs`. */
  limitSilence(): void {
    const { stallMs } = this.shared.limits;
    if (this.socket.timeout !== stallMs) this.socket.setTimeout(stallMs);
  }

  /** Whether a response waits for its client to take it. A live response that is being sent has limits of its own. */
  get isStalled(): boolean {
    return this.socket.writableLength > 0 && !this.live?.socket;
  }

  arrive(request: NodeRequest): void {
    this.hasAsked = true;
    this.latest = request.incoming;
    this.requests.arrive(request);
  }

  /** A response was sent completely, or will never be. A connection that is due to close closes after its last response. */
  answered(outgoing: ServerResponse, isClosing: boolean): void {
    const { req: incoming } = outgoing;
    if (this.latest === incoming && incoming.complete) this.latest = undefined;
    if (this.live === outgoing) this.live = undefined;
    const { socket, requests } = this;
    const left = requests.owed - 1;
    if (left <= this.endsAt || (isClosing && left === 0)) socket.destroySoon();
    if (socket.writable) requests.sent();
    else requests.close();
  }

  /** Closes the connection after the next `responses`. */
  endAfter(responses: number): void {
    this.endsAt = this.requests.owed - responses;
  }

  begin(request: NodeRequest): void {
    this.shared.serve(request);
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  cut(): void {
    this.shared.cut(this, "memory");
  }

  close(): void {
    this.requests.close();
  }
}
