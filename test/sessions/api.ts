/** The session routes of one project, as a client calls them; against a stage, a server or a process. */
import { expect } from "vitest";
import { ask, type Payload } from "../support/ask.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are whatever the test expects of them.
  readonly body: any;
}

/** The four headers of a publish. */
export interface FanoutHeaders {
  readonly count: number;
  readonly successes: number;
  readonly failures: number;
  readonly mode: string;
}

export class Api {
  readonly base: string;

  constructor(
    url: string,
    readonly project = "default",
    private readonly token?: string,
    private readonly send: typeof ask = ask,
  ) {
    this.base = `${url}/v1/${project}`;
  }

  async call(method: string, path: string, body?: Payload, headers: Record<string, string> = {}): Promise<Answer> {
    const named = { ...(this.token && { Authorization: `Bearer ${this.token}` }), ...headers };
    const { status, headers: told, text } = await this.send(`${this.base}${path}`, { method, headers: named, body });
    return { status, headers: told, text, body: parsed(text) };
  }

  json(method: string, path: string, body: unknown): Promise<Answer> {
    return this.call(method, path, JSON.stringify(body), { "Content-Type": "application/json" });
  }

  /** A stream that must not exist yet. */
  async create(stream: string, contentType = "application/json", headers: Record<string, string> = {}): Promise<void> {
    const answer = await this.call("PUT", `/stream/${stream}`, undefined, { "Content-Type": contentType, ...headers });
    expect(answer.status, answer.text).toBe(201);
  }

  /** Through the stream's own door: nobody waits for copies. */
  async append(stream: string, body: Payload, contentType = "application/json"): Promise<string> {
    const answer = await this.call("POST", `/stream/${stream}`, body, { "Content-Type": contentType });
    expect(answer.status, answer.text).toBe(204);
    return answer.headers.get("stream-next-offset")!;
  }

  subscribe(sessionId: string, streamId: string, more: object = {}): Promise<Answer> {
    return this.json("POST", "/subscribe", { sessionId, streamId, ...more });
  }

  /** A subscription that must be made. */
  async subscribed(sessionId: string, streamId: string, more: object = {}): Promise<Answer> {
    const answer = await this.subscribe(sessionId, streamId, more);
    expect(answer.status, answer.text).toBe(200);
    return answer;
  }

  unsubscribe(sessionId: string, streamId: string): Promise<Answer> {
    return this.json("DELETE", "/unsubscribe", { sessionId, streamId });
  }

  publish(stream: string, body: Payload, contentType = "application/json", headers = {}): Promise<Answer> {
    return this.call("POST", `/publish/${stream}`, body, { "Content-Type": contentType, ...headers });
  }

  /** A publish that must be taken; what its headers say of the copies. */
  async published(stream: string, body: Payload, contentType = "application/json"): Promise<FanoutHeaders> {
    const answer = await this.publish(stream, body, contentType);
    expect(answer.status, answer.text).toBe(204);
    return fanoutOf(answer);
  }

  session(id: string): Promise<Answer> {
    return this.call("GET", `/session/${id}`);
  }

  touch(id: string): Promise<Answer> {
    return this.call("POST", `/session/${id}/touch`);
  }

  delete(id: string): Promise<Answer> {
    return this.call("DELETE", `/session/${id}`);
  }

  inbox(id: string, query = "?offset=-1"): Promise<Answer> {
    return this.call("GET", `/stream/session:${id}${query}`);
  }

  /** Everything in a JSON inbox, however many pages that takes. */
  async messages(id: string): Promise<unknown[]> {
    const found: unknown[] = [];
    for (let offset = "-1"; ; ) {
      const { status, text, body, headers } = await this.inbox(id, `?offset=${offset}`);
      expect(status, text).toBe(200);
      found.push(...body);
      offset = headers.get("stream-next-offset")!;
      if (headers.get("stream-up-to-date") === "true") return found;
    }
  }
}

export function fanoutOf({ headers }: Pick<Answer, "headers">): FanoutHeaders {
  const number = (name: string) => Number(headers.get(`stream-fanout-${name}`) ?? Number.NaN);
  return {
    count: number("count"),
    successes: number("successes"),
    failures: number("failures"),
    mode: headers.get("stream-fanout-mode") ?? "",
  };
}

export const inline = (count: number, successes = count, failures = 0): FanoutHeaders => ({
  count,
  successes,
  failures,
  mode: "inline",
});

/** With these, a machine that is busy does not look like a session that is slow. */
export const PATIENT = { graceMs: 10_000 };

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
