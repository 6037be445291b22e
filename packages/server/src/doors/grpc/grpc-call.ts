/**
 * One call over a stream of HTTP/2: reads its requests, has its method run, and ends it with a status. The gRPC server makes one per
 * stream.
 *
 * Invariants: a call ends with one status, or is reported as cancelled. Everything that it holds is charged to the memory budget: a
 * part for the call itself, requests until their handler has settled, responses until the network has them. Requests of a stream
 * are handled one after another.
 */
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { Refusal } from "../../core/refusal.ts";
import { MAX_TIMER_MS } from "../../core/setting.ts";
import type { Cancel, World } from "../../core/world.ts";
import { memoryFull } from "../http/problem.ts";
import type { MemoryBudget } from "../memory-budget.ts";
import type { GrpcLimits } from "./defaults.ts";
import type { Method } from "./definitions.ts";
import { type Inflations, inflated, mostInflated } from "./inflation.ts";
import { HEAD_BYTES, type MessageFrame, MessageFrames } from "./message-frames.ts";
import type { GrpcObserver, GrpcTraffic, ObservedCall } from "./observer.ts";
import { type Failure, status, trailersOf } from "./status.ts";

/** What a method does with a call. `take` gets each request; what a call of one request resolves with is its response. */
export interface Handler {
  take(request: object): Promise<object | undefined>;
  /** The client sends no more requests. */
  ended?(): void;
  /** As what the client is told of a fault. */
  failure(fault: unknown): Failure;
}

export interface Implementation extends Method {
  readonly maxBytes: number;
  readonly waits: boolean;
  open(call: GrpcCall): Handler;
}

export interface CallParts {
  readonly world: World;
  readonly limits: GrpcLimits;
  readonly memory: MemoryBudget;
  readonly inflations: Inflations;
  readonly traffic: GrpcTraffic;
  readonly observer: GrpcObserver | undefined;
  /** Gets faults whose details no client sees. */
  readonly report: (what: string, fault: unknown) => void;
}

const HEADERS = { ":status": 200, "content-type": "application/grpc", "grpc-accept-encoding": "identity,deflate,gzip" };
const OK: Failure = { code: status.OK, details: "" };
const UNITS_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 0.001, n: 0.000001 };

export class GrpcCall implements ObservedCall {
  readonly method: string;
  readonly path: string;
  readonly isStream: boolean;
  readonly waits: boolean;
  project: string | undefined = undefined;
  startedAt = 0;
  id: string | number | undefined = undefined;
  /** When its client gives up, in the monotonic time of the world. */
  private readonly untilMs: number = Number.POSITIVE_INFINITY;
  private readonly frames: MessageFrames;
  private readonly handler: Handler;
  /** What of the budget this call has. */
  private charged = 0;
  /** A request has come. */
  private hasBegun = false;
  private isHandling = false;
  /** The client sends no more. */
  private hasEnded = false;
  /** The headers of the response are sent. */
  private hasResponded = false;
  /** It has its status. */
  private isOver = false;
  private isClosed = false;
  private readonly goneTasks: (() => void)[] = [];
  private arrival: Cancel | undefined;
  private deadline: Cancel | undefined;
  private lingering: Cancel | undefined;

  constructor(
    private readonly stream: ServerHttp2Stream,
    private readonly headers: IncomingHttpHeaders,
    private readonly implementation: Implementation,
    private readonly parts: CallParts,
  ) {
    const { world } = parts;
    this.method = implementation.name;
    this.path = implementation.path;
    this.isStream = implementation.isStream;
    this.waits = implementation.waits || this.isStream;
    this.frames = new MessageFrames(implementation.maxBytes);
    const timeoutMs = timeoutOf(this.header("grpc-timeout"));
    if (timeoutMs !== undefined) {
      this.untilMs = world.monotonicMs() + timeoutMs;
      const passed = { code: status.DEADLINE_EXCEEDED, details: "the deadline of the call has passed" };
      this.deadline = world.after(Math.min(timeoutMs, MAX_TIMER_MS), () => this.abort(passed));
    }
    this.handler = implementation.open(this);
  }

  /** How long its client still waits; infinite if it has set no deadline. */
  get leftMs(): number {
    return this.untilMs - this.parts.world.monotonicMs();
  }

  begin(): void {
    const { stream, parts } = this;
    parts.observer?.began(this);
    stream.on("error", () => {});
    stream.once("close", () => this.closed());
    if (!this.charge(parts.limits.callBytes)) return;
    stream.on("data", (chunk: Buffer) => this.receive(chunk));
    stream.once("end", () => {
      this.hasEnded = true;
      // A client that cancels its call ends its side first.
      parts.world.soon(() => {
        if (!stream.closed) this.advance();
      });
    });
    this.awaitRequest();
  }

  header(name: string): string | undefined {
    const value = this.headers[name];
    return Array.isArray(value) ? value[0] : value;
  }

  /** Runs the task when the call ends without a response to its request, for example because its client leaves. */
  onGone(task: () => void): void {
    if (this.isOver) queueMicrotask(task);
    else this.goneTasks.push(task);
  }

  get isGone(): boolean {
    return this.isOver;
  }

  /** Sends a response of a stream. Returns false if it has to wait for the network; `sent` is called when it has left. */
  write(response: object, sent: () => void): boolean {
    if (this.isOver) return true;
    const frame = this.implementation.encode(response);
    const { length } = frame;
    if (!this.charge(length)) return false;
    this.parts.traffic.sentBytes += length;
    this.respond();
    return this.stream.write(frame, () => {
      this.release(length);
      sent();
    });
  }

  fail(fault: unknown): void {
    this.abort(this.handler.failure(fault));
  }

