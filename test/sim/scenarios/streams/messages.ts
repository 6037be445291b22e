/**
 * Messages that can be told apart, and their encoding in a body of every content type and format. The clients of streams use
 * it.
 *
 * Invariants: each message carries an id that is used once in a run, padded to some length.
 */
import { type Position, parseOffset } from "@sluice/protocol";

export interface Item {
  readonly id: string;
  readonly padding: number;
}

/** What a message adds to a stream: its text and two characters around it. */
export function bytesOf({ id, padding }: Item): number {
  return id.length + padding + 2;
}

export function encode(contentType: string, items: readonly Item[]): Uint8Array {
  const texts = items.map(({ id, padding }) => id + "~".repeat(padding));
  if (contentType !== "application/json") return Buffer.from(texts.map((text) => `<${text}>`).join(""));
  return Buffer.from(JSON.stringify(texts.length === 1 ? texts[0] : texts));
}

/** Only JSON can carry several messages at once. */
export function takesBatches(contentType: string): boolean {
  return contentType === "application/json";
}

export interface Decoded {
  readonly ids: string[];
  readonly offsets?: Position[] | undefined;
}

export function decode(contentType: string, format: "raw" | "envelope", text: string): Decoded {
  if (text === "") return { ids: [] };
  if (format === "envelope") return decodeEnvelopes(contentType, text);
  if (contentType === "application/json") return { ids: (JSON.parse(text) as string[]).map(unpad) };
  return { ids: framed(text) };
}

function decodeEnvelopes(contentType: string, text: string): Decoded {
  const envelopes = JSON.parse(text) as { offset: string; payload: string; encoding?: string }[];
  const ids = envelopes.flatMap(({ payload, encoding }) => {
    const plain = encoding === "base64" ? Buffer.from(payload, "base64").toString() : payload;
    return contentType === "application/json" ? [unpad(plain)] : framed(plain);
  });
  return { ids, offsets: envelopes.map(({ offset }) => parseOffset(offset)!) };
}

function framed(text: string): string[] {
  const ids = text.match(/<[^<>]*>/g) ?? [];
  // Bytes that belong to no message would be torn ones.
  if (ids.join("") !== text) throw new Error(`a torn message: ${text}`);
  return ids.map((id) => unpad(id.slice(1, -1)));
}

function unpad(text: string): string {
  const end = text.indexOf("~");
  return end < 0 ? text : text.slice(0, end);
}
