/**
 * Reads a stream from an offset to its end, or live: message by message, or page by page as bytes. Called by the stream
 * handle.
 *
 * Invariants: every message arrives once and in order, over any number of connections. Missing messages are reported as a
 * gap, in their place. The loop ends at the end of the stream, when the caller stops it, or with an error for the caller.
 */
import { BEGINNING, header, NOW } from "@sluice/protocol";
import { Backoff } from "./backoff.ts";
import type { Call, Connection } from "./connection.ts";
import { SluiceError } from "./error.ts";
import { ConnectionEnded, eventsOf, SILENCE_MS, WORTHWHILE_MS } from "./events.ts";

export interface PageOptions extends Omit<ReadOptions, "live"> {
  /** Wait at the end for more messages, by long-poll. */
  readonly live?: boolean | undefined;
  /** `envelope`: a JSON array of envelopes. By default the messages as they were appended; JSON messages as an array. */
  readonly format?: "envelope" | undefined;
}

/** The answer to one request. */
export interface StreamPage {
  readonly type: "page";
  readonly bytes: Uint8Array;
  /** The position after the last message of the page: read on `from` here. */
  readonly offset: string;
}

export interface ReadOptions {
  /** `beginning` (the oldest kept message), `now`, or the `offset` of the last message that the caller has seen. */
  readonly from?: "beginning" | "now" | (string & {}) | undefined;
  /** Continue at the end of the stream. `true` means `sse`; `long-poll` is for networks that buffer events. */
  readonly live?: boolean | "sse" | "long-poll" | undefined;
  /** Ends the loop without an error. */
  readonly signal?: AbortSignal | undefined;
  /** How long a live read may fail before it gives up; forever by default. */
  readonly giveUpMs?: number | undefined;
  /** How long a live connection may be silent before the reader replaces it. */
  readonly silenceMs?: number | undefined;
}

export interface StreamMessage<T> {
  readonly type: "message";
  /** The position after this message: read on `from` here. */
  readonly offset: string;
  readonly value: T;
  /** When it was appended, in epoch milliseconds. */
  readonly publishedAt: number;
  readonly id?: string;
  readonly key?: string;
  readonly attributes?: Readonly<Record<string, string>>;
}

export interface Gap {
  readonly type: "gap";
  /** `trimmed`: retention removed the messages. `lost`: a failover lost them. */
  readonly reason: "trimmed" | "lost";
  /** The reader's position before the gap, and where it resumes. */
  readonly from: string;
  readonly to: string;
}

/** An element of the array that `format=envelope` returns. */
interface Envelope {
  readonly offset: string;
  readonly payload: unknown;
  readonly encoding?: "base64";
  readonly publishedAt: number;
  readonly id?: string;
  readonly key?: string;
  readonly attributes?: Readonly<Record<string, string>>;
}

interface Control {
  readonly streamNextOffset: string;
  readonly streamCursor?: string;
  readonly streamClosed?: boolean;
}

export type StreamItem<T> = StreamMessage<T> | Gap;

