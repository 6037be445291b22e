/**
 * The server that a command talks to: its URL, the token, and a client with the command line's headers and retries.
 * Every command that talks to a server uses it.
 *
 * Invariants: a token is sent to its own server only. Neither a token nor a password is ever shown.
 */
import {
  type Channel,
  type Group,
  type GroupOptions,
  type Inbox,
  type RetryOptions,
  Sluice,
  SluiceError,
  type Stream,
  type StreamOptions,
} from "@sluice/client";
import { PubSub } from "@sluice/client/pubsub";
import type { Command } from "commander";
import { WebSocket } from "ws";
import { findContext, readContexts } from "./contexts.ts";
import { CliError, EXIT, usage } from "./exit.ts";
import { failureOf } from "./failure.ts";
import { say } from "./terminal.ts";

const DEFAULT_URL = "http://127.0.0.1:4437";
const DEFAULT_PROJECT = "default";

export interface RemoteOptions {
  readonly url?: string;
  readonly project?: string;
  readonly token?: string;
  readonly context?: string;
  readonly header?: readonly string[];
}

export function addRemoteOptions(command: Command): Command {
  return command
    .option("--url <URL>", `the server (default: the context's, or ${DEFAULT_URL})`)
    .option("--project <P>", "the project (default: the context's, or default)")
    .option("--token <TOKEN>", "the token to send; SLUICE_TOKEN keeps it out of the list of processes")
    .option("--context <NAME>", "the context to use instead of the current one")
    .option("-H, --header <'Name: value'>", "a header to send; may be given several times", collect);
}

function collect(value: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, value];
}

/** A flag wins over the environment, and the environment over the context. */
export function remoteOf(options: RemoteOptions): Remote {
  const { SLUICE_URL, SLUICE_PROJECT, SLUICE_TOKEN, SLUICE_CONTEXT } = process.env;
  const contexts = readContexts();
  const name = options.context ?? (options.url === undefined ? (SLUICE_CONTEXT ?? contexts.current) : undefined);
  const context = name === undefined ? undefined : findContext(contexts, name);
  const url = checkUrl(
    options.url ?? (options.context === undefined ? SLUICE_URL : undefined) ?? context?.url ?? DEFAULT_URL,
  );
  const project = options.project ?? SLUICE_PROJECT ?? context?.project ?? DEFAULT_PROJECT;
  if (!/^[a-zA-Z0-9_-]{1,128}$/.test(project))
    throw usage(`a project is named by letters, digits, _ and -, not ${project}`);
  // A token belongs to its own server and is not sent to another one.
  const isContexts = context !== undefined && url === checkUrl(context.url);
  const token = checkToken(options.token ?? SLUICE_TOKEN ?? (isContexts ? context.token : undefined));
  return new Remote(url, project, token, (options.header ?? []).map(parseHeader));
}

/** Reports a malformed token without showing it. */
export function checkToken(token: string | undefined): string | undefined {
  if (token === undefined || /^[\x20-\x7e]*$/.test(token)) return token;
  throw usage("the token has characters that a header cannot carry, like a line break");
}

/** URLs are shown in many places, so they must not contain a password. */
export function checkUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (text.includes("@"))
    throw usage("the address of a server must not have a user or a password in it; give a token with --token");
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "") {
    return url.href.replace(/\/+$/, "");
  }
  throw usage(`${JSON.stringify(text)} is not the address of a server; it must be like ${DEFAULT_URL}`);
}

