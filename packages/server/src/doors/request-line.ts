/**
 * The requests of one connection, in the order in which they came: which of them are worked on, which wait, and when the door
 * stops reading. A door has one per connection and reports arrivals, answers and sent bytes to it. It knows no protocol.
 *
 * Invariants: requests begin in order. Only writes of one method to one address are worked on at the same time, because the
 * effects of others could change places. Reads begin one after another, because their answers may be large. At most
 * `openRequests` are begun and not completely answered. None begins while more than `waitingBytes` of answers wait for the
 * client. The budget is charged for every request behind the first and for unsent answers, and gets everything back by the time
 * the line is closed.
 */
import type { MemoryBudget } from "./memory-budget.ts";

export interface LineLimits {
  /** Requests of one connection that are worked on, or whose answers are not sent completely. */
  readonly openRequests: number;
  /** Unsent answer bytes of one connection, beyond which no further request of it begins. */
  readonly waitingBytes: number;
  /** Requests of one connection that wait, beyond which the door stops reading it. */
  readonly queuedRequests: number;
  /** What a request behind another is charged for: the memory that it takes by itself, and a small answer. */
  readonly requestBytes: number;
}

/** What a line needs to know of a request. */
export interface Lined {
  /** Whether the answer may be large. */
  readonly isRead: boolean;
  readonly method: string;
  readonly path: string;
}

/** What a line does to its connection. */
export interface LinePort<R extends Lined> {
  begin(request: R): void;
  /** Stops reading the connection. More may arrive, from bytes that were read before. */
  pause(): void;
  resume(): void;
  /** There is no memory for another request: the door drops the connection, and closes the line. */
  cut(): void;
}

export class RequestLine<R extends Lined> {
  /** Requests that are not completely answered, begun or not. */
  private unanswered = 0;
  /** Requests that are worked on, and the one that began last. */
  private working = 0;
  private last: R | undefined;
  private waitingBytes = 0;
  /** Requests that have not begun. */
  private queue: R[] = [];
  private isAdvancing = false;
  /** No further request begins. */
  private isEnding = false;
  private isClosed = false;
  private shouldPause = false;

  constructor(
    private readonly port: LinePort<R>,
    private readonly limits: LineLimits,
    private readonly budget: MemoryBudget,
  ) {}

  /** Answers that the connection is owed. */
  get owed(): number {
    return this.unanswered;
  }

  /** Whether the door must not read the connection. */
  get isPaused(): boolean {
    return this.shouldPause;
  }

  arrive(request: R): void {
    if (this.isClosed) return;
    if (!this.chargeNext()) {
      this.port.cut();
      return;
    }
    const mayBegin = this.queue.length === 0 && this.mayBegin(request);
    this.unanswered++;
    if (mayBegin) this.begin(request);
    else this.enqueue(request);
  }

  /**
   * The answer to a request is passed to the connection, or will take long and needs no memory until then. `closes`: the
   * connection ends with this answer, so no later request may have an effect.
   */
  answered(closes = false): void {
    if (closes) this.isEnding = true;
    if (--this.working === 0) this.last = undefined;
    this.advance();
  }

  /** Part of an answer could not be sent at once. Returns false if there is no memory for it to wait in. */
  hold(bytes: number): boolean {
    if (this.isClosed || !this.budget.take(bytes, this.waitingBytes)) return false;
    this.waitingBytes += bytes;
    return true;
  }

  /** The client has taken bytes that were held. */
  drained(bytes: number): void {
    if (this.isClosed) return;
    this.waitingBytes -= bytes;
    this.budget.give(bytes);
    this.advance();
  }

  /** The answer to a request is sent completely. */
  sent(): void {
    if (this.isClosed) return;
    this.unanswered--;
    if (this.unanswered > 0) this.budget.give(this.limits.requestBytes);
    this.advance();
  }

  /** The connection has ended, or takes no more answers. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.budget.give(this.waitingBytes + Math.max(0, this.unanswered - 1) * this.limits.requestBytes);
    this.unanswered = 0;
    this.queue = [];
    this.last = undefined;
  }

  private chargeNext(): boolean {
    const { requestBytes } = this.limits;
    return this.unanswered === 0 || this.budget.take(requestBytes, (this.unanswered - 1) * requestBytes);
  }

  private enqueue(request: R): void {
    this.queue.push(request);
    if (this.queue.length <= this.limits.queuedRequests || this.shouldPause) return;
    this.shouldPause = true;
    this.port.pause();
  }

  private mayBegin(request: R): boolean {
    const { openRequests, waitingBytes } = this.limits;
    const open = this.unanswered - this.queue.length;
    if (this.isEnding || open >= openRequests || this.waitingBytes > waitingBytes) return false;
    return this.working === 0 || areAlikeWrites(request, this.last!);
  }

  private begin(request: R): void {
    this.working++;
    this.last = request;
    this.port.begin(request);
  }

  /** An answer that comes at once calls this again: the loop below goes on then, instead of a call within a call. */
  private advance(): void {
    if (this.queue.length === 0 || this.isAdvancing) return;
    this.isAdvancing = true;
    while (this.queue.length > 0 && this.mayBegin(this.queue[0]!)) this.begin(this.queue.shift()!);
    this.isAdvancing = false;
    if (this.shouldPause && this.queue.length <= this.limits.queuedRequests && !this.isClosed) {
      this.shouldPause = false;
      this.port.resume();
    }
  }
}

/** Two of these begin their commits in the order in which they came. */
function areAlikeWrites(one: Lined, other: Lined): boolean {
  return !one.isRead && one.method === other.method && one.path === other.path;
}
