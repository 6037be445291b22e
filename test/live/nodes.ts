/**
 * Servers for the tests of Live: one or several over the same memory, without sockets, on a clock that the test moves. Clients
 * call the router, and their connections end in sinks under the test's control.
 *
 * Invariants: with several nodes each one takes the store for shared. A fault that a server reports fails the test.
 */
import { expect, onTestFinished } from "vitest";
import { buildApp } from "../../packages/server/src/compose.ts";
import type { HttpRequest, Reply } from "../../packages/server/src/core/http.ts";
import { renderFault } from "../../packages/server/src/doors/http/problem.ts";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { type ServerOptions, withDefaults } from "../../packages/server/src/server-options.ts";
import { eventually } from "../support/eventually.ts";
import { FakeSink } from "../support/fake-sink.ts";
import { type ManualWorld, manualWorld } from "../support/world.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are whatever the test expects of them.
  readonly body: any;
}

export interface Event {
  readonly type: string;
  readonly streamId?: string;
  readonly offset?: string;
  readonly payload?: unknown;
  readonly code?: string;
  readonly reconnect?: boolean;
  readonly retryMs?: number;
}

/** A client's end of a live connection. */
export class LiveClient {
  constructor(readonly sink: FakeSink) {}

  /** Everything that came so far, without comments. */
  get events(): Event[] {
    return this.sink.text
      .split("\n\n")
      .filter((block) => block.startsWith("data: "))
      .map((block) => JSON.parse(dataOf(block)));
  }

  get types(): string[] {
    return this.events.map(({ type }) => type);
  }

  payloads(streamId: string): unknown[] {
    return this.events
      .filter((event) => event.type === "data" && event.streamId === streamId)
      .map((one) => one.payload);
  }

  /** Waits until an event of this type has come, and returns it. */
  async next(type: string, streamId?: string): Promise<Event> {
    let found: Event | undefined;
    await eventually(() => {
      found = this.events.find(
        (event) => event.type === type && (streamId === undefined || event.streamId === streamId),
      );
      expect(found, `${type} among ${JSON.stringify(this.events)}`).toBeDefined();
    });
    return found!;
  }

  leave(): void {
    this.sink.leave();
  }
}

/** As a browser reads an event: lines without a field are ignored. */
function dataOf(block: string): string {
  const lines = block.split("\n").filter((line) => line.startsWith("data: "));
  return lines.map((line) => line.slice("data: ".length)).join("\n");
}

export interface Asked {
  readonly token?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The client asks for a WebSocket. */
  readonly isUpgrade?: boolean;
}

export class LiveNode {
  readonly app: ReturnType<typeof buildApp>;
  readonly reports: string[] = [];
  readonly world: ManualWorld;

  constructor(cluster: Cluster, name: string, options: ServerOptions) {
    const report = (what: string, fault: unknown) => void this.reports.push(`${what}: ${(fault as Error).stack}`);
    this.world = cluster.world;
    this.app = buildApp(withDefaults({ ...options, report }), cluster.world, cluster.engineOf(name));
  }

  async call(method: string, target: string, asked: Asked = {}): Promise<Answer> {
    const reply = await this.reply(method, target, asked);
    const text = reply.body === undefined ? "" : Buffer.from(reply.body as string).toString();
    const headers: Record<string, string> = {};
    for (let i = 0; i < reply.headers.length; i += 2) headers[reply.headers[i]!.toLowerCase()] = reply.headers[i + 1]!;
    return { status: reply.status, headers, body: text === "" ? undefined : JSON.parse(text) };
  }

