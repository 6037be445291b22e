/**
 * Compares what the tab follows with what the server has stored: after every `hello`, and every few minutes. A subscription that
 * is missing there has ended, and is asked for again; one that only the server knows is an earlier page's, and is removed later.
 *
 * Invariants: a comparison that begins after a `hello` follows it. A stored stream that the page does not follow is left alone
 * until the next heartbeat, because the page may be about to subscribe to it.
 */
import { badAnswer, type SluiceError } from "../error.ts";
import { isFinal } from "./catch-up.ts";
import { Delays } from "./delays.ts";
import type { Followed } from "./followed.ts";
import { jsonIn } from "./identity.ts";
import type { SessionPort } from "./stored-subscription.ts";

export interface ComparisonParts {
  readonly port: SessionPort;
  readonly streams: ReadonlyMap<string, Followed>;
  /** Ends the stored subscription of a stream that the page does not follow. */
  leave(stream: string, epoch: number): void;
}

type Epochs = ReadonlyMap<string, number | undefined>;

export class Comparison {
  private readonly delays: Delays;
  private strays: Epochs = new Map();
  private wanted = 0;
  private done = 0;
  private isRunning = false;

  constructor(private readonly parts: ComparisonParts) {
    this.delays = new Delays(parts.port.world, parts.port.policy);
  }

  async run(): Promise<void> {
    this.wanted++;
    this.delays.restart();
    if (this.isRunning) return;
    this.isRunning = true;
    while (this.done < this.wanted && this.parts.port.isConnected()) await this.runOnce();
    this.isRunning = false;
  }

  stop(): void {
    this.delays.hurry();
  }

  removeStrays(): void {
    const { strays } = this;
    this.strays = new Map();
    for (const [stream, epoch] of strays) if (!this.parts.streams.has(stream)) this.parts.leave(stream, epoch!);
  }

  private async runOnce(): Promise<void> {
    const { parts, wanted } = this;
    const sessionId = parts.port.sessionId();
    if (sessionId === undefined) {
      this.done = wanted;
      return;
    }
    const known: Epochs = new Map([...parts.streams].map(([stream, { epoch }]) => [stream, epoch]));
    try {
      const stored = await this.stored(sessionId);
      this.done = wanted;
      this.delays.reset();
      if (parts.port.sessionId() !== sessionId) return;
      for (const [stream, epoch] of known) parts.streams.get(stream)?.subscription.compare(stored.get(stream), epoch);
      this.strays = new Map([...stored].filter(([stream]) => !parts.streams.has(stream)));
    } catch (error) {
      await this.failed(sessionId, error as SluiceError);
    }
  }

  private async stored(sessionId: string): Promise<Epochs> {
    const { at, status, text } = await this.parts.port.ask({ method: "GET", path: `session-offsets/${sessionId}` });
    const entries = jsonIn(text) as { readonly streamId: string; readonly epoch: number }[] | undefined;
    if (!Array.isArray(entries)) throw badAnswer(at, status, "the answer is not the offsets of a session");
    return new Map(entries.map(({ streamId, epoch }) => [streamId, epoch]));
  }

  private async failed(sessionId: string, error: SluiceError): Promise<void> {
    const isUnknown = error.code === "session-not-found";
    if (isUnknown) this.parts.port.sessionLost(sessionId);
    else if (!error.retryable) this.parts.port.report(error);
    if (isUnknown || isFinal(error)) this.done = this.wanted;
    else if (this.parts.port.isConnected()) await this.delays.wait(this.delays.next(error.retryAfterMs));
  }
}
