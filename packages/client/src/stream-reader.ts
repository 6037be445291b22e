/**
 * Reads a stream, message by message, from an offset to its end or for ever. Called by the stream handle.
 *
 * What must stay true: every message comes once and in order, whatever connection it came over; what cannot come any more is
 * told as a gap, in its place; the loop ends only at the end of the stream, by the caller, or with an error that the caller gets.
 */
import { BEGINNING, header, NOW } from "@sluice/protocol";
import { Backoff } from "./backoff.ts";
import type { Call, Connection } from "./connection.ts";
import { SluiceError } from "./error.ts";
import { ConnectionEnded, eventsOf, SILENCE_MS } from "./events.ts";

export interface ReadOptions {
  /** `beginning` (what is kept), `now`, or the `offset` of the last message that was seen. */
  readonly from?: "beginning" | "now" | (string & {}) | undefined;
  /** Go on when the end is reached. `true` is `sse`; `long-poll` is for networks that hold events back. */
  readonly live?: boolean | "sse" | "long-poll" | undefined;
  /** Ends the loop, quietly. */
  readonly signal?: AbortSignal | undefined;
  /** How long a live read may fail before it gives up; for ever by default. */
  readonly giveUpMs?: number | undefined;
  /** After how much silence a live connection is replaced. */
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
  /** `trimmed`: retention has taken messages. `lost`: a failover has. */
  readonly reason: "trimmed" | "lost";
  /** Where the reader stood, and where it goes on. */
  readonly from: string;
  readonly to: string;
}

/** An element of the array that `format=envelope` answers. */
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

/** How long a connection must have lasted to be replaced at once although it brought nothing. */
const WORTHWHILE_MS = 1_000;

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
  ) {
    const { from = "beginning", live = false, signal, giveUpMs } = options;
    this.position = from === "beginning" ? BEGINNING : from;
    this.live = live === true ? "sse" : live || undefined;
    const patienceMs = giveUpMs ?? (this.live ? Number.POSITIVE_INFINITY : connection.retries.giveUpMs);
    this.backoff = new Backoff(connection.retries, signal, patienceMs);
  }

  /** What came together: a page or an event at a time. */
  async *batches(): AsyncGenerator<readonly StreamItem<unknown>[], void, undefined> {
    try {
      while (!this.isOver) {
        try {
          yield* this.live === "sse" ? this.events() : this.page();
        } catch (error) {
          const gap = this.gapIn(error);
          if (gap === undefined) await this.backoff.wait(error);
          else yield [gap];
        }
      }
    } catch (error) {
      // Whoever has aborted knows.
      if (!this.options.signal?.aborted) throw error;
    }
  }

  private async *page(): AsyncGenerator<readonly StreamMessage<unknown>[], void, undefined> {
    const { silenceMs = SILENCE_MS } = this.options;
    const exchange = await this.connection.open(this.call(), this.live ? silenceMs : undefined);
    let text: string;
    const { status, headers } = exchange.response;
    try {
      text = status === 204 ? "[]" : await exchange.text();
    } finally {
      exchange.close();
    }
    const messages = this.messages(text);
    this.backoff.progress();
    if (messages.length > 0) yield messages;
    this.position = headers.get(header.streamNextOffset) ?? this.position;
    this.cursor = headers.get(header.streamCursor) ?? undefined;
    const isAtEnd = headers.get(header.streamUpToDate) !== null && !this.live;
    this.isOver = isAtEnd || headers.get(header.streamClosed) !== null;
  }

  private async *events(): AsyncGenerator<readonly StreamMessage<unknown>[], void, undefined> {
    const startedAt = Date.now();
    let isWorthwhile = false;
    for await (const { event, data } of this.connect()) {
      if (event === "data") {
        this.backoff.progress();
        isWorthwhile = true;
        yield this.messages(data);
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
    const query = { offset: this.position, live: this.live, cursor: this.cursor, format: "envelope" };
    return { method: "GET", path: this.path, query, signal: this.options.signal };
  }

  private messages(text: string): StreamMessage<unknown>[] {
    const messages = (parse(text) as Envelope[]).map(messageOf);
    this.position = messages.at(-1)?.offset ?? this.position;
    return messages;
  }

  /** The gap that a refusal tells of; reading goes on behind it. */
  private gapIn(error: unknown): Gap | undefined {
    if (!(error instanceof SluiceError)) return undefined;
    const isTrimmed = error.code === "offset-trimmed";
    if (!isTrimmed && error.code !== "history-lost") return undefined;
    const to = error.headers?.get(isTrimmed ? header.streamEarliestOffset : header.streamNextOffset);
    const from = this.position;
    // A server that sends us where we are would do so for ever.
    if (!to || to === from || from === NOW) return undefined;
    this.position = to;
    this.cursor = undefined;
    return { type: "gap", reason: isTrimmed ? "trimmed" : "lost", from, to };
  }
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
