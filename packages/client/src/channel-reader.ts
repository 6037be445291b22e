/**
 * Reads a channel until END: as items, or as the events that the server sends. Called by the channel handle.
 *
 * Invariants: every message arrives once and in order, over any number of connections. A channel keeps about its last
 * thousand messages; trimmed messages are reported as a gap, in their place.
 */
import { header, NOW } from "@sluice/protocol";
import { Absence } from "./absence.ts";
import { Backoff, NoProgress, WORTHWHILE_MS } from "./backoff.ts";
import type { Connection } from "./connection.ts";
import { SluiceError } from "./error.ts";
import { eventsOf, SILENCE_MS } from "./events.ts";
import type { Exchange } from "./exchange.ts";
import { numberOption } from "./options.ts";

export interface ChannelReadOptions {
  /**
   * `beginning` (the oldest kept message; the default), `now`, or the `offset` of the last item that the caller has seen.
   */
  readonly from?: "beginning" | "now" | (string & {}) | undefined;
  /** Ends the loop without an error. */
  readonly signal?: AbortSignal | undefined;
  /**
   * How long to wait for a channel that does not exist yet; `Infinity` waits forever. By default that is an error at once.
   */
  readonly waitMs?: number | undefined;
  /** How long reading may fail before it gives up; forever by default. */
  readonly giveUpMs?: number | undefined;
  /** How long a connection may be silent before the reader replaces it. */
  readonly silenceMs?: number | undefined;
}

export interface ChannelPart {
  readonly type: "start" | "delta" | "error" | "end";
  readonly payload: unknown;
  readonly sequence: number;
  /** Read on `from` here. */
  readonly offset: string;
  readonly messageId?: string | undefined;
}

/** The channel no longer keeps the messages between two parts, or before the first part. */
export interface ChannelGap {
  readonly type: "gap";
  /** The expected sequence, when known, and the one that arrived. */
  readonly expected: number | undefined;
  readonly sequence: number;
}

export type ChannelItem = ChannelPart | ChannelGap;

/** An event as the server sent it: a message, or the gap before one. */
export type ChannelEvent =
  | {
      readonly event: "stream";
      /** Read on `from` here. */
      readonly offset: string;
      /** The event's JSON text, unparsed. */
      readonly data: string;
      readonly message: ChannelEventMessage;
    }
  | { readonly event: "gap"; readonly offset: string; readonly data: string }
  /** The publisher was asked to stop. */
  | { readonly event: "stop"; readonly offset: string; readonly data: string };

export interface ChannelEventMessage {
  readonly messageId?: string;
  readonly phase: keyof typeof TYPES;
  readonly sequence: number;
  readonly payload?: unknown;
  /** The publisher left out sequences from this one on. */
  readonly gap?: { readonly expected: number };
}

const TYPES = { START: "start", DELTA: "delta", ERROR: "error", END: "end" } as const;

export class ChannelReader {
  private readonly from: string | undefined;
  private position: string | undefined;
  private expected: number | undefined;
  /** The server reported a gap; the next message shows where it ends. */
  private isGapTold = false;
  private isOver = false;
  private isAfterGap = false;
  private readonly backoff: Backoff;
  private readonly absence: Absence;
  private readonly silenceMs: number;

  constructor(
    private readonly connection: Connection,
    private readonly path: string,
    private readonly options: ChannelReadOptions,
    private readonly only?: "stop" | undefined,
  ) {
    this.from = options.from === "beginning" ? undefined : options.from;
    this.position = this.from;
    this.backoff = new Backoff(connection.retries, options.signal, options.giveUpMs ?? Number.POSITIVE_INFINITY);
    this.absence = new Absence(options.waitMs, options.signal);
    this.silenceMs = numberOption("silenceMs", options.silenceMs, SILENCE_MS, 1);
  }

  async *items(): AsyncGenerator<ChannelItem, void, undefined> {
    for await (const event of this.events()) {
      if (event.event === "gap") this.isGapTold = true;
      if (event.event === "stream") yield* this.take(event.message, event.offset);
    }
  }

