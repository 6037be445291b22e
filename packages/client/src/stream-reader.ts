/**
 * Reads a stream from an offset to its end, or live: message by message, or page by page as bytes. Called by the stream
 * handle.
 *
 * Invariants: every message arrives once and in order, over any number of connections. Missing messages are reported as a
 * gap, in their place. A request that brings the reader no further is repeated after a delay. The loop ends at the end of the
 * stream, when the caller stops it, or with an error for the caller.
 */
import { BEGINNING, header, NOW } from "@sluice/protocol";
import { Absence } from "./absence.ts";
import { Backoff, NoProgress, WORTHWHILE_MS } from "./backoff.ts";
import { isJson } from "./batch.ts";
import type { Call, Connection } from "./connection.ts";
import { SluiceError } from "./error.ts";
import { eventsOf, MAX_EVENT_CHARS, SILENCE_MS } from "./events.ts";
import type { Exchange } from "./exchange.ts";
import { arrayIn, bytesOf, envelopesIn, messagesOfBytes, plain, type Span, type StreamMessage } from "./message.ts";
import { numberOption } from "./options.ts";
import type { Gap, Mark, ReadOptions, StreamItem, StreamPage } from "./read-options.ts";

/** The answer to one request. */
interface Page extends Pick<StreamPage, "upToDate" | "closed"> {
  /** Undefined when a wait ended without messages. */
  readonly bytes: Uint8Array | undefined;
  readonly span: Span;
  readonly exchange: Exchange;
}

interface Control {
  readonly streamNextOffset: string;
  readonly streamCursor?: string;
  readonly upToDate?: boolean;
  readonly streamClosed?: boolean;
}

const UNKNOWN = "the client does not understand the messages";

type Batch = readonly (StreamMessage<unknown> | Mark)[];

export class StreamReader {
  private position: string;
  private cursor: string | undefined;
  private isOver = false;
  private isCaughtUp = false;
  private hasAnswered: boolean;
  private type: string | undefined;
  private readonly backoff: Backoff;
  private readonly absence: Absence;
  private readonly live: "sse" | "long-poll" | undefined;
  private readonly silenceMs: number;

  constructor(
    private readonly connection: Connection,
    private readonly path: string,
    private readonly options: ReadOptions & { readonly marks?: boolean },
    private readonly format: "envelope" | undefined,
  ) {
    const { from = "beginning", live = false, signal, giveUpMs, waitMs } = options;
    this.position = from === "beginning" ? BEGINNING : from;
    // A caller with an offset has read the stream before, so its absence means that it was deleted.
    this.hasAnswered = this.position !== BEGINNING && this.position !== NOW;
    this.live = live === true ? "sse" : live || undefined;
    this.silenceMs = numberOption("silenceMs", options.silenceMs, SILENCE_MS, 1);
    const patienceMs = giveUpMs ?? (this.live ? Number.POSITIVE_INFINITY : undefined);
    this.backoff = new Backoff(connection.retries, signal, patienceMs);
    this.absence = new Absence(waitMs, signal);
  }

  /** Yields what arrived together: the messages of a page or an event, with marks. */
  async *batches(): AsyncGenerator<readonly (StreamItem<unknown> | Mark)[], void, undefined> {
    for await (const item of this.resumed(() => (this.live === "sse" ? this.events() : this.parsedPage()))) {
      yield "type" in item ? [item] : item;
    }
  }

  pages(): AsyncGenerator<StreamPage | Gap, void, undefined> {
    return this.resumed(() => this.publicPage());
  }

  /** Connects until the stream ends; each connection resumes where the last one stopped. */
  private async *resumed<T>(connect: () => AsyncGenerator<T>): AsyncGenerator<T | Gap, void, undefined> {
    let isAfterGap = false;
    try {
      while (!this.isOver) {
        try {
          for await (const item of connect()) {
            isAfterGap = false;
            yield item;
          }
        } catch (error) {
          // An answer without progress leaves the reader where it was, and caught up if it was.
          if (!(error instanceof NoProgress)) this.isCaughtUp = false;
          const gap = this.gapIn(error);
          if (gap === undefined) await this.pause(error);
          else {
            // A server that moves the reader to and fro must not occupy it.
            if (isAfterGap) await this.backoff.wait(new NoProgress());
            isAfterGap = true;
            yield gap;
          }
        }
      }
    } catch (error) {
      // The caller aborted and needs no error.
      if (!this.options.signal?.aborted) throw error;
    }
  }

  private async pause(error: unknown): Promise<void> {
    if (this.hasAnswered || !(await this.absence.wait(error))) return this.backoff.wait(error);
    // The stream did not exist when the caller said "now", so all of it is new.
    this.position = BEGINNING;
  }

  private async *publicPage(): AsyncGenerator<StreamPage, void, undefined> {
    for await (const { bytes, span, upToDate, closed } of this.page()) {
      if (bytes !== undefined) yield { type: "page", bytes, offset: span.next, upToDate, closed };
    }
  }

