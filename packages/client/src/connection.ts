/**
 * One HTTP exchange with the server: address, token, time limits, refusals as errors. Every other file of this package sends
 * through it and decides itself whether to retry.
 *
 * Invariants: every opened exchange is closed, also after the caller has aborted. The client asks for a token once and uses
 * it until the server refuses it. No rejected promise is left unhandled.
 */
import { Backoff, type RetryPolicy } from "./backoff.ts";
import { describeCause, refusalOf, SluiceError } from "./error.ts";
import { Token, type TokenSource } from "./token.ts";

export interface ConnectionOptions {
  readonly url: string;
  readonly project: string;
  readonly token: TokenSource | undefined;
  readonly fetch: typeof fetch;
  /** Time limit for the headers of an answer, and for each further piece of its body. */
  readonly timeoutMs: number;
  readonly retries: RetryPolicy;
}

export interface Call {
  readonly method: string;
  /** After `/v1/{project}/`, encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>> | undefined;
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined;
  readonly body?: string | Uint8Array | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** How many characters of a refusal are read. */
const MAX_PROBLEM_CHARS = 65_536;

export class Connection {
  private readonly token: Token;

  constructor(private readonly options: ConnectionOptions) {
    this.token = new Token(options.token);
  }

  get retries(): RetryPolicy {
    return this.options.retries;
  }

  /** Returns the whole answer; retries until it arrives, is final, or the policy gives up. Only for idempotent calls. */
  async call(call: Call): Promise<Answer> {
    const backoff = new Backoff(this.options.retries, call.signal);
    for (;;) {
      try {
        const answer = await this.once(call);
        backoff.progress();
        return answer;
      } catch (error) {
        await backoff.wait(error);
      }
    }
  }

  /** Tries once. */
  async once(call: Call): Promise<Answer> {
    const exchange = await this.open(call);
    try {
      const { status, headers } = exchange.response;
      return { status, headers, text: status === 204 ? "" : await exchange.text() };
    } finally {
      exchange.close();
    }
  }

  /** Tries once; the caller reads the body and must close the exchange. A refused token is renewed once. */
  async open(call: Call, timeoutMs = this.options.timeoutMs): Promise<Exchange> {
    call.signal?.throwIfAborted();
    const atHand = this.token.get(call.signal);
    const token = atHand instanceof Promise ? await atHand : atHand;
    try {
      return await this.exchange(call, token, timeoutMs);
    } catch (error) {
      const isRefused = error instanceof SluiceError && error.status === 401;
      if (!isRefused || !this.token.refuse(token)) throw error;
    }
    return this.exchange(call, await this.token.get(call.signal), timeoutMs);
  }

  /** Sends without waiting for the answer, for a page that is going away. */
  sendLast({ method, path, headers, body }: Call): void {
    const init = { method, headers: this.headers(headers, this.token.known), body: bodyOf(body), keepalive: true };
    try {
      // `catch` and not `await`: no caller is left to tell, and the same request is repeated if the page lives on.
      this.options.fetch(this.address(path), init).then(
        (response) => void response.body?.cancel().catch(() => {}),
        () => {},
      );
    } catch {
      // As above.
    }
  }

  private async exchange(call: Call, token: string | undefined, timeoutMs: number): Promise<Exchange> {
    const exchange = new Exchange(call.signal, timeoutMs);
    try {
      const response = await this.options.fetch(this.address(call.path, call.query), {
        method: call.method,
        headers: this.headers(call.headers, token),
        body: bodyOf(call.body),
        signal: exchange.signal,
        cache: "no-store",
      });
      exchange.begin(response);
      if (response.ok) return exchange;
      const text = await exchange.text(MAX_PROBLEM_CHARS);
      throw refusalOf(response.status, response.headers, text, Date.now());
    } catch (error) {
      exchange.close();
      throw exchange.explain(error);
    }
  }

  private address(path: string, query: Call["query"] = {}): string {
    const parameters = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const search = parameters.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
    return `${this.options.url}/v1/${this.options.project}/${path}${search === "" ? "" : `?${search}`}`;
  }

  private headers(more: Call["headers"] = {}, token: string | undefined): Record<string, string> {
    const headers: Record<string, string> = {};
    for (const name in more) {
      const value = more[name];
      if (value !== undefined) headers[name] = value;
    }
    if (token !== undefined) headers.Authorization = `Bearer ${token}`;
    return headers;
  }
}

/** An exchange in flight: its time limit, its abort, its answer. */
export class Exchange {
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isLate = false;
  private isRead = false;
  private readonly onAbort = () => this.controller.abort(this.outer?.reason);
  response!: Response;

  constructor(
    private readonly outer: AbortSignal | undefined,
    private timeoutMs: number,
  ) {
    outer?.addEventListener("abort", this.onAbort, { once: true });
    if (outer?.aborted) this.onAbort();
    this.touch();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  begin(response: Response): void {
    this.response = response;
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
    if (this.isLate) return new SluiceError("timeout", "the server did not answer in time", { retryable: true });
    return new SluiceError("unreachable", `the server cannot be reached: ${describeCause(error)}`, {
      cause: error,
      retryable: true,
    });
  }

  close(): void {
    clearTimeout(this.timer);
    this.outer?.removeEventListener("abort", this.onAbort);
    // Gives back the connection of a body that no caller will read.
    if (!this.isRead) this.controller.abort();
  }

  private touch(): void {
    clearTimeout(this.timer);
    if (!Number.isFinite(this.timeoutMs)) return;
    this.timer = setTimeout(() => {
      this.isLate = true;
      this.controller.abort();
    }, this.timeoutMs);
  }
}

/** The fetch of Node and of browsers agree on the value; their types differ. */
function bodyOf(body: string | Uint8Array | undefined): string | Uint8Array<ArrayBuffer> | undefined {
  return body as string | Uint8Array<ArrayBuffer> | undefined;
}
