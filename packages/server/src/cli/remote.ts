/**
 * The server that a command talks to: where it is, as whom we come, and what its refusals mean to a shell. Every command of
 * `stream`, `channel`, `session` and `bench`, and `publish`, go through here.
 */
import type { Command } from "commander";
import { findContext, readContexts } from "./contexts.ts";
import { CliError, EXIT, exitCodeOf, usage } from "./exit.ts";
import { harmless } from "./terminal.ts";

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
    .option("--token <TOKEN>", "the token to show; SLUICE_TOKEN keeps it out of the list of processes")
    .option("--context <NAME>", "the context to use instead of the current one")
    .option("-H, --header <'Name: value'>", "a header to send; may be given several times", collect);
}

function collect(value: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, value];
}

/** What is given as a flag counts first, then the environment, then the context. */
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
  // A token is for its own server; it is not carried to another one.
  const isContexts = context !== undefined && url === checkUrl(context.url);
  const token = checkToken(options.token ?? SLUICE_TOKEN ?? (isContexts ? context.token : undefined));
  return new Remote(url, project, token, (options.header ?? []).map(parseHeader));
}

/** What is wrong with a token is told without showing it. */
export function checkToken(token: string | undefined): string | undefined {
  if (token === undefined || /^[\x20-\x7e]*$/.test(token)) return token;
  throw usage("the token has characters that a header cannot carry, like a line break");
}

/** Addresses are shown in many places, so they must not hold a password. */
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
  // Not quoted: it may hold a token.
  if (match === null || !/^[\t\x20-\x7e\x80-\xff]*$/.test(match[2]!))
    throw usage(
      `what was given with -H${match === null ? "" : ` for ${match[1]}`} is not a header; it must be like 'Name: value'`,
    );
  return [match[1]!, match[2]!.trim()];
}

export interface Call {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class Remote {
  constructor(
    readonly url: string,
    readonly project: string,
    private readonly token: string | undefined,
    private readonly more: readonly (readonly [string, string])[],
  ) {}

  streamUrl(path: string): string {
    return `${this.url}/v1/${this.project}/stream/${levelsOf(path)}`;
  }

  /** Where a message is left for a stream and for every session that follows it. */
  publishUrl(path: string): string {
    return `${this.url}/v1/${this.project}/publish/${levelsOf(path)}`;
  }

  /** The address of a session, by an id that has been looked at. */
  sessionUrl(id: string): string {
    return `${this.url}/v1/${this.project}/session/${id}`;
  }

  subscribingUrl(what: "subscribe" | "unsubscribe"): string {
    return `${this.url}/v1/${this.project}/${what}`;
  }

  /** The address of a channel, without what is wanted of it. */
  channelUrl(id: string): string {
    if (id === "") throw usage("the id of a channel must not be empty");
    if (id === "." || id === "..") throw usage(`the id ${id} would be taken for a step in the address`);
    return `${this.url}/v1/${this.project}/channels/${encodeURIComponent(id)}`;
  }

  get listUrl(): string {
    return `${this.url}/v1/${this.project}/streams`;
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

  /** An answer of whatever status; throws when there is none. */
  async send(method: string, url: string, { headers: own, body, signal }: Call = {}): Promise<Response> {
    const headers = this.headers(own);
    try {
      return await fetch(url, {
        method,
        headers,
        body: body as NonNullable<RequestInit["body"]>,
        signal,
        redirect: "manual",
      });
    } catch (fault) {
      if (signal?.aborted) throw fault;
      throw this.unreachable(fault);
    }
  }

  /** An answer that is a success; anything else is an error that says why. */
  async call(method: string, url: string, call: Call = {}): Promise<Response> {
    const response = await this.send(method, url, call);
    if (response.ok) return response;
    throw await this.refusal(method, url, response, call.signal);
  }

  /** The answer to a HEAD has no words; the same question as a GET has. */
  async refusal(method: string, url: string, response: Response, signal?: AbortSignal): Promise<CliError> {
    if (method !== "HEAD") return refusal(response);
    const again = await this.send("GET", `${url}?offset=now`, { signal });
    return refusal(again.ok ? response : again);
  }

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

/** The path of a stream in an address. A level of dots would be taken for a step up or down, and lead elsewhere. */
function levelsOf(path: string): string {
  if (path === "") throw usage("the path of a stream must not be empty");
  const levels = path.split("/");
  if (levels.some((level) => level === "." || level === "..")) {
    throw usage(`the path ${path} has a level of dots, which an address cannot express`);
  }
  return levels.map(encodeURIComponent).join("/");
}

/** What the server says, in one line. */
export async function refusal(response: Response): Promise<CliError> {
  const { status, statusText } = response;
  let said = "";
  try {
    const problem = (await response.json()) as { detail?: unknown; code?: unknown };
    if (typeof problem.detail === "string") said = `${problem.detail} (${status} ${String(problem.code)})`;
  } catch {
    // A refusal of something in between, or to a HEAD.
  }
  if (said === "")
    said =
      status === 404
        ? `there is nothing at ${new URL(response.url).pathname} (404)`
        : `the server answers ${status} ${statusText}`;
  const earliest = response.headers.get("stream-earliest-offset");
  if (earliest !== null)
    said += `; the earliest message kept comes after ${earliest}, and --from beginning starts there`;
  if (status === 401) said += "; give a token with --token, SLUICE_TOKEN or a context";
  return new CliError(exitCodeOf(status), harmless(said));
}
