/**
 * One request of the lane in the shape that routes are written against. Its body is at hand. Created by its line.
 *
 * Invariants: it is answered once, with a complete response. The body is charged to the memory budget from the moment the
 * handler asks for it until the handler has settled.
 */
import type { Body, Reply } from "../../core/http.ts";
import { type DoorRequest, NotedRequest, originOf } from "./door-request.ts";
import type { LaneLine } from "./lane-line.ts";
import type { LaneHeaders, LaneParser } from "./lane-parser.ts";
import { type Answer, renderAnswer } from "./lane-response.ts";
import { memoryFull } from "./problem.ts";

const NOTHING = Buffer.alloc(0);

export class LaneRequest extends NotedRequest implements DoorRequest {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  readonly headerSet: object | undefined;
  private readonly headers: LaneHeaders;
  /** Its response, once it has one. */
  answer: Answer | undefined = undefined;
  /** The request behind it that is owed a response, or was sent one with it. */
  next: LaneRequest | undefined = undefined;
  private bytes: Buffer | undefined;
  private charged = 0;
  private mustHangUp = false;
  private isOver = false;
  private overTasks: (() => void)[] | undefined = undefined;

  constructor(
    readonly line: LaneLine,
    { method, path, search, headers, hasSameHeaders }: LaneParser,
    body: Buffer | undefined,
  ) {
    super();
    this.method = method;
    this.path = path;
    this.search = search;
    this.headers = headers;
    this.headerSet = hasSameHeaders ? headers : undefined;
    this.bytes = body;
  }

  /** The parser takes no request that the door would refuse. */
  check(): void {}

  get origin(): string {
    return originOf(this.line.socket, this.headers.get("host")!);
  }

  get hasLeft(): boolean {
    return this.line.socket.destroyed;
  }

  header(name: string): string | undefined {
    return this.headers.get(name);
  }

  body(maxBytes: number): Body {
    const bytes = this.bytes ?? NOTHING;
    if (bytes.length > maxBytes) {
      this.mustHangUp = true;
      return { kind: "too-large" };
    }
    const { memory, traffic } = this.line.shared;
    if (!memory.take(bytes.length)) {
      this.mustHangUp = true;
      throw memoryFull();
    }
    this.charged = bytes.length;
    traffic.receivedBytes += bytes.length;
    return { kind: "body", bytes };
  }

  settle(): void {
    this.bytes = undefined;
    if (this.charged === 0) return;
    this.line.shared.memory.give(this.charged);
    this.charged = 0;
  }

  respond(reply: Reply, isClosing: boolean): void {
    if (this.hasLeft) return;
    if (reply.live !== undefined || reply.socket !== undefined)
      throw new Error(`the route ${this.route} stays open, and its description does not say so`);
    this.answer = renderAnswer(reply, this.method, isClosing || this.mustHangUp, this.line.shared);
    this.line.answered();
  }

  protected get closes(): boolean {
    return this.answer?.closes ?? false;
  }

  /** Whether the rest of the client's input is not read, so that its end must be lingered for. */
  get hangsUp(): boolean {
    return this.mustHangUp;
  }

  drop(): void {
    this.line.socket.destroy();
  }

  onGone(task: () => void): void {
    // The deadline has already been answered, so a task registered now runs immediately.
    if (this.clock?.isUp) queueMicrotask(task);
    else this.onOver(() => this.hasLeft && task());
  }

  onOver(task: () => void): void {
    if (this.isOver || this.hasLeft) queueMicrotask(task);
    else if (this.overTasks === undefined) this.overTasks = [task];
    else this.overTasks.push(task);
  }

  /** Its response is sent, or its connection is gone. */
  over(): void {
    if (this.isOver) return;
    this.isOver = true;
    for (const task of this.overTasks ?? []) task();
    this.overTasks = undefined;
  }
}
