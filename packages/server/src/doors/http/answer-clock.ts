/**
 * The time that a request has for its answer, where the store may keep one waiting. The door starts it for every request, and refuses
 * when it is up. It stands still while the body arrives, which is the client's time, and does not end an answer that waits for
 * something to happen: that has a limit of its own.
 */
import { Deadlined, type Deadlines } from "../../core/deadlines.ts";
import type { HttpRequest } from "../../core/http.ts";
import type { Sink } from "../../core/sink.ts";

export class AnswerClock extends Deadlined {
  /** The request has been refused; what its handler still comes to is for nobody. */
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

/** For a live answer that came too late: whoever begins to write is told at once that the client has gone. */
export const NOBODY: Sink = {
  buffered: 0,
  write() {},
  onDrain() {},
  onGone: (task) => queueMicrotask(task),
  end() {},
  cut() {},
};
