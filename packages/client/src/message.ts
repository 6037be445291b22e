/**
 * Messages from the bytes of an answer: envelopes from Sluice, plain payloads from any other server of the protocol. Called by
 * the stream reader. Pure; throws on what it does not understand.
 *
 * Invariants: what is taken for envelopes has every field of one and offsets inside the answer's range. A plain message carries
 * the position before its batch, unless it is the last, so that reading on from it repeats messages and never skips one.
 */
import { isJson } from "./batch.ts";

export interface StreamMessage<T> {
  readonly type: "message";
  /**
   * The position after this message: read on `from` here. A server without envelopes tells it of the last message of an answer
   * only; the others carry the position before the answer, and reading on from there repeats them.
   */
  readonly offset: string;
  readonly value: T;
  /** When it was appended, in epoch milliseconds; undefined from a server that does not tell. */
  readonly publishedAt: number | undefined;
  readonly id?: string;
  readonly key?: string;
  readonly attributes?: Readonly<Record<string, string>>;
}

/** The positions before and after an answer. */
export interface Span {
  readonly before: string;
  readonly next: string;
}

/** An element of the array that `format=envelope` returns. */
interface Envelope {
  readonly offset: string;
  readonly contentType: string;
  readonly payload: unknown;
  readonly encoding?: "base64";
  readonly publishedAt: number;
  readonly id?: string;
  readonly key?: string;
  readonly attributes?: Readonly<Record<string, string>>;
}

type Messages = StreamMessage<unknown>[];

/** A byte order mark belongs to the payload. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export function messagesOfBytes(bytes: Uint8Array, contentType: string, span: Span): Messages {
  if (bytes.length === 0) return [];
  if (isJson(contentType)) {
    const values = arrayIn(decoder.decode(bytes));
    return areEnvelopes(values, span) ? values.map(messageOf) : plain(values, span);
  }
  return plain([/^text\//i.test(contentType) ? decoder.decode(bytes) : bytes], span);
}

/** The envelopes in a text, or undefined when it holds something else. */
export function envelopesIn(text: string, span: Span): Messages | undefined {
  let values: unknown[];
  try {
    values = arrayIn(text);
  } catch {
    return undefined;
  }
  return areEnvelopes(values, span) ? values.map(messageOf) : undefined;
}

export function arrayIn(json: string): unknown[] {
  const values: unknown = JSON.parse(json);
  if (Array.isArray(values)) return values;
  throw new TypeError("not an array");
}

export function plain(values: readonly unknown[], { before, next }: Span): Messages {
  return values.map((value, i) => {
    const offset = i === values.length - 1 ? next : before;
    return { type: "message", offset, value, publishedAt: undefined };
  });
}

export function bytesOf(base64: string): Uint8Array {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function areEnvelopes(values: readonly unknown[], { next }: Span): values is Envelope[] {
  let last = "";
  return values.every((value) => {
    if (typeof value !== "object" || value === null || !("payload" in value)) return false;
    const { offset, contentType, publishedAt } = value as Partial<Envelope>;
    if (typeof offset !== "string" || typeof contentType !== "string" || typeof publishedAt !== "number") return false;
    const isInside = last < offset && offset <= next;
    last = offset;
    return isInside;
  });
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
