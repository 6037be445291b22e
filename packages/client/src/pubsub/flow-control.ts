/**
 * Counts the messages in flight of one subscriber, and their bytes. A message stream has one; all of its streams share it.
 *
 * Invariants: a message counts from `add` to `remove`. A message that reaches a limit is taken; the next one is not.
 */
import { CODE, PubSubError } from "./errors.ts";
import { DEFAULT_MAX_BYTES, DEFAULT_MAX_MESSAGES, type FlowControlOptions } from "./options.ts";

export class FlowControl {
  private count = 0;
  private bytesInFlight = 0;

  constructor(private options: FlowControlOptions = {}) {}

  get messages(): number {
    return this.count;
  }

  get bytes(): number {
    return this.bytesInFlight;
  }

  setOptions(options: FlowControlOptions): void {
    this.options = options;
  }

  isFull(): boolean {
    const { maxMessages = DEFAULT_MAX_MESSAGES, maxBytes = DEFAULT_MAX_BYTES } = this.options;
    return this.count >= maxMessages || this.bytesInFlight >= maxBytes;
  }

  /** Throws code 8 if a limit is reached and excess is not allowed. */
  add(bytes: number): void {
    if (this.isFull() && !this.options.allowExcessMessages) {
      const { maxMessages = DEFAULT_MAX_MESSAGES } = this.options;
      const what = this.count >= maxMessages ? "max messages" : "max bytes";
      throw new PubSubError(CODE.resourceExhausted, `Flow control: ${what} exceeded`);
    }
    this.count++;
    this.bytesInFlight += bytes;
  }

  remove(bytes: number): void {
    this.count = Math.max(0, this.count - 1);
    this.bytesInFlight = Math.max(0, this.bytesInFlight - bytes);
  }

  clear(): void {
    this.count = 0;
    this.bytesInFlight = 0;
  }
}
