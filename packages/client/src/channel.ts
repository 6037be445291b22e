/**
 * The handle of a channel: one answer, published piece by piece and read while it is written. Made by the client.
 *
 * Invariants: a message is identified by its sequence, so publishing it again appends nothing.
 */
import { header } from "@sluice/protocol";
import { type ChannelEvent, type ChannelItem, ChannelReader, type ChannelReadOptions } from "./channel-reader.ts";
import type { CallOptions, Connection } from "./connection.ts";
import { Encoded } from "./encoded.ts";
import { hasCode, SluiceError } from "./error.ts";
import type { Phase } from "./outbox.ts";
import type { PageExit } from "./page-exit.ts";
import { ChannelPublisher, type PublisherOptions } from "./publisher.ts";

/** One message as its publisher numbers it. */
export interface ChannelMessage {
  readonly phase: Phase;
  /** One more than the message before it; any number at START. */
  readonly sequence: number;
  readonly payload?: unknown;
  /** An id by which the channel recognizes the message, beside its sequence. */
  readonly messageId?: string | undefined;
}

export interface StopOptions extends CallOptions {
  /** For the publisher and for readers; at most 1 KiB. */
  readonly reason?: string | undefined;
}

export interface ChannelPublished {
  /** The position after the message. */
  readonly offset: string;
  readonly sequence: number;
  /** The first of the sequences that the publisher left out before the message. */
  readonly gap?: { readonly expected: number } | undefined;
  /** The publisher is asked to stop. */
  readonly stop?: { readonly reason?: string | undefined } | undefined;
}

export class Channel {
  constructor(
    readonly id: string,
    private readonly address: string,
    private readonly connection: Connection,
    private readonly exit: PageExit,
  ) {}

  /** Starts to publish. A channel has one publisher. */
  publisher(options: PublisherOptions = {}): ChannelPublisher {
    return new ChannelPublisher(this.connection, this.exit, this.address, options);
  }

  /**
   * Asks the publisher to stop, from any tab or process. Resolves when the request is durable; with false if the channel had ended
   * already. The publisher's `signal` aborts, and it ends the channel.
   */
  async stop({ reason, ...options }: StopOptions = {}): Promise<boolean> {
    const headers = { [header.contentType]: "application/json" };
    const call = {
      ...options,
      method: "POST",
      path: `${this.address}/stop`,
      headers,
      body: JSON.stringify({ reason }),
    };
    try {
      await this.connection.call(call);
      return true;
    } catch (error) {
      if (hasCode(error, "channel-ended")) return false;
      throw error;
    }
  }

  /** Publishes one message under the caller's own sequence, for a program that keeps count itself. */
  publish(message: ChannelMessage, options: CallOptions = {}): Promise<ChannelPublished> {
    const { payload, ...rest } = message;
    const json = payload instanceof Encoded ? payload.text : JSON.stringify(payload ?? null);
    const call = {
      ...options,
      method: "POST",
      path: `${this.address}/publish`,
      headers: { [header.contentType]: "application/json" },
      body: `${JSON.stringify(rest).slice(0, -1)},"payload":${json}}`,
    };
    return this.connection.json<ChannelPublished>(call, "offset", (offset) => typeof offset === "string");
  }

  /** Yields the kept messages, then new ones, until the publisher ends the channel. */
  read(options: ChannelReadOptions = {}): AsyncGenerator<ChannelItem, void, undefined> {
    return this.reader(options).items();
  }

  /** Like `read`, but yields each event as the server sends it, with its text. */
  events(options: ChannelReadOptions = {}): AsyncGenerator<ChannelEvent, void, undefined> {
    return this.reader(options).events();
  }

  /**
   * Resolves with the whole text. Rejects when part of it is trimmed or the publisher failed; the error's `partial` holds
   * the received text.
   */
  async text(options: Omit<ChannelReadOptions, "from"> = {}): Promise<string> {
    let text = "";
    for await (const item of this.read(options)) {
      if (item.type === "delta" && typeof item.payload === "string") text += item.payload;
      else if (item.type === "end") return text;
      else if (item.type === "gap") {
        throw new SluiceError("incomplete", "part of the text is gone", { partial: text });
      } else if (item.type === "error") {
        const says = typeof item.payload === "string" ? item.payload : JSON.stringify(item.payload);
        throw new SluiceError("publisher-failed", says ?? "the publisher failed", { partial: text });
      }
    }
    throw options.signal?.reason;
  }

  private reader(options: ChannelReadOptions): ChannelReader {
    return new ChannelReader(this.connection, `${this.address}/events`, options);
  }
}
