/**
 * Publishes to one topic over HTTP, because a frame of a WebSocket takes 64 KiB and a message may have more. A port has one per topic
 * that is being published to.
 *
 * Invariants: one request is under way, so messages are stored in the order of the calls. Calls that come meanwhile share the next
 * request. A refused request that several calls share is sent again call by call. A request is repeated only if the server has said
 * that it stored nothing.
 */
import { header } from "@sluice/protocol";
import type { NewMessage } from "@sluice/protocol/pull";
import { Backoff } from "../backoff.ts";
import type { Connection } from "../connection.ts";
import { hasCode, SluiceError } from "../error.ts";
import { levelsOf } from "../path.ts";

const MAX_MESSAGES = 1_000;
/** Payload bytes of one request, unless a single call has more. */
const MAX_BYTES = 1_024 * 1_024;

interface Publish {
  readonly messages: readonly NewMessage[];
  resolve(ids: string[]): void;
  reject(error: unknown): void;
}

export class TopicPublisher {
  private readonly path: string;
  private waiting: Publish[] = [];
  private sending: Promise<void> | undefined;

  constructor(
    private readonly connection: Connection,
    topic: string,
    /** Called when nothing waits any more. */
    private readonly done: () => void,
  ) {
    this.path = `topics/${levelsOf(topic, "the name of a topic")}`;
  }

  publish(messages: readonly NewMessage[]): Promise<string[]> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ messages, resolve, reject });
      this.sending ??= this.send();
    });
  }

  /** Resolves when every call is answered. */
  idle(): Promise<void> {
    return this.sending ?? Promise.resolve();
  }

  private async send(): Promise<void> {
    // Calls of the same turn share the first request.
    await new Promise<void>((resolve) => void setImmediate(resolve));
    while (this.waiting.length > 0) await this.sendTogether(this.nextBatch());
    this.done();
  }

  private nextBatch(): Publish[] {
    let count = 0;
    let bytes = 0;
    const end = this.waiting.findIndex(({ messages }) => {
      count += messages.length;
      for (const { data } of messages) bytes += data.length;
      return count > MAX_MESSAGES || bytes > MAX_BYTES;
    });
    return this.waiting.splice(0, end < 0 ? this.waiting.length : Math.max(1, end));
  }

  private async sendTogether(batch: readonly Publish[]): Promise<void> {
    try {
      const ids = await this.post(batch.flatMap(({ messages }) => messages));
      let at = 0;
      for (const { messages, resolve } of batch) {
        resolve(ids.slice(at, at + messages.length));
        at += messages.length;
      }
    } catch (error) {
      const isRefused = error instanceof SluiceError && error.status !== undefined && !error.retryable;
      if (isRefused && batch.length > 1) for (const one of batch) await this.sendTogether([one]);
      else for (const { reject } of batch) reject(error);
    }
  }

  private async post(messages: readonly NewMessage[]): Promise<string[]> {
    const backoff = new Backoff(this.connection.retries);
    const call = {
      method: "POST",
      path: this.path,
      headers: { [header.contentType]: "application/json" },
      body: JSON.stringify({ messages: messages.map(encoded) }),
    };
    for (;;) {
      try {
        const { text } = await this.connection.once(call);
        return JSON.parse(text).messageIds;
      } catch (error) {
        if (!hasCode(error, "overloaded", "memory-full", "project-limit", "draining")) throw error;
        await backoff.wait(error);
      }
    }
  }
}

function encoded({ data, ...rest }: NewMessage): object {
  return { ...rest, data: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64") };
}
