/**
 * A request and its connection as the door sees them, whichever parser read them, and what both kinds of request have in common.
 * `NodeRequest` and `LaneRequest` implement it.
 */
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Reply } from "../../core/http.ts";
import type { MemoryBudget } from "../memory-budget.ts";
import type { Lined, RequestLine } from "../request-line.ts";
import type { AnswerClock } from "./answer-clock.ts";
import type { HttpLimits } from "./defaults.ts";
import type { CutReason, ObservedRequest, RequestEnd, Traffic } from "./observer.ts";

export interface DoorLine {
  readonly socket: Socket;
  /** No response is owed, and no request has begun to arrive. */
  readonly isIdle: boolean;
  /** Drops what waits on it, before its socket is destroyed. */
  close(): void;
}

export interface DoorRequest extends ObservedRequest, Lined {
  readonly line: DoorLine;
  endedBy: RequestEnd | undefined;
  /** Present where responses have a deadline. */
  clock: AnswerClock | undefined;
  /** Whether the client has left before its response. */
  readonly hasLeft: boolean;
  /** Throws a Refusal for a request that no handler may see. */
  check(): void;
  /** The handler is done with the request, and holds its body no longer. */
  settle(): void;
  /** Lets the next request of the connection begin. Calling it again changes nothing. */
  leaveWork(): void;
  /** `isClosing`: the connection takes no further request. Throws if the reply cannot be written. */
  respond(reply: Reply, isClosing: boolean): void;
  /** Ends the connection without a response. */
  drop(): void;
  /** Runs once when the response is sent or its connection is gone. */
  onOver(task: () => void): void;
}

/** What a door and its observer note of a request, and whether it is worked on. */
export abstract class NotedRequest implements Lined {
  abstract readonly method: string;
  abstract readonly path: string;
  abstract readonly line: { readonly requests: Pick<RequestLine<Lined>, "answered"> };
  route: string | undefined = undefined;
  project: string | undefined = undefined;
  startedAt = 0;
  id: string | number | undefined = undefined;
  endedBy: RequestEnd | undefined = undefined;
  clock: AnswerClock | undefined = undefined;
  private isWaiting = false;
  private isWorkedOn = true;

  get isRead(): boolean {
    return this.method === "GET";
  }

  get waits(): boolean {
    return this.isWaiting;
  }

  /** A request that waits for messages holds nothing, so the next request of its connection may begin. */
  set waits(waits: boolean) {
    this.isWaiting = waits;
    if (waits) this.leaveWork();
  }

  /** Whether the connection ends with the answer that was given. */
  protected abstract readonly closes: boolean;

  leaveWork(): void {
    if (!this.isWorkedOn) return;
    this.isWorkedOn = false;
    this.line.requests.answered(this.closes);
  }
}

/** The connection tells, because a server that this one is mounted in may have a certificate of its own. */
export function originOf(socket: Socket, host: string): string {
  return `${(socket as TLSSocket).encrypted ? "https" : "http"}://${host}`;
}

/** What all connections of a door share. */
export interface SharedParts {
  readonly limits: HttpLimits;
  readonly memory: MemoryBudget;
  readonly traffic: Traffic;
  /** Works on a request. */
  readonly serve: (request: DoorRequest) => void;
  /** Drops a connection for this reason, which is counted. */
  readonly cut: (line: DoorLine, why: CutReason) => void;
}
