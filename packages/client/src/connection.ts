/**
 * Requests to the server: address, token, headers, retries of idempotent calls. Every other file of this package sends
 * through it; writers and readers decide themselves whether to retry.
 *
 * Invariants: every opened exchange is closed, also after the caller has aborted. No rejected promise is left unhandled. The
 * client's own headers win over the caller's.
 */
import { Backoff, type RetryPolicy } from "./backoff.ts";
import { badAnswer, type RequestLine, refusalOf, SluiceError } from "./error.ts";
import { Exchange } from "./exchange.ts";
import { Token, type TokenSource } from "./token.ts";

export interface ConnectionOptions {
  readonly url: string;
  readonly project: string;
  readonly token: TokenSource | undefined;
  readonly headers: HeaderSource | undefined;
  readonly query: Readonly<Record<string, string>> | undefined;
  readonly fetch: typeof fetch;
  /** Time limit for the headers of an answer, and for each further piece of its body. */
  readonly timeoutMs: number;
  readonly retries: RetryPolicy;
}

/** Headers for every request; a function is called for each. */
export type HeaderSource = Readonly<Record<string, string>> | (() => Readonly<Record<string, string>>);

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** How long this call may fail before it gives up; `retries.giveUpMs` by default. */
  readonly giveUpMs?: number | undefined;
}

export interface Call extends CallOptions {
  readonly method: string;
  /** After `/v1/{project}/`, encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>> | undefined;
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined;
  readonly body?: string | Uint8Array | undefined;
}

export interface Answer {
  readonly at: RequestLine;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** What a retried call knows about its earlier tries. */
export interface Tries {
  /** The server may have carried out an earlier try whose answer was lost. */
  isUncertain: boolean;
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
  async call(call: Call, tries: Tries = { isUncertain: false }): Promise<Answer> {
    const backoff = new Backoff(this.options.retries, call.signal, call.giveUpMs);
    for (;;) {
      try {
        const answer = await this.once(call);
        backoff.progress();
        return answer;
      } catch (error) {
        await backoff.wait(error);
        const { status = 500, code } = error as SluiceError;
        if (status >= 500 && code !== "token-failed") tries.isUncertain = true;
      }
    }
  }

  /** Like `call`, for an answer that is a JSON object with the named field. */
  async json<T extends object>(call: Call, field: string & keyof T, isRight: (value: unknown) => boolean): Promise<T> {
    const { at, status, text } = await this.call(call);
    const value = parsed(text);
    if (typeof value === "object" && value !== null && isRight((value as Partial<T>)[field])) return value as T;
    throw badAnswer(at, status, `the answer is not JSON with the field ${field}`);
  }

  /** Deletes. `deleted` is undefined when it is gone and the answer to an earlier try was lost. */
  async delete(call: Omit<Call, "method">): Promise<{ readonly deleted: true | undefined }> {
    const tries = { isUncertain: false };
    try {
      await this.call({ ...call, method: "DELETE" }, tries);
      return { deleted: true };
    } catch (error) {
      if (tries.isUncertain && error instanceof SluiceError && error.status === 404) return { deleted: undefined };
      throw error;
    }
  }

  /** Tries once. */
  async once(call: Call): Promise<Answer> {
    const exchange = await this.open(call);
    try {
      const { status, headers } = exchange.response;
      return { at: exchange.at, status, headers, text: status === 204 ? "" : await exchange.text() };
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
    try {
      const init = { method, headers: this.headers(headers, this.token.known), body: bodyOf(body), keepalive: true };
      // `catch` and not `await`: no caller is left to tell, and the same request is repeated if the page lives on.
      this.options.fetch(this.address(path, this.options.query), init).then(
        (response) => void response.body?.cancel().catch(() => {}),
        () => {},
      );
    } catch {
      // As above.
    }
  }

  private async exchange(call: Call, token: string | undefined, timeoutMs: number): Promise<Exchange> {
    const headers = this.headers(call.headers, token);
    const at = { method: call.method, url: this.address(call.path, call.query) };
    const exchange = new Exchange(at, call.signal, timeoutMs);
    try {
      const { method } = call;
      // Not as an argument, because the types of Node do not know `cache`.
      const init = { method, headers, body: bodyOf(call.body), signal: exchange.signal, cache: "no-store" as const };
      const response = await this.options.fetch(
        this.address(call.path, { ...this.options.query, ...call.query }),
        init,
      );
      exchange.begin(response);
      if (response.ok) return exchange;
      const text = await exchange.text(MAX_PROBLEM_CHARS);
      throw refusalOf(at, response.status, response.headers, text, Date.now());
    } catch (error) {
      exchange.close();
      throw exchange.explain(error);
    }
  }

  /** For a WebSocket on a platform where it carries headers. */
  async socketHeaders(signal: AbortSignal | undefined): Promise<Record<string, string>> {
    return this.headers({}, await this.token.get(signal));
  }

  /** The address of a WebSocket. */
  socketUrl(path: string, query: Call["query"]): string {
    return this.address(path, { ...this.options.query, ...query }).replace(/^http/, "ws");
  }

  private address(path: string, query: Call["query"] = {}): string {
    const search = Object.entries(query)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value!)}`)
      .join("&");
    return `${this.options.url}/v1/${this.options.project}/${path}${search && `?${search}`}`;
  }

  private headers(own: Call["headers"] = {}, token: string | undefined): Record<string, string> {
    const { headers: source = {} } = this.options;
    const authorization = token === undefined ? undefined : `Bearer ${token}`;
    const headers: Record<string, string> = {};
    const names = new Map<string, string>();
    for (const part of [typeof source === "function" ? source() : source, own, { Authorization: authorization }]) {
      for (const [name, value] of Object.entries(part)) {
        if (value === undefined) continue;
        if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
          throw new SluiceError("invalid-value", `the header ${name} has characters that a header cannot carry`);
        }
        // A name in another spelling would be sent as a second value.
        delete headers[names.get(name.toLowerCase()) ?? name];
        names.set(name.toLowerCase(), name);
        headers[name] = value;
      }
    }
    return headers;
  }
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The fetch of Node and of browsers agree on the value; their types differ. */
function bodyOf(body: string | Uint8Array | undefined): string | Uint8Array<ArrayBuffer> | undefined {
  return body as string | Uint8Array<ArrayBuffer> | undefined;
}
