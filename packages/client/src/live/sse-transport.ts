/**
 * A live connection over server-sent events, read with `fetch`, because an EventSource can send no token. For Node without a
 * WebSocket, and for networks that let none through.
 *
 * Invariants: it has no time limit of its own; the link ends a connection that is silent.
 */
import type { Connection } from "../connection.ts";
import { SluiceError } from "../error.ts";
import { MAX_EVENT_CHARS } from "../events.ts";
import { SseParser } from "../sse-parser.ts";
import { eventIn, isAnswer } from "./events.ts";
import type { Credentials, Line, LineListener, Transport } from "./transport.ts";

export class SseTransport implements Transport {
  readonly kind = "sse";

  constructor(private readonly connection: Pick<Connection, "open">) {}

  open({ sessionId }: Credentials, listener: LineListener): Line {
    const leave = new AbortController();
    this.read(sessionId, leave.signal, listener).then(
      () => {
        if (leave.signal.aborted) return;
        listener.end(new SluiceError("unreachable", "the server ended the connection", { retryable: true }));
      },
      (error: SluiceError) => {
        if (!leave.signal.aborted) listener.end(error);
      },
    );
    return { close: () => leave.abort() };
  }

  private async read(sessionId: string, signal: AbortSignal, listener: LineListener): Promise<void> {
    const headers = { Accept: "text/event-stream" };
    const exchange = await this.connection.open({ method: "GET", path: `live/${sessionId}`, headers, signal });
    try {
      exchange.allow(Number.POSITIVE_INFINITY);
      const parser = new SseParser(MAX_EVENT_CHARS);
      const decoder = new TextDecoder();
      for await (const piece of exchange.pieces()) {
        const text = decoder.decode(piece, { stream: true });
        const events = exchange.understood("the client does not understand the events", () =>
          parser.push(text).map(({ data }) => ({ event: eventIn(data), chars: data.length })),
        );
        if (signal.aborted) return;
        listener.heard();
        for (const { event, chars } of events) {
          if (signal.aborted) return;
          if (event !== undefined && !isAnswer(event)) listener.event(event, chars);
        }
      }
    } finally {
      exchange.close();
    }
  }
}
