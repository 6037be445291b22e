/**
 * One connection of the lane: reads its requests, keeps their responses in order, and passes the socket on to `node:http` at the
 * first request that the parser does not take. The door makes one per connection.
 *
 * Invariants: responses go out in the order of the requests. The responses of one turn go to the network together. A socket is
 * passed on when every earlier response is written, with all bytes that no request was made of; after that the lane never
 * touches it. While the line of requests is paused the socket is not read.
 */
import type { Socket } from "node:net";
import { type LinePort, RequestLine } from "../request-line.ts";
import type { DoorLine, SharedParts } from "./door-request.ts";
import { LaneParser } from "./lane-parser.ts";
import { LaneRequest } from "./lane-request.ts";
import { type LaneSocket, laneSocket } from "./lane-socket.ts";

export interface LaneParts extends SharedParts {
  /** Whether a GET of this address is answered as long as its client stays. */
  readonly staysOpen: (path: string, search: string) => boolean;
  /** Whether the door waits only for responses that are owed. */
  readonly isClosing: () => boolean;
  /** Gives the socket to `node:http`. */
  readonly passOn: (line: LaneLine) => void;
  /** Has `flush` called at the end of this turn. */
  readonly flushLater: (line: LaneLine) => void;
  /** Refuses input that ends too early, and closes the connection. */
  readonly refuse: (socket: Socket, isWithinBody: boolean) => void;
}

const NOTHING = Buffer.alloc(0);

export class LaneLine implements LinePort<LaneRequest>, DoorLine {
  readonly socket: Socket;
  private readonly input: LaneSocket;
  readonly requests: RequestLine<LaneRequest>;
  private readonly parser: LaneParser;
  /** Bytes of which no request was made yet. */
  private unread: Buffer = NOTHING;
  /** The requests that are owed a response, each with the one behind it. */
  private firstOwed: LaneRequest | undefined;
  private lastOwed: LaneRequest | undefined;
  private isFlushDue = false;
  /** The socket is passed on as soon as no response is owed. */
  private isPassing = false;
  /** No further request is read. */
  private isEnding = false;
  private hasAsked = false;
  /** The client has ended its input within a request. */
  private hasHalf = false;
  /** Sweeps since the last byte came or the last response went. */
  private quietSweeps = 0;
  /** Sweeps since a request began to arrive that is not complete. */
  private halfSweeps = 0;

  constructor(
    accepted: Socket,
    readonly shared: LaneParts,
  ) {
    this.input = laneSocket(accepted);
    const { socket } = this.input;
    this.socket = socket;
    this.requests = new RequestLine(this, shared.limits, shared.memory);
    this.parser = new LaneParser(shared.limits.headerBytes);
    this.input.begin(this.onData);
    socket.on("end", this.onEnd);
    socket.on("error", this.onError);
    socket.on("timeout", this.onStall);
    socket.on("close", this.onClose);
  }

  get isIdle(): boolean {
    return this.firstOwed === undefined && this.unread.length === 0 && this.socket.writableLength === 0;
  }

  close(): void {
    this.requests.close();
  }

  begin(request: LaneRequest): void {
    this.shared.serve(request);
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
    this.onData(NOTHING);
  }

  cut(): void {
    this.shared.cut(this, "memory");
  }

  /** The bytes are only lent. */
  private readonly onData = (arrived: Buffer): void => {
    this.quietSweeps = 0;
    if (this.isEnding) return;
    const bytes = this.unread.length === 0 ? arrived : Buffer.concat([this.unread, arrived]);
    this.unread = NOTHING;
    let at = 0;
    while (at < bytes.length && !this.requests.isPaused && !this.isPassing && !this.isEnding) {
      const found = this.parser.parse(bytes, at);
      if (found === "more") break;
      const { method, path, search, bodyAt, end } = this.parser;
      if (found === "other" || (method === "GET" && this.shared.staysOpen(path, search))) {
        this.isPassing = true;
        break;
      }
      this.arrive(bodyAt === end ? undefined : this.kept(arrived, bytes, bodyAt, end));
      at = end;
    }
    if (at < bytes.length) this.unread = this.kept(arrived, bytes, at, bytes.length);
    else this.halfSweeps = 0;
    if (this.isPassing) this.passOnIfDone();
  };

  /** A part of the bytes that outlives this read: what has just arrived must be copied. */
  private kept(arrived: Buffer, bytes: Buffer, from: number, to: number): Buffer {
    const part = bytes.subarray(from, to);
    return bytes === arrived ? Buffer.from(part) : part;
  }

  private arrive(body: Buffer | undefined): void {
    this.hasAsked = true;
    const request = new LaneRequest(this, this.parser, body);
    if (this.lastOwed === undefined) this.firstOwed = request;
    else this.lastOwed.next = request;
    this.lastOwed = request;
    this.requests.arrive(request);
  }

