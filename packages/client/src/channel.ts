/** A channel as the user holds it: one answer that somebody publishes, bit by bit, and others read while it comes. */
import { type ChannelItem, ChannelReader, type ChannelReadOptions } from "./channel-reader.ts";
import type { Connection } from "./connection.ts";
import { SluiceError } from "./error.ts";
import type { PageExit } from "./page-exit.ts";
import { ChannelPublisher, type PublisherOptions } from "./publisher.ts";

export class Channel {
  constructor(
    readonly id: string,
    private readonly address: string,
    private readonly connection: Connection,
    private readonly exit: PageExit,
  ) {}

  /** Begins to publish. There is one publisher for a channel. */
  publisher(options: PublisherOptions = {}): ChannelPublisher {
    return new ChannelPublisher(this.connection, this.exit, `${this.address}/publish`, options);
  }

  /** What is kept and what comes, until the publisher ends it. */
  read(options: ChannelReadOptions = {}): AsyncGenerator<ChannelItem, void, undefined> {
    return new ChannelReader(this.connection, `${this.address}/events`, options).items();
  }

  /** The whole text. Rejects when part of it is gone or the publisher failed; `partial` of the error is what there is. */
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
}