function parseHeader(text: string): [string, string] {
  const match = /^([A-Za-z0-9!#$%&'*+.^_`|~-]+):\s*(.*)$/.exec(text);
  // Not quoted, because it may contain a token.
  if (match === null || !/^[\t\x20-\x7e\x80-\xff]*$/.test(match[2]!))
    throw usage(
      `what was given with -H${match === null ? "" : ` for ${match[1]}`} is not a header; it must be like 'Name: value'`,
    );
  return [match[1]!, match[2]!.trim()];
}

/** The timeout of a request, long enough to upload the largest message over a slow line. */
const TIMEOUT_MS = 300_000;
const RETRY = { minMs: 250, maxMs: 5_000 };

export class Remote {
  constructor(
    readonly url: string,
    readonly project: string,
    private readonly token: string | undefined,
    private readonly more: readonly (readonly [string, string])[],
  ) {}

  /** Requests fail at once unless `giveUpMs` allows retries; tails retry by themselves. */
  sluice(giveUpMs = 0): Sluice {
    const { url, project, fetch } = this;
    return new Sluice({ url, project, fetch, timeoutMs: TIMEOUT_MS, retries: { ...RETRY, giveUpMs, ...notices() } });
  }

  stream(path: string, options: StreamOptions = {}): Stream {
    return named(() => this.sluice().stream(path, options));
  }

  inbox(id: string): Inbox {
    return named(() => this.sluice().inbox(id));
  }

  channel(id: string, giveUpMs?: number): Channel {
    return named(() => this.sluice(giveUpMs).channel(id));
  }

  group(name: string, filter: string | undefined, options: GroupOptions): Group {
    return named(() => this.sluice().group(name, filter, options));
  }

  /** Works on the topics and subscriptions of the project, and closes the connection after it. */
  async pull<T>(work: (pubsub: PubSub) => Promise<T>, giveUpMs = 0): Promise<T> {
    const { url, project: projectId, fetch } = this;
    const pubsub = new PubSub({
      url,
      projectId,
      fetch,
      WebSocket: this.socketClass(),
      retries: { ...RETRY, giveUpMs },
    });
    try {
      return await work(pubsub);
    } finally {
      await pubsub.close();
    }
  }

  /** A WebSocket with the headers of the command line. */
  socketClass(): GroupOptions["WebSocket"] {
    const headers = Object.fromEntries(this.headers());
    return class extends WebSocket {
      constructor(url: string) {
        super(url, { headers });
      }
    };
  }

  /** One request to a route for which the client has no method. */
  async request<T>(method: string, path: string, body?: object): Promise<T> {
    const response = await this.fetch(`${this.url}/v1/${this.project}/${path}`, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await response.text();
    if (response.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
    throw refusalOf(response, text);
  }

  /** For `bench`, which sends its requests itself. */
  streamUrl(path: string): string {
    return `${this.url}/v1/${this.project}/stream/${path}`;
  }

  headers(own: Readonly<Record<string, string>> = {}): Headers {
    const headers = new Headers();
    for (const [name, value] of Object.entries(own)) {
      if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
        throw usage(`${JSON.stringify(value)} has characters that a header cannot carry`);
      }
      headers.set(name, value);
    }
    if (this.token !== undefined) headers.set("Authorization", `Bearer ${this.token}`);
    for (const [name, value] of this.more) headers.set(name, value);
    return headers;
  }

  /** Adds the headers of the command line. Redirects are not followed, because they would take the token along. */
  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const headers = this.headers(init?.headers as Record<string, string>);
    try {
      return await fetch(input, { ...init, headers, redirect: "manual" });
    } catch (fault) {
      throw init?.signal?.aborted ? fault : this.unreachable(fault);
    }
  };

  unreachable(fault: unknown): CliError {
    const { cause, message } = fault as Error & { cause?: { code?: string; message?: string } };
    const why = cause?.code ?? cause?.message ?? message;
    if (why === "ECONNREFUSED") {
      const hint = "start one with `sluice serve`, or name another with --url";
      return new CliError(EXIT.unavailable, `no server answers at ${this.url} (${why}); ${hint}`);
    }
    return new CliError(EXIT.unavailable, `the server at ${this.url} cannot be reached: ${why}`);
  }
}

export function refusalOf({ status, headers }: Response, text: string): SluiceError {
  let said: { code?: string; detail?: string } = {};
  try {
    said = JSON.parse(text);
  } catch {
    // A proxy has answered.
  }
  const { code = `http-${status}`, detail = `the server answered ${status}` } = said;
  return new SluiceError(code, detail, { status, headers });
}

/** A name that the client refuses was typed, so it is a usage error. */
function named<T>(make: () => T): T {
  try {
    return make();
  } catch (fault) {
    throw fault instanceof TypeError ? usage(fault.message) : fault;
  }
}

/** Reports once that the server is unreachable, and once that it is back. */
function notices(): RetryOptions {
  let isAway = false;
  return {
    onRetry: ({ error }) => {
      // A rate limit is not worth a line.
      if (isAway || error.status === 429) return;
      isAway = true;
      say(`${failureOf(error).message.split(";")[0]}; trying again`);
    },
    onRecover: () => {
      if (isAway) say("connected again");
      isAway = false;
    },
  };
}
