/** Reads a channel's events as a browser would, and keeps what came: messages, gaps and comments. */
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { onTestFinished } from "vitest";
import { within } from "../e2e/server.ts";

export interface Seen {
  readonly event: string;
  readonly id: string;
  // biome-ignore lint/suspicious/noExplicitAny: data is whatever the test expects of it.
  readonly data: any;
}

const WAIT_MS = 15_000;

export class Reader {
  readonly seen: Seen[] = [];
  comments = 0;
  lastComment = "";
  /** How the connection ended: `end` when the server ended it properly. */
  ended: "end" | "cut" | undefined;
  private rest = "";
  private wake: (() => void) | undefined;

  private constructor(
    private readonly outgoing: ClientRequest,
    readonly incoming: IncomingMessage,
  ) {
    incoming.setEncoding("utf8");
    incoming.on("data", (text: string) => this.take(text));
    const over = (how: "end" | "cut") => {
      this.ended ??= how;
      this.wake?.();
    };
    incoming.once("end", () => over("end"));
    incoming.once("error", () => over("cut"));
    incoming.once("close", () => over("cut"));
  }

  static open(url: string, headers: Record<string, string> = {}): Promise<Reader> {
    const opening = new Promise<Reader>((resolve, reject) => {
      const outgoing = request(url, { agent: false, headers }, (incoming) => resolve(new Reader(outgoing, incoming)));
      outgoing.once("error", reject);
      outgoing.end();
      onTestFinished(() => void outgoing.destroy());
    });
    return within(WAIT_MS, "the headers of an event stream", opening);
  }

  get status(): number {
    return this.incoming.statusCode!;
  }

  /** The messages alone. */
  get messages(): Seen[] {
    return this.seen.filter(({ event }) => event === "stream");
  }

  get sequences(): number[] {
    return this.messages.map(({ data }) => data.sequence);
  }

  get gaps(): Seen[] {
    return this.seen.filter(({ event }) => event === "gap");
  }

  get lastId(): string {
    return this.seen.at(-1)!.id;
  }

  until(what: string, holds: (reader: Reader) => boolean): Promise<void> {
    const waiting = (async () => {
      while (!holds(this)) {
        if (this.ended !== undefined) throw new Error(`the connection ended before: ${what}`);
        await new Promise<void>((resolve) => {
          this.wake = resolve;
        });
      }
    })();
    return within(WAIT_MS, what, waiting);
  }

  untilSequence(sequence: number): Promise<void> {
    return this.until(`sequence ${sequence}`, (reader) => reader.messages.at(-1)?.data.sequence >= sequence);
  }

  untilEnded(): Promise<void> {
    const waiting = (async () => {
      while (this.ended === undefined) {
        await new Promise<void>((resolve) => {
          this.wake = resolve;
        });
      }
    })();
    return within(WAIT_MS, "the end of the event stream", waiting);
  }

  close(): void {
    this.outgoing.destroy();
  }

  private take(text: string): void {
    this.rest += text;
    const blocks = this.rest.split("\n\n");
    this.rest = blocks.pop()!;
    for (const block of blocks) this.takeBlock(block);
    this.wake?.();
  }

  private takeBlock(block: string): void {
    const fields = new Map<string, string>();
    for (const line of block.split("\n")) {
      const at = line.indexOf(":");
      if (at === 0) {
        this.comments++;
        this.lastComment = line.slice(1).trim();
      } else fields.set(line.slice(0, at), line.slice(at + 1).replace(/^ /, ""));
    }
    const data = fields.get("data");
    if (data === undefined) return;
    this.seen.push({ event: fields.get("event") ?? "message", id: fields.get("id") ?? "", data: JSON.parse(data) });
  }
}

/** All there is of a channel that has ended, or up to a sequence of one that has not. */
export async function readAll(url: string, upTo?: number, headers: Record<string, string> = {}): Promise<Reader> {
  const reader = await Reader.open(url, headers);
  if (upTo === undefined) await reader.untilEnded();
  else await reader.untilSequence(upTo);
  reader.close();
  return reader;
}