  private receive(chunk: Buffer): void {
    // A call of one request needs nothing that follows it.
    if (this.isOver || (this.hasBegun && !this.isStream)) return;
    if (!this.charge(chunk.length)) return;
    this.parts.traffic.receivedBytes += chunk.length;
    this.frames.push(chunk);
    this.advance();
  }

  /** Handles the next request, if it is complete and none is being handled. */
  private advance(): void {
    if (this.isOver || this.isHandling) return;
    try {
      const frame = this.frames.next();
      if (frame !== undefined) void this.handle(frame);
      else if (!this.hasEnded) this.awaitRequest();
      else if (this.hasBegun && this.frames.unread === 0) this.handler.ended?.();
      else throw new Refusal("bad-request", "The call has no complete request.");
    } catch (fault) {
      this.fail(fault);
    }
  }

  private async handle(frame: MessageFrame): Promise<void> {
    const isFirst = !this.hasBegun;
    this.hasBegun = true;
    this.isHandling = true;
    this.arrival?.();
    this.arrival = undefined;
    if (this.isStream) this.stream.pause();
    let held = HEAD_BYTES + frame.bytes.length;
    try {
      const bytes = frame.isCompressed ? await this.decompressed(frame.bytes) : frame.bytes;
      if (frame.isCompressed) held += bytes.length;
      const request = this.implementation.decode(bytes, this.parts.limits.requestFields);
      const surround = isFirst ? this.parts.observer?.surround : undefined;
      const run = () => this.handler.take(request);
      const response = await (surround === undefined ? run() : surround(this, run));
      if (response !== undefined) this.answer(response);
    } catch (fault) {
      this.fail(fault);
    }
    this.release(held);
    this.isHandling = false;
    if (this.isClosed) this.giveBack();
    if (!this.isStream || this.isOver) return;
    this.stream.resume();
    this.advance();
  }

  /** Charges the most that the request may become, because its size is known only when it is expanded. */
  private decompressed(bytes: Buffer): Promise<Buffer> {
    const { maxBytes } = this.implementation;
    const most = mostInflated(bytes, maxBytes);
    return this.parts.inflations.run(async () => {
      if (!this.charge(most)) throw memoryFull();
      let length = 0;
      try {
        const plain = await inflated(this.header("grpc-encoding") ?? "", bytes, maxBytes);
        length = plain.length;
        return plain;
      } finally {
        this.release(most - length);
      }
    });
  }

  private answer(response: object): void {
    if (this.isOver) return;
    const frame = this.implementation.encode(response);
    if (!this.charge(frame.length)) return;
    this.parts.traffic.sentBytes += frame.length;
    this.respond();
    this.end(OK, frame);
  }

  private respond(): void {
    if (this.hasResponded || this.stream.destroyed) return;
    this.hasResponded = true;
    this.stream.respond(HEADERS, { waitForTrailers: true });
  }

  private abort(failure: Failure): void {
    if (this.isOver) return;
    this.end(failure);
    this.leave();
  }

  private end(failure: Failure, last?: Buffer): void {
    this.over(failure.code);
    const { stream } = this;
    if (stream.destroyed || stream.closed) return;
    const trailers = trailersOf(failure);
    if (!this.hasResponded) {
      stream.respond({ ...HEADERS, ...trailers }, { endStream: true });
      stream.resume();
      // A client that still sends is told to stop.
      if (!this.hasEnded) stream.close(constants.NGHTTP2_NO_ERROR);
      return;
    }
    const { limits } = this.parts;
    stream.once("wantTrailers", () => {
      stream.sendTrailers(trailers);
      this.resetAfter(limits.lingerMs);
    });
    stream.end(last);
    stream.resume();
    this.resetAfter(limits.requestMs);
  }

  /** A reset before the trailers have left would take their place, so a client that reads nothing or still sends is reset later. */
  private resetAfter(ms: number): void {
    this.lingering?.();
    this.lingering = this.parts.world.after(ms, () => this.stream.close(constants.NGHTTP2_CANCEL));
  }

  private over(code: number): void {
    this.isOver = true;
    this.deadline?.();
    this.arrival?.();
    this.parts.observer?.ended(this, code);
  }

  private closed(): void {
    if (!this.isOver) {
      this.over(status.CANCELLED);
      this.leave();
    }
    this.lingering?.();
    this.isClosed = true;
    // A handler may work on its request after the client has left.
    if (!this.isHandling) this.giveBack();
  }

  private giveBack(): void {
    this.parts.memory.give(this.charged);
    this.charged = 0;
  }

  private leave(): void {
    for (const task of this.goneTasks.splice(0)) task();
  }

  /** A stream may be silent between its requests. */
  private awaitRequest(): void {
    if (this.arrival !== undefined || (this.hasBegun && this.frames.unread === 0)) return;
    this.arrival = this.parts.world.after(this.parts.limits.requestMs, () =>
      this.fail(new Refusal("body-timeout", "the request took too long to arrive")),
    );
  }

  /** Ends the call and returns false if there is no memory for it. */
  private charge(bytes: number): boolean {
    if (this.isOver) return false;
    if (this.parts.memory.take(bytes, this.charged)) {
      this.charged += bytes;
      return true;
    }
    this.fail(memoryFull());
    return false;
  }

  private release(bytes: number): void {
    if (this.isClosed) return;
    this.charged -= bytes;
    this.parts.memory.give(bytes);
  }
}

/** Undefined without a deadline, or with one that cannot be read. */
function timeoutOf(text: string | undefined): number | undefined {
  const match = text === undefined ? null : /^(\d{1,8})([HMSmun])$/.exec(text);
  return match === null ? undefined : Number(match[1]) * UNITS_MS[match[2]!]!;
}
