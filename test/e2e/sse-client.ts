/** Reads server-sent events as a browser would, over `node:http`, and keeps what came. */
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { within } from "./server.ts";

export interface SseEvent {
  readonly event: string;
  readonly data: string;
}

export interface Control {
  readonly streamNextOffset: string;
  readonly streamCursor?: string;
  readonly upToDate?: boolean;
  readonly streamClosed?: boolean;
}

const WAIT_MS = 15_000;

export class SseClient {
  readonly events: SseEvent[] = [];
  /** How the connection ended: `end` when the server ended it properly. */
  readonly ended: Promise<"end" | "cut">;
  private isOver = false;
  private wake: (() => void) | undefined;
  private readonly parser = new SseParser((event) => this.events.push(event));

  private constructor(
    private readonly outgoing: ClientRequest,
    readonly incoming: IncomingMessage,
  ) {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    incoming.on("data", (chunk: Buffer) => {
      this.parser.push(decoder.decode(chunk, { stream: true }));
      this.wake?.();
    });
    this.ended = new Promise((resolve) => {
      incoming.once("end", () => resolve("end"));
      incoming.once("error", () => resolve("cut"));
    });
    void this.ended.then(() => {
      this.isOver = true;
      this.wake?.();
    });
  }

  static open(url: string): Promise<SseClient> {
    const opening = new Promise<SseClient>((resolve, reject) => {
      const outgoing = request(url, { agent: false }, (incoming) => resolve(new SseClient(outgoing, incoming)));
      outgoing.once("error", reject);
      outgoing.end();
    });
    return within(WAIT_MS, "the headers of an event stream", opening);
  }

  get status(): number {
    return this.incoming.statusCode!;
  }

  /** The data events, their text joined. */
  get text(): string {
    return this.data.join("");
  }

  get data(): string[] {
    return this.events.filter(({ event }) => event === "data").map(({ data }) => data);
  }

  get controls(): Control[] {
    return this.events.filter(({ event }) => event === "control").map(({ data }) => JSON.parse(data) as Control);
  }

  get lastOffset(): string {
    return this.controls.at(-1)!.streamNextOffset;
  }

  /** Waits until it holds; fails when the connection ends first. */
  until(what: string, holds: (client: SseClient) => boolean, ms = WAIT_MS): Promise<void> {
    const waiting = (async () => {
      while (!holds(this)) {
        if (this.isOver) throw new Error(`the connection ended before: ${what}`);
        await new Promise<void>((resolve) => {
          this.wake = resolve;
        });
      }
    })();
    return within(ms, what, waiting);
  }

  upTo(offset: string, ms = WAIT_MS): Promise<void> {
    const isThere = ({ events }: SseClient) => {
      const last = events.findLast(({ event }) => event === "control");
      return last !== undefined && (JSON.parse(last.data) as Control).streamNextOffset >= offset;
    };
    return this.until(`offset ${offset}`, isThere, ms);
  }

  untilEnded(ms = WAIT_MS): Promise<"end" | "cut"> {
    return within(ms, "the end of the event stream", this.ended);
  }

  close(): void {
    this.outgoing.destroy();
  }
}

/** The event stream format: lines end with CR, LF or both; one space after the colon is dropped; a blank line dispatches. */
export class SseParser {
  private rest = "";
  /** Whether `rest` ends with a CR, which is a line end of its own only if no LF follows. */
  private endsWithCr = false;
  private event = "message";
  private data: string[] = [];

  constructor(private readonly dispatch: (event: SseEvent) => void) {}

  push(text: string): void {
    if (text === "") return;
    this.rest += text;
    const hasLine = this.endsWithCr || /[\r\n]/.test(text);
    this.endsWithCr = text.endsWith("\r");
    // A long line comes in many pieces, and only the last of them is worth a look at the whole line.
    if (hasLine) this.takeLines();
  }

  private takeLines(): void {
    let at = 0;
    for (const { 0: ending, index } of this.rest.matchAll(/\r\n|\n|\r(?!$)/g)) {
      this.line(this.rest.slice(at, index));
      at = index + ending.length;
    }
    this.rest = this.rest.slice(at);
  }

  private line(line: string): void {
    if (line === "") {
      if (this.data.length > 0) this.dispatch({ event: this.event, data: this.data.join("\n") });
      this.event = "message";
      this.data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.event = value;
    else if (field === "data") this.data.push(value);
  }
}