  /** Connects until END; each connection resumes where the last one stopped. */
  async *events(): AsyncGenerator<ChannelEvent, void, undefined> {
    try {
      while (!this.isOver) {
        try {
          yield* this.connect();
        } catch (error) {
          const gap = this.gapIn(error);
          if (gap === undefined) await this.pause(error);
          else {
            // A server that moves the reader to and fro must not occupy it.
            if (this.isAfterGap) await this.backoff.wait(new NoProgress());
            this.isAfterGap = true;
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
    if (this.position !== undefined || !(await this.absence.wait(error))) await this.backoff.wait(error);
  }

  private async *connect(): AsyncGenerator<ChannelEvent, void, undefined> {
    const { signal, waitMs } = this.options;
    const headers = { "Last-Event-ID": this.position };
    // For a reader that waits forever, the server does the waiting.
    const query = { wait: waitMs === Number.POSITIVE_INFINITY ? "true" : undefined, only: this.only };
    const call = { method: "GET", path: this.path, headers, query, signal };
    const startedAt = Date.now();
    let isWorthwhile = false;
    let exchange!: Exchange;
    const opened = (one: Exchange) => {
      exchange = one;
      this.backoff.reached();
    };
    const end = () => {
      this.isOver = true;
    };
    for await (const event of eventsOf(this.connection, call, this.silenceMs, opened, end)) {
      if (signal?.aborted) return;
      const { event: name, id: offset, data } = event;
      if (name === "gap" || name === "stop") {
        // A reader that reconnects gets no second report of the same gap or stop.
        this.position = offset || this.position;
        yield { event: name, offset, data };
      }
      if (name !== "stream" || this.isRepeated(offset)) continue;
      const message = parse(data);
      if (message === undefined || offset === "") throw exchange.misunderstood("an event of the channel is not one");
      isWorthwhile = true;
      this.isAfterGap = false;
      this.backoff.progress();
      this.position = offset;
      this.isOver = message.phase === "END";
      yield { event: name, offset, data, message };
      if (this.isOver) return;
    }
    if (!isWorthwhile && !this.isOver && Date.now() - startedAt < WORTHWHILE_MS)
      throw new NoProgress("the server ended the connection");
    this.backoff.progress();
  }

  private isRepeated(offset: string): boolean {
    return this.position !== undefined && this.position !== NOW && offset !== "" && offset <= this.position;
  }

  private take({ phase, sequence, payload, messageId }: ChannelEventMessage, offset: string): ChannelItem[] {
    const items: ChannelItem[] = [];
    if (this.isGapBefore(phase, sequence)) items.push({ type: "gap", expected: this.expected, sequence });
    this.isGapTold = false;
    this.expected = sequence + 1;
    items.push({ type: TYPES[phase], payload, sequence, offset, messageId });
    return items;
  }

  private isGapBefore(phase: ChannelEventMessage["phase"], sequence: number): boolean {
    if (phase === "START") return false;
    // A reader without a position that misses START came too late. A reader with a position has seen the messages before it.
    if (this.expected === undefined) return this.isGapTold || this.from === undefined;
    return this.isGapTold || sequence > this.expected;
  }

  /** The gap that a refusal reports; reading resumes behind it. */
  private gapIn(error: unknown): ChannelEvent | undefined {
    if (!(error instanceof SluiceError)) return undefined;
    if (error.code !== "offset-trimmed" && error.code !== "history-lost") return undefined;
    const name = error.code === "offset-trimmed" ? header.streamEarliestOffset : header.streamNextOffset;
    const after = this.position;
    const earliest = error.headers?.get(name);
    if (!earliest || earliest === after) return undefined;
    this.position = earliest;
    return { event: "gap", offset: earliest, data: JSON.stringify({ after, earliest }) };
  }
}

/** The message in an event, or undefined when it is not one that this client understands. */
function parse(data: string): ChannelEventMessage | undefined {
  let value: Partial<ChannelEventMessage> | null;
  try {
    value = JSON.parse(data) as Partial<ChannelEventMessage> | null;
  } catch {
    return undefined;
  }
  const isKnown = value?.phase !== undefined && Object.hasOwn(TYPES, value.phase) && typeof value.sequence === "number";
  return isKnown ? (value as ChannelEventMessage) : undefined;
}
