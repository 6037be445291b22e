/**
 * One read of a catch-up: the page after an offset, or the range that is lost. Cursors read through it, and decide by its errors.
 *
 * Invariants: an answer that is not understood is an error and no end of the stream.
 */
import { header } from "@sluice/protocol";
import { badAnswer, hasCode, type SluiceError } from "../error.ts";
import { envelopesIn, type StreamMessage } from "../message.ts";
import type { Gap } from "../read-options.ts";
import type { Ask } from "./identity.ts";

export type CatchUpPage =
  | {
      readonly kind: "page";
      readonly messages: readonly StreamMessage<unknown>[];
      /** The position after the page. */
      readonly next: string;
      readonly isUpToDate: boolean;
      readonly isClosed: boolean;
    }
  | { readonly kind: "gap"; readonly gap: Gap };

/** Reads the page after `offset` from the stream at this address. Rejects with a SluiceError. */
export async function readAfter(
  ask: Ask,
  address: string,
  offset: string,
  session: string | undefined,
): Promise<CatchUpPage> {
  try {
    // `session` only counts the read in the server's metrics.
    const query = { offset, format: "envelope", session };
    const { at, status, headers, text } = await ask({ method: "GET", path: address, query });
    const next = headers.get(header.streamNextOffset);
    const messages = next === null ? undefined : text === "" ? [] : envelopesIn(text, { before: offset, next });
    if (next === null || messages === undefined) throw badAnswer(at, status, "the answer is not a page of a stream");
    const isUpToDate = headers.get(header.streamUpToDate) !== null;
    return { kind: "page", messages, next, isUpToDate, isClosed: headers.get(header.streamClosed) !== null };
  } catch (error) {
    const gap = gapIn(error, offset);
    if (gap !== undefined) return { kind: "gap", gap };
    throw error;
  }
}

function gapIn(error: unknown, from: string): Gap | undefined {
  const isTrimmed = hasCode(error, "offset-trimmed");
  if (!isTrimmed && !hasCode(error, "history-lost")) return undefined;
  const to = error.headers?.get(isTrimmed ? header.streamEarliestOffset : header.streamNextOffset);
  // A server that returns the reader's own position would do so forever.
  return to && to !== from ? { type: "gap", reason: isTrimmed ? "trimmed" : "lost", from, to } : undefined;
}

export function isGone(error: SluiceError): boolean {
  return hasCode(error, "stream-not-found", "stream-gone");
}

/** Whether the same request would be refused again. A token may be renewed. */
export function isFinal({ status = 0, retryable }: SluiceError): boolean {
  return !retryable && status >= 400 && status < 500 && status !== 401;
}