export class StreamReader {
  private position: string;
  private cursor: string | undefined;
  private isOver = false;
  private readonly backoff: Backoff;
  private readonly live: "sse" | "long-poll" | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly path: string,
    private readonly options: ReadOptions,
    private readonly format: "envelope" | undefined,
  ) {
    const { from = "beginning", live = false, signal, giveUpMs } = options;
    this.position = from === "beginning" ? BEGINNING : from;
    this.live = live === true ? "sse" : live || undefined;
    const patienceMs = giveUpMs ?? (this.live ? Number.POSITIVE_INFINITY : connection.retries.giveUpMs);
    this.backoff = new Backoff(connection.retries, signal, patienceMs);
  }

  /** Yields messages that arrived together: a page or an event at a time. */
  async *batches(): AsyncGenerator<readonly StreamItem<unknown>[], void, undefined> {
    for await (const item of this.resumed(() => (this.live === "sse" ? this.events() : this.parsedPage()))) {
      yield "type" in item ? [item] : item;
    }
  }

  pages(): AsyncGenerator<StreamPage | Gap, void, undefined> {
    return this.resumed(() => this.page());
  }

  /** Connects until the stream ends; each connection resumes where the last one stopped. */
  private async *resumed<T>(connect: () => AsyncGenerator<T>): AsyncGenerator<T | Gap, void, undefined> {
    try {
      while (!this.isOver) {
        try {
          yield* connect();
        } catch (error) {
          const gap = this.gapIn(error);
          if (gap === undefined) await this.backoff.wait(error);
          else yield gap;
        }
      }
    } catch (error) {
      // The caller aborted and needs no error.
      if (!this.options.signal?.aborted) throw error;
    }
  }

  private async *page(): AsyncGenerator<StreamPage, void, undefined> {
    const { silenceMs = SILENCE_MS } = this.options;
    const exchange = await this.connection.open(this.call(), this.live ? silenceMs : undefined);
    let bytes: Uint8Array;
    const { status, headers } = exchange.response;
    try {
      bytes = await exchange.bytes();
    } finally {
      exchange.close();
    }
    this.backoff.progress();
    this.position = headers.get(header.streamNextOffset) ?? this.position;
    this.cursor = headers.get(header.streamCursor) ?? undefined;
    const isAtEnd = headers.get(header.streamUpToDate) !== null && !this.live;
    this.isOver = isAtEnd || headers.get(header.streamClosed) !== null;
    if (status !== 204) yield { type: "page", bytes, offset: this.position };
  }

  private async *parsedPage(): AsyncGenerator<readonly StreamMessage<unknown>[], void, undefined> {
    for await (const { bytes } of this.page()) {
      const messages = messagesIn(new TextDecoder().decode(bytes));
      if (messages.length > 0) yield messages;
    }
  }

  private async *events(): AsyncGenerator<readonly StreamMessage<unknown>[], void, undefined> {
    const startedAt = Date.now();
    let isWorthwhile = false;
    for await (const { event, data } of this.connect()) {
      if (event === "data") {
        this.backoff.progress();
        isWorthwhile = true;
        const messages = messagesIn(data);
        this.position = messages.at(-1)?.offset ?? this.position;
        yield messages;
      } else if (event === "control") {
        const control = parse(data) as Control;
        this.position = control.streamNextOffset;
        this.cursor = control.streamCursor;
        if (control.streamClosed) {
          this.isOver = true;
          return;
        }
      }
    }
    if (!isWorthwhile && Date.now() - startedAt < WORTHWHILE_MS) throw new ConnectionEnded();
    this.backoff.progress();
  }

  private connect() {
    const { silenceMs = SILENCE_MS } = this.options;
    return eventsOf(this.connection, this.call(), silenceMs, () => this.backoff.reached());
  }

  private call(): Call {
    const { position, cursor, format } = this;
    // A failed long-poll from "now" would be repeated from a later "now", so the first request learns the offset instead.
    const live = this.live === "long-poll" && position === NOW ? undefined : this.live;
    const query = { offset: position, live, cursor: live && cursor, format };
    return { method: "GET", path: this.path, query, signal: this.options.signal };
  }

  /** The gap that a refusal reports; reading resumes behind it. */
  private gapIn(error: unknown): Gap | undefined {
    if (!(error instanceof SluiceError)) return undefined;
    const isTrimmed = error.code === "offset-trimmed";
    if (!isTrimmed && error.code !== "history-lost") return undefined;
    const to = error.headers?.get(isTrimmed ? header.streamEarliestOffset : header.streamNextOffset);
    const from = this.position;
    // A server that returns the reader's own position would do so forever.
    if (!to || to === from || from === NOW) return undefined;
    this.position = to;
    this.cursor = undefined;
    return { type: "gap", reason: isTrimmed ? "trimmed" : "lost", from, to };
  }
}

function messagesIn(text: string): StreamMessage<unknown>[] {
  return (parse(text) as Envelope[]).map(messageOf);
}

function messageOf({ offset, payload, encoding, publishedAt, id, key, attributes }: Envelope): StreamMessage<unknown> {
  return {
    type: "message",
    offset,
    value: encoding === "base64" ? bytesOf(payload as string) : payload,
    publishedAt,
    ...(id === undefined ? undefined : { id }),
    ...(key === undefined ? undefined : { key }),
    ...(attributes === undefined ? undefined : { attributes }),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SluiceError("bad-answer", "the server's answer is not JSON", { cause });
  }
}

function bytesOf(base64: string): Uint8Array {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
