/**
 * Messages whose whole content follows from their id, and their decoding from an inbox. Publishers, owners and checks use
 * it.
 *
 * Invariants: a single wrong byte is detected.
 */
import { type Position, parseOffset } from "@sluice/protocol";

export const TYPES = ["text/plain", "application/json", "application/octet-stream"] as const;
export type ContentType = (typeof TYPES)[number];

/** The size is part of the id. */
export function textOf(id: string): string {
  const size = Number(id.slice(id.lastIndexOf(".") + 1));
  let text = `${id}|`;
  while (text.length < size) text += `${text.length}.`;
  return text;
}

export function encode(contentType: ContentType, ids: readonly string[]): Uint8Array {
  const texts = ids.map(textOf);
  return Buffer.from(contentType === "application/json" ? JSON.stringify(texts) : texts.join(""));
}

export interface Found {
  readonly id: string;
  /** Its place in the inbox. */
  readonly offset: Position;
  /** The source that the envelope names. */
  readonly source?: { readonly stream: string; readonly offset: Position } | undefined;
  /** Undefined when the content is as published. */
  readonly damage?: string | undefined;
}

interface Envelope {
  readonly offset: string;
  readonly payload: unknown;
  readonly encoding?: string;
}

interface CopyEnvelope extends Envelope {
  readonly stream: string;
  readonly contentType: string;
}

/** The messages of an inbox that was read with `format=envelope`. */
export function decode(text: string): Found[] {
  return (JSON.parse(text) as Envelope[]).map((outer) => {
    const offset = parseOffset(outer.offset)!;
    const { payload } = outer;
    if (typeof payload !== "object" || payload === null) return { offset, ...contentOf(outer) };
    const copy = payload as CopyEnvelope;
    return { offset, source: { stream: copy.stream, offset: parseOffset(copy.offset)! }, ...contentOf(copy) };
  });
}

function contentOf({ payload, encoding }: Envelope): { id: string; damage?: string } {
  const text = encoding === "base64" ? Buffer.from(String(payload), "base64").toString() : String(payload);
  const end = text.indexOf("|");
  const id = text.slice(0, end);
  return end > 0 && text === textOf(id) ? { id } : { id, damage: text.slice(0, 80) };
}
