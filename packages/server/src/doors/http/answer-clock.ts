/**
 * The deadline of a request, where the store may delay it. The door starts it for every request and refuses the request
 * when it expires.
 *
 * Invariants: it pauses while the body arrives, because the client takes that time. It does not end a request that
 * waits for messages, because that has a limit of its own.
 */
import { Deadlined, type Deadlines } from "../../core/deadlines.ts";
import type { HttpRequest } from "../../core/http.ts";
import type { Socket } from "../../core/socket.ts";

export class AnswerClock extends Deadlined {
  /** The request has been refused; later results of its handler are discarded. */
  isUp = false;

  constructor(
    private readonly deadlines: Deadlines,
    private readonly request: HttpRequest,
    private readonly refuse: (request: HttpRequest) => void,
  ) {
    super();
  }

  start(): void {
    if (!this.isUp) this.deadlines.add(this);
  }

  stop(): void {
    this.deadlines.remove(this);
  }

  expire(): void {
    if (this.request.waits) return;
    this.isUp = true;
    this.refuse(this.request);
  }
}

/** The sink or socket of a live response that comes after the deadline: it reports at once that the client has gone. */
export const GONE: Socket = {
  buffered: 0,
  write() {},
  onDrain() {},
  onGone: (task) => queueMicrotask(task),
  end() {},
  cut() {},
  onText() {},
};
