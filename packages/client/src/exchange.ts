/**
 * One HTTP exchange in flight: its time limit, its abort, its answer, its failure in words. The connection opens it; the caller
 * that reads the body closes it.
 *
 * Invariants: a caller's abort rejects with the caller's own reason. Any other failure is a SluiceError that names the request.
 */
import { onAbort } from "./abort.ts";
import { MAX_DELAY_MS } from "./backoff.ts";
import { badAnswer, describeCause, type RequestLine, SluiceError } from "./error.ts";

/** An exchange in flight: its time limit, its abort, its answer. */
export class Exchange {
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isLate = false;
  private isRead = false;
  private readonly stopListening: () => void;
  private answered: Response | undefined;

  constructor(
    readonly at: RequestLine,
    private readonly outer: AbortSignal | undefined,
    private timeoutMs: number,
  ) {
    const abort = () => this.controller.abort(outer?.reason);
    this.stopListening = onAbort(outer, abort);
    if (outer?.aborted) abort();
    this.touch();
  }

  /** Only after `begin`. */
  get response(): Response {
    return this.answered!;
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  begin(response: Response): void {
    this.answered = response;
    this.isRead = response.body === null;
    this.touch();
  }

  /** Sets the time limit of the next piece and of every further piece. */
  allow(timeoutMs: number): void {
    this.timeoutMs = timeoutMs;
    this.touch();
  }

  /** Yields the pieces of the body. The time limit is suspended while the caller handles a piece. */
  async *pieces(): AsyncGenerator<Uint8Array, void, undefined> {
    const reader = this.response.body?.getReader();
    if (reader === undefined) return;
    try {
      for (;;) {
        this.touch();
        const { done, value } = await reader.read();
        clearTimeout(this.timer);
        this.isRead = done;
        if (done) return;
        yield value;
      }
    } catch (error) {
      throw this.explain(error);
    }
  }

  async bytes(): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    let length = 0;
    for await (const piece of this.pieces()) {
      pieces.push(piece);
      length += piece.length;
    }
    const bytes = new Uint8Array(length);
    let at = 0;
    for (const piece of pieces) {
      bytes.set(piece, at);
      at += piece.length;
    }
    return bytes;
  }

  async text(maxChars = Number.POSITIVE_INFINITY): Promise<string> {
    const decoder = new TextDecoder();
    let text = "";
    for await (const piece of this.pieces()) {
      text += decoder.decode(piece, { stream: true });
      if (text.length > maxChars) return text.slice(0, maxChars);
    }
    return text + decoder.decode();
  }

  /** Turns a failure into the caller's error: its own abort reason unchanged, any other failure as a SluiceError. */
  explain(error: unknown): unknown {
    if (this.outer?.aborted) return this.outer.reason;
    if (error instanceof SluiceError) return error;
    const { at, answered } = this;
    if (this.isLate) return new SluiceError("timeout", "the server did not answer in time", { ...at, retryable: true });
    const says = `the server cannot be reached: ${describeCause(error)}${answered ? "" : corsHint(at.url)}`;
    return new SluiceError("unreachable", says, { ...at, cause: error, retryable: true });
  }

  /** What `decode` returns. Whatever goes wrong while an answer is decoded is the answer's fault. */
  understood<T>(says: string, decode: () => T): T {
    try {
      return decode();
    } catch (cause) {
      throw badAnswer(this.at, this.response.status, `${says}: ${describeCause(cause)}`, { cause });
    }
  }

  /** The error for an answer that the client cannot use. */
  misunderstood(says: string): SluiceError {
    return badAnswer(this.at, this.response.status, says);
  }

  close(): void {
    clearTimeout(this.timer);
    this.stopListening();
    // Gives back the connection of a body that no caller will read.
    if (!this.isRead) this.controller.abort();
  }

  private touch(): void {
    clearTimeout(this.timer);
    if (!Number.isFinite(this.timeoutMs)) return;
    const late = () => {
      this.isLate = true;
      this.controller.abort();
    };
    this.timer = setTimeout(late, Math.min(this.timeoutMs, MAX_DELAY_MS));
  }
}

/**
 * A browser hides from the page why it has blocked a request. Without an answer, and to another origin, the server's CORS
 * settings are a likely cause.
 */
function corsHint(url: string): string {
  const page = (globalThis as { readonly location?: { readonly origin?: string } }).location?.origin;
  if (!page || page === new URL(url).origin) return "";
  return `; if it runs, a likely cause is CORS: add ${page} to its setting cors.origins`;
}
