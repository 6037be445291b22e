/**
 * The events of one SSE connection, from its opening to its end. The readers of streams and channels loop over them and
 * reconnect from their position.
 *
 * Invariants: only the current piece is read ahead of the consumer, so a slow consumer causes back-pressure. A connection
 * that is silent for longer than a live server ever is, is abandoned.
 */
import type { Call, Connection } from "./connection.ts";
import type { Exchange } from "./exchange.ts";
import { type SseEvent, SseParser } from "./sse-parser.ts";

/** The largest event: a page of a stream is one event, and 8 MiB of text fits with every character escaped. */
export const MAX_EVENT_CHARS = 64 * 1024 * 1024;

/** Sluice ends a connection after 60 s and the client reconnects; longer silence means that the server is gone. */
export const SILENCE_MS = 90_000;

export async function* eventsOf(
  connection: Connection,
  call: Call,
  silenceMs: number,
  onOpen: (exchange: Exchange) => void,
  /** The stream holds nothing more, and nothing will be added. */
  onNothing?: () => void,
): AsyncGenerator<SseEvent, void, undefined> {
  const headers = { Accept: "text/event-stream", ...call.headers };
  const exchange = await connection.open({ ...call, headers });
  try {
    if (exchange.response.status === 204) {
      onNothing?.();
      return;
    }
    const type = exchange.response.headers.get("content-type") ?? "";
    if (!type.startsWith("text/event-stream")) {
      throw exchange.misunderstood(`events were asked for and ${type || "something without a type"} came`);
    }
    onOpen(exchange);
    exchange.allow(silenceMs);
    const parser = new SseParser(MAX_EVENT_CHARS);
    const decoder = new TextDecoder();
    for await (const piece of exchange.pieces()) {
      const text = decoder.decode(piece, { stream: true });
      yield* exchange.understood("the client does not understand the events", () => parser.push(text));
    }
  } finally {
    exchange.close();
  }
}
