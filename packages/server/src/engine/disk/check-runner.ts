/**
 * What runs the steps of the background check: a thread in a server (`check-thread.ts`), the same thread in a test (here).
 * `background-check.ts` asks for one step at a time.
 */
import type { Files } from "./files.ts";
import { type Checked, type FoundDamage, StoreCheck } from "./verify/store-check.ts";

export interface CheckRunner {
  /** How long the first step waits: the first requests after a start come before the cost of beginning. */
  readonly startAfterMs: number;
  /** Rejects when the store cannot be read. */
  step(from: Uint8Array, maxBytes: number): Promise<Checked | FoundDamage>;
  close(): Promise<void>;
}

export class InlineCheck implements CheckRunner {
  readonly startAfterMs = 0;

  constructor(
    private readonly files: Files,
    private readonly path: string,
  ) {}

  async step(from: Uint8Array, maxBytes: number): Promise<Checked | FoundDamage> {
    const file = await this.files.open(this.path, "read");
    try {
      return await new StoreCheck(this.path, file).step(from, maxBytes);
    } finally {
      await file.close();
    }
  }

  async close(): Promise<void> {}
}
