/**
 * Publishes to one topic. A queue has one per topic that is being published to.
 *
 * Invariants: one call of the port is under way, so messages are stored in the order of the calls. Publishes that come meanwhile
 * share the next call. A refused call that several publishes share is repeated publish by publish.
 */
import type { NewMessage } from "@sluice/protocol/pull";
import type { PubSubError } from "./errors.ts";

const MAX_MESSAGES = 1_000;
/** Payload bytes of one call, unless a single publish has more. */
const MAX_BYTES = 1_024 * 1_024;

interface Publish {
  readonly messages: readonly NewMessage[];
  resolve(ids: string[]): void;
  reject(error: unknown): void;
}

export interface PublisherParts {
  /** Rejects with a PubSubError. */
  send(messages: readonly NewMessage[]): Promise<string[]>;
  /** Nothing waits any more. */
  done(): void;
  soon(task: () => void): void;
}

export class TopicPublisher {
  private waiting: Publish[] = [];
  private sending: Promise<void> | undefined;

  constructor(private readonly parts: PublisherParts) {}

  publish(messages: readonly NewMessage[]): Promise<string[]> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ messages, resolve, reject });
      this.sending ??= this.send();
    });
  }

  /** Resolves when every publish is answered. */
  idle(): Promise<void> {
    return this.sending ?? Promise.resolve();
  }

  private async send(): Promise<void> {
    // Publishes of the same turn share the first call.
    await new Promise<void>((resolve) => this.parts.soon(resolve));
    while (this.waiting.length > 0) await this.sendTogether(this.nextBatch());
    this.sending = undefined;
    this.parts.done();
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
      const ids = await this.parts.send(batch.flatMap(({ messages }) => messages));
      let at = 0;
      for (const { messages, resolve } of batch) {
        resolve(ids.slice(at, at + messages.length));
        at += messages.length;
      }
    } catch (error) {
      // A refusal says that nothing was stored. Of any other error the outcome is unknown.
      if ((error as PubSubError).isFatal && batch.length > 1) for (const one of batch) await this.sendTogether([one]);
      else for (const { reject } of batch) reject(error);
    }
  }
}
