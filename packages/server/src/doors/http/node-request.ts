/**
 * One request of `node:http` in the shape that routes are written against. Created by the adapter, which owns its
 * connection and sends its response.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Body } from "../../core/http.ts";
import { Refusal } from "../../core/refusal.ts";
import type { AnswerClock } from "./answer-clock.ts";
import type { ObservedRequest, RequestEnd, Traffic } from "./observer.ts";

export class NodeRequest implements ObservedRequest {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  route: string | undefined = undefined;
  project: string | undefined = undefined;
  waits = false;
  startedAt = 0;
  id: string | undefined = undefined;
  endedBy: RequestEnd | undefined = undefined;
  /** Present where responses have a deadline. */
  clock: AnswerClock | undefined = undefined;

  /** `mustHangUp`: the body is too large, or the client waits for 100-continue. The rest of its input is not read. */
  constructor(
    readonly incoming: IncomingMessage,
    readonly outgoing: ServerResponse,
    readonly traffic: Traffic,
    public mustHangUp = false,
  ) {
    const url = pathOf(incoming.url!);
    const mark = url.indexOf("?");
    this.method = incoming.method!;
    this.path = mark < 0 ? url : url.slice(0, mark);
    this.search = mark < 0 ? "" : url.slice(mark + 1);
  }

  check(): void {
    const { headers, httpVersion } = this.incoming;
    if (headers.host === undefined && httpVersion === "1.1")
      throw new Refusal("bad-header", "Host is missing; HTTP/1.1 requires it");
  }

  get origin(): string {
    return `http://${this.incoming.headers.host ?? "localhost"}`;
  }

  header(name: string): string | undefined {
    return this.incoming.headers[name] as string | undefined;
  }

  body(maxBytes: number): Promise<Body> {
    const { incoming } = this;
    if (Number(incoming.headers["content-length"]) > maxBytes) {
      this.mustHangUp = true;
      return Promise.resolve({ kind: "too-large" });
    }
    if (this.mustHangUp) {
      this.mustHangUp = false;
      this.outgoing.writeContinue();
    }
    this.clock?.stop();
    return new Promise((resolve, reject) => {
      let first: Buffer | undefined;
      let rest: Buffer[] | undefined;
      let length = 0;
      incoming.on("data", (chunk: Buffer) => {
        if (this.mustHangUp) return;
        length += chunk.length;
        if (length > maxBytes) {
          this.mustHangUp = true;
          incoming.pause();
          this.clock?.start();
          resolve({ kind: "too-large" });
        } else if (first === undefined) first = chunk;
        else if (rest === undefined) rest = [first, chunk];
        else rest.push(chunk);
      });
      incoming.on("end", () => {
        this.traffic.receivedBytes += length;
        this.clock?.start();
        resolve({ kind: "body", bytes: rest ? Buffer.concat(rest, length) : (first ?? Buffer.alloc(0)) });
      });
      // The client is gone and cannot read this refusal. It ends the request without being reported as a fault.
      incoming.on("error", () => reject(new Refusal("bad-request", "the body ended early")));
    });
  }

  onGone(task: () => void): void {
    // The deadline has already been answered, so a task registered now runs immediately.
    if (this.clock?.isUp) queueMicrotask(task);
    else {
      onOver(this, () => {
        if (!this.outgoing.writableFinished) task();
      });
    }
  }
}

/** A client of a proxy may send the whole URL in place of the path. */
function pathOf(url: string): string {
  return url.startsWith("/") ? url : url.replace(/^https?:\/\/[^/?#]*/i, "");
}

/**
 * Runs once when the response is sent or its connection is gone. Node reports nothing for a response that is queued
 * behind another when the connection goes, so the connection is watched too.
 */
export function onOver({ incoming: { socket }, outgoing }: NodeRequest, task: () => void): void {
  if (outgoing.destroyed || socket.destroyed) {
    queueMicrotask(task);
    return;
  }
  let isOver = false;
  const run = () => {
    // The end of the connection may end the response while it runs its own listeners.
    if (isOver) return;
    isOver = true;
    outgoing.off("close", run);
    socket.off("close", run);
    task();
  };
  outgoing.on("close", run);
  socket.on("close", run);
}
