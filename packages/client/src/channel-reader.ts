/**
 * Reads a channel: START, DELTA, ERROR, until END. Called by the channel handle.
 *
 * What must stay true: every message comes once and in order, over however many connections; one that cannot come any more,
 * because the channel keeps only its last thousand or so, is told as a gap, in its place.
 */
import { header } from "@sluice/protocol";
import { Backoff, sleep } from "./backoff.ts";
import type { Connection } from "./connection.ts";
import { SluiceError } from "./error.ts";
import { ConnectionEnded, eventsOf, SILENCE_MS } from "./events.ts";
import type { SseEvent } from "./sse-parser.ts";

export interface ChannelReadOptions {
  /** The `offset` of the last item that was seen; the beginning by default. */
  readonly from?: string | undefined;
  /** Ends the loop, quietly. */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait for a channel that does not exist yet. By default that is an error at once. */
  readonly waitMs?: number | undefined;
  /** How long reading may fail before it gives up; for ever by default. */
  readonly giveUpMs?: number | undefined;
  /** After how much silence a connection is replaced. */
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

/** What lies between two parts, or before the first, is not kept any more. */
export interface ChannelGap {
  readonly type: "gap";
  /** The sequence that should have come, when that is known, and the one that did. */
  readonly expected: number | undefined;
  readonly sequence: number;
}

export type ChannelItem = ChannelPart | ChannelGap;

const TYPES = { START: "start", DELTA: "delta", ERROR: "error", END: "end" } as const;

interface Published {
  readonly messageId?: string;
  readonly phase: keyof typeof TYPES;
  readonly sequence: number;
  readonly payload?: unknown;
}

/** How often a channel that does not exist yet is looked for. */
const LOOK_MS = 250;

export class ChannelReader {
  private position: string | undefined;
  private expected: number | undefined;
  /** The server has said that something is gone; what comes next shows what. */
  private isGapTold = false;
  private isOver = false;
  private readonly backoff: Backoff;

  constructor(
    private readonly connection: Connection,
    private readonly path: string,
    private readonly options: ChannelReadOptions,
  ) {
    this.position = options.from;
    this.backoff = new Backoff(connection.retries, options.signal, options.giveUpMs ?? Number.POSITIVE_INFINITY);
  }

  async *items(): AsyncGenerator<ChannelItem, void, undefined> {
    const { signal, waitMs = 0 } = this.options;
    const patientUntil = Date.now() + waitMs;
    try {
      while (!this.isOver) {
        try {
          yield* this.events();
        } catch (error) {
          if (isAbsent(error) && this.position === undefined && Date.now() < patientUntil) await sleep(LOOK_MS, signal);
          else if (!this.goesOnBehind(error)) await this.backoff.wait(error);
        }
      }
    } catch (error) {
      // Whoever has aborted knows.
      if (!signal?.aborted) throw error;
    }
  }

  private async *events(): AsyncGenerator<ChannelItem, void, undefined> {
    const { signal, silenceMs = SILENCE_MS } = this.options;
    const headers = { "Last-Event-ID": this.position };
    const call = { method: "GET", path: this.path, headers, signal };
    let isWorthwhile = false;
    const end = () => {
      this.isOver = true;
    };
    for await (const event of eventsOf(this.connection, call, silenceMs, () => this.backoff.reached(), end)) {
      if (signal?.aborted) return;
      if (event.event === "gap") this.isGapTold = true;
      if (event.event !== "stream") continue;
      isWorthwhile = true;
      this.backoff.progress();
      yield* this.take(event);
      if (this.isOver) return;
    }
    if (!isWorthwhile && !this.isOver) throw new ConnectionEnded();
  }

  private take({ id, data }: SseEvent): ChannelItem[] {
    if (this.position !== undefined && id !== "" && id <= this.position) return [];
    const { phase, sequence, payload, messageId } = parse(data);
    const items: ChannelItem[] = [];
    if (this.isGapBefore(phase, sequence)) items.push({ type: "gap", expected: this.expected, sequence });
    this.isGapTold = false;
    this.expected = sequence + 1;
    this.position = id;
    this.isOver = phase === "END";
    items.push({ type: TYPES[phase], payload, sequence, offset: id, messageId });
    return items;
  }

  private isGapBefore(phase: Published["phase"], sequence: number): boolean {
    if (phase === "START") return false;
    // Whoever comes late and does not find the beginning; who names a position has seen what was before.
    if (this.expected === undefined) return this.isGapTold || this.options.from === undefined;
    return this.isGapTold || sequence > this.expected;
  }

  /** Whether a refusal says that our position is gone and where to go on. */
  private goesOnBehind(error: unknown): boolean {
    if (!(error instanceof SluiceError)) return false;
    if (error.code !== "offset-trimmed" && error.code !== "history-lost") return false;
    const name = error.code === "offset-trimmed" ? header.streamEarliestOffset : header.streamNextOffset;
    const to = error.headers?.get(name);
    if (!to || to === this.position) return false;
    this.position = to;
    this.isGapTold = true;
    return true;
  }
}

function isAbsent(error: unknown): boolean {
  return error instanceof SluiceError && error.status === 404;
}

function parse(data: string): Published {
  let value: Partial<Published> | undefined;
  try {
    value = JSON.parse(data) as Partial<Published>;
  } catch {
    value = undefined;
  }
  if (value?.phase !== undefined && Object.hasOwn(TYPES, value.phase) && typeof value.sequence === "number") {
    return value as Published;
  }
  throw new SluiceError("bad-answer", "an event of the channel is not one that this client understands");
}