  /** A request of this line has its response. */
  answered(): void {
    if (this.isFlushDue || this.firstOwed?.answer === undefined) return;
    this.isFlushDue = true;
    this.shared.flushLater(this);
  }

  /** Writes the responses that are due. */
  flush(): void {
    this.isFlushDue = false;
    const { socket, firstOwed: first } = this;
    if (socket.destroyed || this.isEnding || first?.answer === undefined) return;
    let last = first;
    let text = "";
    for (let request: LaneRequest | undefined = first; request?.answer !== undefined; request = request.next) {
      const { text: head, body, closes } = request.answer;
      text += head;
      if (body !== undefined) {
        socket.write(text, "latin1");
        socket.write(body);
        text = "";
      }
      last = request;
      this.isEnding = closes;
      if (closes) break;
    }
    if (text !== "") socket.write(text, "latin1");
    this.firstOwed = last.next;
    if (last.next === undefined) this.lastOwed = undefined;
    last.next = undefined;
    this.quietSweeps = 0;
    if (this.isEnding) this.endAfter(last.hangsUp);
    const waiting = socket.writableLength;
    if (waiting === 0) this.sent(first);
    else this.awaitClient(first, waiting);
  }

  /** The response of this request is sent, and those of the ones behind it. */
  private sent(first: LaneRequest): void {
    for (let request: LaneRequest | undefined = first; request !== undefined; request = request.next) {
      this.requests.sent();
      request.over();
    }
    if (this.isPassing) this.passOnIfDone();
    else if (this.firstOwed === undefined && (this.hasHalf || this.shared.isClosing())) this.socket.destroySoon();
  }

  /** The network has not taken everything. What is as small as its requests is not charged to the budget. */
  private awaitClient(first: LaneRequest, bytes: number): void {
    const { limits } = this.shared;
    const { socket } = this;
    const isCharged = bytes > limits.requestBytes;
    if (isCharged && !this.requests.hold(bytes)) {
      this.cut();
      return;
    }
    socket.setTimeout(limits.stallMs);
    // Called when everything before it is written.
    socket.write("", () => {
      if (socket.destroyed) return;
      if (socket.writableLength === 0) socket.setTimeout(0);
      if (isCharged) this.requests.drained(bytes);
      this.sent(first);
    });
  }

  /** `lingers`: the client may still send, and needs time to read why it should not. */
  private endAfter(lingers: boolean): void {
    const { socket } = this;
    if (lingers) {
      socket.end();
      setTimeout(() => socket.destroy(), this.shared.limits.lingerMs).unref();
    } else socket.destroySoon();
  }

  private readonly onEnd = (): void => {
    if (this.unread.length === 0) this.socket.end();
    else if (this.firstOwed !== undefined) this.hasHalf = true;
    else {
      this.isEnding = true;
      this.shared.refuse(this.socket, this.parser.isWithinBody);
    }
  };

  private readonly onError = (): void => {
    this.socket.destroy();
  };

  private readonly onStall = (): void => {
    if (this.socket.writableLength > 0) this.shared.cut(this, "stalled");
  };

  private readonly onClose = (): void => {
    this.requests.close();
    const first = this.firstOwed;
    this.firstOwed = undefined;
    this.lastOwed = undefined;
    for (let request = first; request !== undefined; request = request.next) request.over();
  };

  private passOnIfDone(): void {
    const { socket } = this;
    // What arrives meanwhile waits in the network.
    socket.pause();
    if (this.firstOwed !== undefined || this.isEnding || socket.destroyed) return;
    this.input.end();
    socket.off("end", this.onEnd);
    socket.off("error", this.onError);
    socket.off("timeout", this.onStall);
    socket.off("close", this.onClose);
    socket.setTimeout(0);
    this.requests.close();
    if (this.unread.length > 0) socket.unshift(this.unread);
    this.unread = NOTHING;
    this.parser.forget();
    this.shared.passOn(this);
    socket.resume();
  }

  /**
   * Called every `everyMs`. A request that has not arrived by then has the time limits of `node:http`, and so has a connection
   * without a first one.
   */
  sweep(everyMs: number): void {
    if (this.firstOwed !== undefined || this.isEnding || this.socket.writableLength > 0) return;
    this.quietSweeps++;
    if (this.unread.length > 0 || !this.hasAsked) this.halfSweeps++;
    if (this.halfSweeps > 1) {
      this.isPassing = true;
      this.passOnIfDone();
    } else if ((this.quietSweeps - 1) * everyMs > this.shared.limits.keepAliveMs) this.socket.destroy();
  }
}