  private async *page(): AsyncGenerator<Page, void, undefined> {
    const startedAt = Date.now();
    const call = this.call();
    const exchange = await this.connection.open(call, this.live ? this.silenceMs : undefined);
    let bytes: Uint8Array;
    const { status, headers } = exchange.response;
    try {
      bytes = await exchange.bytes();
    } finally {
      exchange.close();
    }
    const next = headers.get(header.streamNextOffset);
    if (next === null) throw exchange.misunderstood("the answer to a read names no offset");
    const span = { before: this.position, next };
    const upToDate = headers.get(header.streamUpToDate) !== null;
    const closed = headers.get(header.streamClosed) !== null;
    this.hasAnswered = true;
    this.position = next;
    this.cursor = headers.get(header.streamCursor) ?? undefined;
    this.isOver = closed || (upToDate && !this.live);
    const hasLooked = upToDate && call.query?.live === undefined;
    const isProgress = next !== span.before || Date.now() - startedAt >= WORTHWHILE_MS;
    const isStuck = !isProgress && !hasLooked && !this.isOver;
    if (isProgress) this.backoff.progress();
    else if (!isStuck) this.backoff.reached();
    yield { bytes: status === 204 ? undefined : bytes, upToDate, closed, exchange, span };
    if (isStuck) throw new NoProgress();
  }

  private async *parsedPage(): AsyncGenerator<Batch, void, undefined> {
    for await (const { bytes = new Uint8Array(), upToDate, closed, exchange, span } of this.page()) {
      const type = exchange.response.headers.get(header.contentType) ?? "";
      const messages = exchange.understood(UNKNOWN, () => messagesOfBytes(bytes, type, span));
      const batch = this.marked(exchange, messages, span, upToDate || closed, closed);
      if (batch.length > 0) yield batch;
    }
  }

  private async *events(): AsyncGenerator<Batch, void, undefined> {
    const startedAt = Date.now();
    let isWorthwhile = false;
    let exchange!: Exchange;
    let data: string[] = [];
    let dataChars = 0;
    const opened = (one: Exchange) => {
      exchange = one;
      this.backoff.reached();
    };
    for await (const event of eventsOf(this.connection, this.call(), this.silenceMs, opened)) {
      if (event.event === "data") {
        data.push(event.data);
        dataChars += event.data.length;
        if (dataChars > MAX_EVENT_CHARS) throw exchange.misunderstood("no control event has the offset of the data");
      }
      if (event.event !== "control") continue;
      const control = exchange.understood(UNKNOWN, () => controlIn(event.data));
      const { streamNextOffset: next, streamCursor, upToDate = false, streamClosed: closed = false } = control;
      const span = { before: this.position, next };
      const messages = await this.messagesIn(exchange, data, span);
      data = [];
      dataChars = 0;
      this.hasAnswered = true;
      this.position = next;
      this.cursor = streamCursor;
      this.isOver = closed;
      const batch = this.marked(exchange, messages, span, upToDate || closed, closed);
      if (messages.length > 0) {
        isWorthwhile = true;
        this.backoff.progress();
      }
      if (batch.length > 0) yield batch;
      if (closed) return;
    }
    if (!isWorthwhile && Date.now() - startedAt < WORTHWHILE_MS)
      throw new NoProgress("the server ended the connection");
    this.backoff.progress();
  }

  /** The messages of the data events before a control event, which tells their span. */
  private async messagesIn(exchange: Exchange, data: readonly string[], span: Span): Promise<StreamMessage<unknown>[]> {
    if (data.length === 0) return [];
    const { headers } = exchange.response;
    if (headers.get(header.sseDataEncoding) === "base64") {
      return exchange.understood(UNKNOWN, () =>
        plain(
          data.map((text) => bytesOf(text.replaceAll("\n", ""))),
          span,
        ),
      );
    }
    const envelopes = data.length === 1 ? exchange.understood(UNKNOWN, () => envelopesIn(data[0]!, span)) : undefined;
    if (envelopes !== undefined) return envelopes;
    // A server without envelopes: text and JSON look alike in events, so the type of the stream decides.
    if (this.type === undefined) {
      const call: Call = { method: "HEAD", path: this.path, signal: this.options.signal };
      this.type = (await this.connection.call(call)).headers.get(header.contentType) ?? "";
    }
    if (!isJson(this.type)) return plain(data, span);
    return exchange.understood(UNKNOWN, () => plain(data.flatMap(arrayIn), span));
  }

  /** The messages, and the marks that follow them. */
  private marked(
    exchange: Exchange,
    messages: readonly StreamMessage<unknown>[],
    { before, next }: Span,
    isAtEnd: boolean,
    isClosed: boolean,
  ): Batch {
    if (messages.length > 0 && before === next) {
      throw exchange.misunderstood("the answer brings messages and leaves the reader where it was");
    }
    const marks: Mark[] = [];
    if (isAtEnd && !this.isCaughtUp) marks.push({ type: "caught-up", offset: next });
    if (isClosed) marks.push({ type: "closed", offset: next });
    this.isCaughtUp = isAtEnd;
    return [...messages, ...marks];
  }

  private call(): Call {
    const { position, cursor, format } = this;
    // A failed long-poll from "now" would be repeated from a later "now", so the first request learns the offset instead. A
    // long-poll that waits cannot tell that the reader has caught up.
    const looksFirst = position === NOW || (this.options.marks === true && !this.isCaughtUp);
    const live = this.live === "long-poll" && looksFirst ? undefined : this.live;
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

function controlIn(data: string): Control {
  const control = JSON.parse(data) as Control;
  if (typeof control.streamNextOffset !== "string") throw new TypeError("no offset");
  return control;
}
