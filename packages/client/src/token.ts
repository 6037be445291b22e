/**
 * The client's token: asked for once and used until the server refuses it. Owned by the connection.
 *
 * Invariants: all waiting requests share one call of the token function. A known token is returned without a promise, so
 * that a request starts at once. The refusal of a token that was replaced meanwhile causes no new call.
 */
import { describeCause, SluiceError } from "./error.ts";

export type TokenSource = string | (() => string | Promise<string>);

export class Token {
  private current: string | undefined;
  private isFresh = false;
  private asking: Promise<string> | undefined;

  constructor(private readonly source: TokenSource | undefined) {
    if (typeof source === "string") this.current = source;
  }

  /** The last token; a page that goes away has no time to ask for another. */
  get known(): string | undefined {
    return this.current;
  }

  get(signal: AbortSignal | undefined): string | undefined | Promise<string> {
    const { source } = this;
    if (typeof source !== "function" || this.isFresh) return this.current;
    this.asking ??= this.ask(source);
    return orAborted(this.asking, signal);
  }

  /** Whether another token can be had. */
  refuse(token: string | undefined): boolean {
    if (token === this.current) this.isFresh = false;
    return typeof this.source === "function";
  }

  private ask(source: () => string | Promise<string>): Promise<string> {
    const asking = (async () => source())().then(
      (token) => {
        this.current = token;
        this.isFresh = true;
        this.asking = undefined;
        return token;
      },
      (cause) => {
        this.asking = undefined;
        if (cause instanceof SluiceError) throw cause;
        const says = `the token function failed: ${describeCause(cause)}`;
        throw new SluiceError("token-failed", says, { cause, retryable: true });
      },
    );
    // Waiting callers get the error; when all of them have aborted, no caller needs it.
    asking.catch(() => {});
    return asking;
  }
}

function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal.reason);
    signal.addEventListener("abort", aborted, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", aborted));
  });
}
