/** What a read of a stream takes and yields: options, messages, gaps, marks, pages. The stream handle and its reader share it. */
import type { StreamMessage } from "./message.ts";

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
  /** No message lay behind the page when the server sent it. */
  readonly upToDate: boolean;
  /** The stream is closed, and this is its last page. */
  readonly closed: boolean;
}

export interface ReadOptions {
  /** `beginning` (the oldest kept message), `now`, or the `offset` of the last message that the caller has seen. */
  readonly from?: "beginning" | "now" | (string & {}) | undefined;
  /** Continue at the end of the stream. `true` means `sse`; `long-poll` is for networks that buffer events. */
  readonly live?: boolean | "sse" | "long-poll" | undefined;
  /** Ends the loop without an error. */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait for a stream that does not exist yet; `Infinity` waits forever. By default that is an error at once. */
  readonly waitMs?: number | undefined;
  /** How long reading may fail before it gives up: by default forever if live, else `retries.giveUpMs`. */
  readonly giveUpMs?: number | undefined;
  /** How long a live connection may be silent before the reader replaces it. */
  readonly silenceMs?: number | undefined;
}

export interface MarkedReadOptions extends ReadOptions {
  /** Yields marks between the messages: where the reader has caught up, and where the stream is closed. */
  readonly marks: true;
}

export interface Gap {
  readonly type: "gap";
  /** `trimmed`: retention removed the messages. `lost`: a failover lost them. */
  readonly reason: "trimmed" | "lost";
  /** The reader's position before the gap, and where it resumes. */
  readonly from: string;
  readonly to: string;
}

/**
 * `caught-up`: every message that the stream held was yielded; again each time after the reader was behind. `closed`: the
 * stream takes no more messages, and the loop ends.
 */
export interface Mark {
  readonly type: "caught-up" | "closed";
  readonly offset: string;
}

export type StreamItem<T> = StreamMessage<T> | Gap;
