/**
 * Requests to a server that may die at any moment. Actors know of it only what HTTP tells.
 *
 * Invariants: an answer is whole, or there is none. A request without an answer may or may not have taken effect.
 */
import { sleep } from "../support/eventually.ts";

export interface Answer {
  readonly status: number;
  readonly text: string;
  header(name: string): string | null;
}

export interface Asked {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** A request that is not answered by then has hung. */
const HUNG_MS = 30_000;
/** How long an actor insists, which covers several starts of the server. */
const PATIENCE_MS = 60_000;

export class Wire {
  answers = 0;
  unanswered = 0;

  constructor(private readonly url: string) {}

  /** Undefined if the connection broke before the answer was whole. */
  async ask(method: string, path: string, { headers = {}, body }: Asked = {}): Promise<Answer | undefined> {
    try {
      const signal = AbortSignal.timeout(HUNG_MS);
      const init = { method, headers, signal, ...(body === undefined ? {} : { body }) };
      const response = await fetch(`${this.url}/v1/${path}`, init);
      const text = await response.text();
      this.answers++;
      return { status: response.status, text, header: (name) => response.headers.get(name) };
    } catch (fault) {
      if ((fault as Error).name === "TimeoutError") throw new Error(`${method} ${path} hung`, { cause: fault });
      this.unanswered++;
      // A server that is down refuses at once.
      await sleep(20);
      return undefined;
    }
  }

  /** Repeats a request that may be repeated until it is answered other than by 503. */
  async insist(method: string, path: string, asked: Asked = {}): Promise<Answer> {
    for (const until = Date.now() + PATIENCE_MS; Date.now() < until; await sleep(20)) {
      const answer = await this.ask(method, path, asked);
      if (answer !== undefined && answer.status !== 503) return answer;
    }
    throw new Error(`${method} ${path} is never answered`);
  }

  /** Insists, and demands one of these statuses. */
  async must(statuses: readonly number[], method: string, path: string, asked: Asked = {}): Promise<Answer> {
    const answer = await this.insist(method, path, asked);
    if (statuses.includes(answer.status)) return answer;
    throw new Error(`${method} ${path} answered ${answer.status} instead of ${statuses.join(" or ")}: ${answer.text}`);
  }

  /** The whole log of a JSON stream, from its beginning. */
  async log<T>(path: string, query = ""): Promise<T[]> {
    const messages: T[] = [];
    for (let offset = "-1"; ; ) {
      const page = await this.must([200], "GET", `stream/${path}?offset=${offset}${query}`);
      messages.push(...(JSON.parse(page.text) as T[]));
      offset = page.header("stream-next-offset")!;
      if (page.header("stream-up-to-date") !== null) return messages;
    }
  }
}
