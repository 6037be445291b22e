/**
 * The configuration of a stream: the limits and options of its creation, as headers, and its state as the server reports it.
 * Used by the stream handle.
 *
 * Invariants: an answer that names neither an offset nor shards is not that of a stream.
 */
import { header } from "@sluice/protocol";
import type { Answer, CallOptions } from "./connection.ts";
import { badAnswer } from "./error.ts";

/** How long a stream lives and how much it keeps; by default everything, forever. */
export interface StreamLimits {
  /** The stream expires when it was not used for this long. */
  readonly ttlSeconds?: number | undefined;
  readonly expiresAt?: Date | undefined;
  readonly maxMessages?: number | undefined;
  readonly maxBytes?: number | undefined;
  readonly maxAgeSeconds?: number | undefined;
}

export interface CreateOptions<Input = unknown> extends StreamLimits, CallOptions {
  /** The first messages; a single one unless the stream is of JSON. Ignored when the stream exists already. */
  readonly messages?: readonly Input[] | undefined;
  /** Starts as a fork of another stream, up to an offset. */
  readonly forkOf?: { readonly path: string; readonly offset?: string | undefined } | undefined;
  /** Creates a topic of this many shards behind one path. */
  readonly shards?: number | undefined;
  /** Creates the stream closed: it holds only its first messages. */
  readonly closed?: boolean | undefined;
}

export interface StreamInfo extends StreamLimits {
  readonly contentType: string;
  /** The end of the stream: the next message lies after it. */
  readonly offset: string;
  readonly closed: boolean;
  readonly shards?: number | undefined;
}

export interface Created extends StreamInfo {
  /**
   * Whether this call created the stream. Undefined when it exists and the answer to an earlier try was lost: then this call or
   * another client created it.
   */
  readonly created: boolean | undefined;
}

/** The headers of a creation, without those of a fork's source. */
export function headersOf(options: CreateOptions): Record<string, string | undefined> {
  const { ttlSeconds, expiresAt, maxMessages, maxBytes, maxAgeSeconds, forkOf, shards, closed } = options;
  return {
    [header.streamTtl]: numeral(ttlSeconds),
    [header.streamExpiresAt]: expiresAt?.toISOString(),
    [header.streamMaxMessages]: numeral(maxMessages),
    [header.streamMaxBytes]: numeral(maxBytes),
    [header.streamMaxAgeSeconds]: numeral(maxAgeSeconds),
    [header.streamForkOffset]: forkOf?.offset,
    [header.streamShards]: numeral(shards),
    [header.streamClosed]: closed ? "true" : undefined,
  };
}

export function infoOf({ at, status, headers }: Answer): StreamInfo {
  const text = (name: string) => headers.get(name) ?? undefined;
  const number = (name: string) => (headers.has(name) ? Number(headers.get(name)) : undefined);
  if (!headers.has(header.streamNextOffset) && !headers.has(header.streamShards)) {
    throw badAnswer(at, status, "the answer is not one of a stream");
  }
  const expiresAt = text(header.streamExpiresAt);
  return {
    contentType: text(header.contentType) ?? "",
    offset: text(header.streamNextOffset) ?? "",
    closed: text(header.streamClosed)?.toLowerCase() === "true",
    ttlSeconds: number(header.streamTtl),
    expiresAt: expiresAt === undefined ? undefined : new Date(expiresAt),
    maxMessages: number(header.streamMaxMessages),
    maxBytes: number(header.streamMaxBytes),
    maxAgeSeconds: number(header.streamMaxAgeSeconds),
    shards: number(header.streamShards),
  };
}

function numeral(value: number | undefined): string | undefined {
  return value === undefined ? undefined : String(value);
}
