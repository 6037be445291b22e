/**
 * A model whose answer advances only as far as a test lets it, so that "in the middle" is a place and not a moment. The
 * tests of ai-tokens use it.
 *
 * Invariants: all answers come from the same tap.
 */
import { EventEmitter, once } from "node:events";
import { type Model, tokensOf } from "../../examples/ai-tokens/answer.ts";

export class Tap {
  private readonly tokens: readonly string[];
  private readonly events = new EventEmitter();
  private allowed = 0;
  /** How many answers were read to their end. */
  emptied = 0;

  constructor(readonly text: string) {
    this.tokens = tokensOf(text);
  }

  /** Lets this share of the text through, and returns it. */
  openTo(share: number): string {
    this.allowed = Math.round(this.tokens.length * share);
    this.events.emit("moved");
    return this.tokens.slice(0, this.allowed).join("");
  }

  readonly model: Model = (signal) => this.flow(signal);

  private async *flow(signal: AbortSignal): AsyncGenerator<string> {
    for (const [i, token] of this.tokens.entries()) {
      while (i >= this.allowed) await once(this.events, "moved", { signal });
      yield token;
    }
    this.emptied++;
  }
}