  async reply(method: string, target: string, { token, body, headers = {}, isUpgrade }: Asked = {}): Promise<Reply> {
    const [path, search = ""] = target.split("?");
    const named: Record<string, string> = { "content-type": "application/json", ...headers };
    if (token !== undefined) named.authorization = `Bearer ${token}`;
    const bytes = Buffer.from(body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body));
    const request: HttpRequest = {
      method,
      path: path!,
      search,
      origin: "http://sluice.test",
      header: (name) => named[name],
      body: async (max) => (bytes.length > max ? { kind: "too-large" } : { kind: "body", bytes }),
      onGone: () => {},
      isUpgrade,
    };
    try {
      return await this.app.router.route(request);
    } catch (fault) {
      return renderFault(fault, (unexpected) => this.reports.push(String((unexpected as Error).stack)));
    }
  }

  /** A call that must succeed; returns its body. */
  async done(method: string, target: string, asked: Asked = {}) {
    const { status, body } = await this.call(method, target, asked);
    expect(status, `${method} ${target}: ${JSON.stringify(body)}`).toBeLessThan(300);
    return body;
  }

  create(stream: string, headers: Readonly<Record<string, string>> = {}) {
    return this.done("PUT", `/v1/stream/${stream}`, { headers });
  }

  append(stream: string, ...values: unknown[]) {
    return this.done("POST", `/v1/stream/${stream}`, { body: values });
  }

  async mint(token?: string): Promise<string> {
    return (await this.done("POST", "/v1/sessions", { token, body: {} })).sessionId;
  }

  subscribe(sessionId: string, streamId: string, token?: string, more: object = {}) {
    return this.done("POST", "/v1/subscriptions", { token, body: { sessionId, streamId, ...more } });
  }

  unsubscribe(sessionId: string, streamId: string) {
    return this.done("DELETE", "/v1/subscriptions", { body: { sessionId, streamId } });
  }

  heartbeat(sessionId: string, ...offsets: { streamId: string; lastOffset: string; epoch?: number }[]) {
    return this.call("POST", "/v1/heartbeat", { body: { sessionId, offsets } });
  }

  offsets(sessionId: string): Promise<{ streamId: string; lastOffset: string; epoch: number }[]> {
    return this.done("GET", `/v1/session-offsets/${sessionId}`);
  }

  /** The messages after an offset, and the offset after them. */
  async read(stream: string, offset: string): Promise<{ values: unknown[]; next: string }> {
    const { body, headers, status } = await this.call("GET", `/v1/stream/${stream}?offset=${offset}`);
    expect(status).toBe(200);
    return { values: body, next: headers["stream-next-offset"]! };
  }

  /** The reply to a connection that is not opened yet. */
  admit(sessionId: string, query = "", asked: Asked = {}): Promise<Reply> {
    return this.reply("GET", `/v1/live/${sessionId}${query}`, asked);
  }

  async connect(
    sessionId: string,
    { query = "", sink = new FakeSink(), ...asked }: Connecting = {},
  ): Promise<LiveClient> {
    const reply = await this.admit(sessionId, query, asked);
    expect(reply.status, String(reply.body)).toBe(200);
    reply.live!(sink);
    return new LiveClient(sink);
  }
}

export interface Connecting extends Asked {
  readonly query?: string;
  readonly sink?: FakeSink;
}

export class Cluster {
  readonly world = manualWorld(5);
  /** Every commit that the store was asked for, by entity. */
  readonly commits: string[] = [];
  /** The nodes that are alive. */
  readonly alive = new Set<string>();
  readonly engine: Engine;

  constructor(private readonly isShared: boolean) {
    this.engine = openMemory({ world: this.world });
  }

  /** The store as one node sees it. */
  engineOf(node: string): Engine {
    this.alive.add(node);
    const own: Partial<Engine> = {
      node,
      exclusive: !this.isShared,
      nodes: () => [...this.alive].map((id) => ({ id, aliveUntilMs: this.world.now() + 6_000 })),
      commit: (e, at, effects) => {
        if (effects.length > 0) this.commits.push(e.key);
        return this.engine.commit(e, at, effects);
      },
    };
    return new Proxy(this.engine, {
      get(target, name) {
        if (Object.hasOwn(own, name)) return own[name as keyof Engine];
        const value = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }
}

export function openNodes(count: number, options: ServerOptions = {}): { cluster: Cluster; nodes: LiveNode[] } {
  const cluster = new Cluster(count > 1);
  const nodes = Array.from({ length: count }, (_, i) => new LiveNode(cluster, `node-${i}`, options));
  onTestFinished(() => {
    for (const { reports } of nodes) expect(reports).toEqual([]);
  });
  return { cluster, nodes };
}

/** A server that starts on what another one has left. */
export function openNodeOn(cluster: Cluster): LiveNode {
  return new LiveNode(cluster, "later", {});
}

export function openNode(options: ServerOptions = {}): LiveNode & { readonly cluster: Cluster } {
  const { nodes, cluster } = openNodes(1, options);
  return Object.assign(nodes[0]!, { cluster });
}
