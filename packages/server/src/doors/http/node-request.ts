/**
 * One request of `node:http` in the shape that routes are written against. Created by the adapter, which sends its
 * response.
 *
 * Invariants: the body is charged to the memory budget as it arrives, and the budget gets it back when the handler has settled.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Body, Reply } from "../../core/http.ts";
import { Refusal } from "../../core/refusal.ts";
import { Chunks } from "./chunks.ts";
import { type DoorRequest, NotedRequest, originOf } from "./door-request.ts";
import type { NodeLine } from "./node-line.ts";
import { send } from "./node-response.ts";
import { memoryFull } from "./problem.ts";

export class NodeRequest extends NotedRequest implements DoorRequest {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  /** Why the request is refused before its handler runs. */
  refusal: Refusal | undefined = undefined;
  /** Bytes of the body that the budget is charged for. */
  private bodyBytes = 0;
  private hasSettled = false;

  /**
   * `mustHangUp`: the body is refused, or the client waits for 100-continue. The rest of its input is not read.
   * `prefix`: where another server has mounted this one; `url` is the address below it.
   */
  constructor(
    readonly incoming: IncomingMessage,
    readonly outgoing: ServerResponse,
    readonly line: NodeLine,
    public mustHangUp = false,
    url = pathOf(incoming.url!),
    readonly prefix = "",
  ) {
    super();
    const mark = url.indexOf("?");
    this.method = incoming.method!;
    this.path = mark < 0 ? url : url.slice(0, mark);
    this.search = mark < 0 ? "" : url.slice(mark + 1);
  }

  check(): void {
    if (this.refusal !== undefined) throw this.refusal;
    const { headers, httpVersion } = this.incoming;
    if (headers.host === undefined && httpVersion === "1.1")
      throw new Refusal("bad-header", "Host is missing; HTTP/1.1 requires it");
  }

  get origin(): string {
    return originOf(this.incoming.socket, this.incoming.headers.host ?? "localhost");
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
    if (incoming.readableEnded) throw new Error(BODY_IS_GONE);
    if (this.mustHangUp) {
      this.mustHangUp = false;
      this.outgoing.writeContinue();
    }
    this.clock?.stop();
    return new Promise((resolve, reject) => {
      let chunks: Chunks | undefined = new Chunks();
      const stop = () => {
        this.mustHangUp = true;
        chunks = undefined;
        incoming.pause();
        this.clock?.start();
      };
      incoming.on("data", (chunk: Buffer) => {
        if (this.mustHangUp || this.hasSettled) return;
        if (this.bodyBytes + chunk.length > maxBytes) {
          stop();
          resolve({ kind: "too-large" });
        } else if (!this.charge(chunk.length)) {
          stop();
          reject(memoryFull());
        } else chunks?.push(chunk);
      });
      incoming.on("end", () => {
        this.line.shared.traffic.receivedBytes += this.bodyBytes;
        this.clock?.start();
        resolve({ kind: "body", bytes: chunks?.join() ?? Buffer.alloc(0) });
      });
      // The client is gone and cannot read this refusal. It ends the request without being reported as a fault.
      incoming.on("error", () => reject(new Refusal("bad-request", "the body ended early")));
    });
  }

  private charge(bytes: number): boolean {
    if (!this.line.shared.memory.take(bytes, this.bodyBytes)) return false;
    this.bodyBytes += bytes;
    return true;
  }

  settle(): void {
    this.hasSettled = true;
    this.line.shared.memory.give(this.bodyBytes);
    this.bodyBytes = 0;
  }

  get hasLeft(): boolean {
    return this.outgoing.destroyed;
  }

  respond(reply: Reply, isClosing: boolean): void {
    if (isClosing) this.outgoing.shouldKeepAlive = false;
    send(this, reply);
  }

  protected get closes(): boolean {
    return this.mustHangUp || !this.outgoing.shouldKeepAlive;
  }

  drop(): void {
    this.outgoing.destroy();
  }

  onOver(task: () => void): void {
    onOver(this, task);
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

const BODY_IS_GONE =
  "the body of the request was read before it came to Sluice: mount the handler before express.json() and the like";

/** A client of a proxy may send the whole URL in place of the path. */
export function pathOf(url: string): string {
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
