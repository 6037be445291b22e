/**
 * The server between engine and door with auth on, in memory, on a clock that the test moves, with key sets that the test
 * publishes. The suites of test/auth use it.
 *
 * Invariants: projects `p` and `q` have one secret each; `open` has none. No socket is opened.
 */
import { Buffer } from "node:buffer";
import { expect } from "vitest";
import type { KeysFetcher } from "../../packages/server/src/auth/key-set.ts";
import { type MintRequest, mint } from "../../packages/server/src/auth/mint.ts";
import { buildApp } from "../../packages/server/src/compose.ts";
import type { HttpRequest, Reply } from "../../packages/server/src/core/http.ts";
import { renderFault } from "../../packages/server/src/doors/http/problem.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { type ServerOptions, withDefaults } from "../../packages/server/src/server-options.ts";
import { type ManualWorld, manualWorld } from "../support/world.ts";

export const SECRET = "the secret of project p, long enough";
export const OTHER_SECRET = "the secret of project q, long enough";
export const ORIGIN = "http://sluice.test";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are whatever the test expects of them.
  readonly body: any;
}

export interface Asked {
  readonly token?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

const PROJECTS = { projects: { p: { secrets: [SECRET] }, q: { secrets: [OTHER_SECRET] }, open: {} } };
/** Checked once, because the suites build hundreds of apps and checking takes longer than the rest of an app. */
const SETTINGS = withDefaults(PROJECTS);
/** By what they are made of. The clocks of all apps start at the same time, so most apps ask for the same tokens. */
const tokens = new Map<string, Promise<string>>();

export class AuthApp {
  readonly world: ManualWorld = manualWorld(3);
  readonly reports: string[] = [];
  /** The key set published at an address; the fetch fails when there is none. */
  readonly published = new Map<string, string>();
  /** The addresses fetched so far, in order. */
  readonly fetched: string[] = [];
  readonly app: ReturnType<typeof buildApp>;
  /** The latest request, with the fields that the router set on it. */
  last: HttpRequest | undefined;

  constructor(options?: ServerOptions) {
    const report = (what: string, fault: unknown) => void this.reports.push(`${what}: ${fault}`);
    const engine = openMemory({ world: this.world });
    const fetchKeys: KeysFetcher = async (url) => {
      this.fetched.push(url);
      const text = this.published.get(url);
      return text === undefined ? { kind: "failed", why: "no server answers" } : { kind: "fetched", text };
    };
    const settings = options === undefined ? SETTINGS : withDefaults({ ...PROJECTS, ...options });
    this.app = buildApp({ ...settings, report }, this.world, engine, { fetchKeys });
  }

  /** A token of project p, unless the request says otherwise. */
  token(request: Partial<MintRequest> = {}, secret = SECRET, atMs = this.world.now()): Promise<string> {
    const asked = { scope: "read write", ttlSeconds: 3_600, ...request };
    const name = JSON.stringify([secret, asked, atMs]);
    const made = tokens.get(name) ?? mint(secret, asked, atMs);
    tokens.set(name, made);
    return made;
  }

  async call(method: string, target: string, asked: Asked = {}): Promise<Answer> {
    const reply = await this.reply(method, target, asked);
    const text = reply.body === undefined ? "" : Buffer.from(reply.body as string).toString();
    const answered: Record<string, string> = {};
    for (let i = 0; i < reply.headers.length; i += 2) answered[reply.headers[i]!.toLowerCase()] = reply.headers[i + 1]!;
    return { status: reply.status, headers: answered, text, body: parsed(text) };
  }

  /** The reply as the door gets it, an open connection included. */
  reply(method: string, target: string, { token, headers = {}, body }: Asked = {}): Promise<Reply> {
    const [path, search = ""] = target.split("?");
    const named: Record<string, string> = { "content-type": "application/json", ...headers };
    if (token !== undefined) named.authorization = `Bearer ${token}`;
    const bytes = Buffer.from(body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body));
    const request: HttpRequest = {
      method,
      path: path!,
      search,
      origin: ORIGIN,
      header: (name) => named[name],
      body: async (max) => (bytes.length > max ? { kind: "too-large" } : { kind: "body", bytes }),
      onGone: () => {},
    };
    this.last = request;
    return Promise.resolve()
      .then(() => this.app.router.route(request))
      .catch((fault) => renderFault(fault, (unexpected) => this.reports.push(String(unexpected))));
  }

  /** Prepares state: a call by the project's admin, which must succeed. */
  async prepare(method: string, target: string, asked: Asked = {}): Promise<Answer> {
    const answer = await this.call(method, target, { token: await this.token({ scope: "admin" }), ...asked });
    expect(answer.status, `${method} ${target}: ${answer.text}`).toBeLessThan(300);
    return answer;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
