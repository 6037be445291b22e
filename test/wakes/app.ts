/**
 * The server between engine and door, for tests of wake subscriptions: the clock stands still until the test moves it,
 * webhooks end in the test, and a restart is a new app over the same engine. Nothing here waits for time to pass: `until`
 * lets the event loop turn, a bounded number of times.
 */
import { setImmediate as turn } from "node:timers/promises";
import { buildApp } from "../../packages/server/src/compose.ts";
import type { HttpRequest } from "../../packages/server/src/core/http.ts";
import { renderFault } from "../../packages/server/src/doors/http/problem.ts";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { Keepers } from "../../packages/server/src/engine/keeper.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { type ServerOptions, withDefaults } from "../../packages/server/src/server-options.ts";
import { Streams } from "../../packages/server/src/streams/service.ts";
import type { SubscriptionIndex } from "../../packages/server/src/wakes/matching.ts";
import type { WebhookAnswer, WebhookRequest, WebhookSender } from "../../packages/server/src/wakes/webhook-delivery.ts";
import { type ManualWorld, manualWorld } from "../support/world.ts";

const MAX_TURNS = 5_000;
export const ORIGIN = "http://sluice.test";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are whatever the test expects of them.
  readonly body: any;
}

/** A webhook's receiver. Answers with `reply` until told otherwise, or when the test says so. */
export class Receiver implements WebhookSender {
  readonly received: { readonly request: WebhookRequest; readonly body: Notified }[] = [];
  reply: WebhookAnswer | ((request: WebhookRequest) => Promise<WebhookAnswer>) = answered({});
  isClosed = false;

  async send(request: WebhookRequest): Promise<WebhookAnswer> {
    this.received.push({ request, body: JSON.parse(request.body) as Notified });
    return typeof this.reply === "function" ? this.reply(request) : this.reply;
  }

  close(): void {
    this.isClosed = true;
  }

  get last(): Notified {
    return this.received.at(-1)!.body;
  }
}

export interface Notified {
  readonly subscription_id: string;
  readonly wake_id: string;
  readonly generation: number;
  readonly callback_url: string;
  readonly callback_token: string;
  readonly streams: readonly Linked[];
}

export interface Linked {
  readonly path: string;
  readonly link_type: string;
  readonly acked_offset: string;
  readonly tail_offset: string;
  readonly has_pending: boolean;
}

export function answered(body: object, status = 200): WebhookAnswer {
  return { kind: "answered", status, body: JSON.stringify(body) };
}

export class TestApp {
  readonly world: ManualWorld;
  readonly engine: Engine;
  readonly receiver = new Receiver();
  readonly reports: string[] = [];
  app!: ReturnType<typeof buildApp>;

  constructor(private readonly settings: ServerOptions = {}) {
    this.world = manualWorld(7);
    this.engine = openMemory({ world: this.world });
    this.build();
  }

  static async open(settings: ServerOptions = {}): Promise<TestApp> {
    const app = new TestApp(settings);
    app.app.start();
    await app.app.wakes.ready;
    return app;
  }

  private build(): void {
    const report = (what: string, fault: unknown) => void this.reports.push(`${what}: ${fault}`);
    const settings = withDefaults({ ...this.settings, report });
    this.app = buildApp(settings, this.world, this.engine, { sender: this.receiver });
  }

  /** Stops the app and starts another over what is stored; `meanwhile` happens in between, to streams nobody follows. */
  async restart(meanwhile: (streams: Streams) => Promise<unknown> = async () => {}): Promise<void> {
    await this.app.stop();
    const { engine, world } = this;
    await meanwhile(new Streams(engine, new Keepers(engine, world.soon), world));
    this.build();
    this.app.start();
    await this.app.wakes.ready;
  }

  /** As a crash would: the old app is left as it is, and its timers and answers come to nothing. */
  crash(): void {
    void this.app.stop();
    this.build();
  }

  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const bytes = new TextEncoder().encode(
      typeof body === "string" ? body : body === undefined ? "" : JSON.stringify(body),
    );
    const names = { "content-type": "application/json", ...headers };
    const request: HttpRequest = {
      method,
      path,
      search: "",
      origin: ORIGIN,
      header: (name) => (names as Record<string, string>)[name],
      body: async (max) => (bytes.length > max ? { kind: "too-large" } : { kind: "body", bytes }),
      onGone: () => {},
    };
    const reply = await Promise.resolve()
      .then(() => this.app.router.route(request))
      .catch((fault) => renderFault(fault, (unexpected) => this.reports.push(String(unexpected))));
    const text =
      reply.body === undefined
        ? ""
        : typeof reply.body === "string"
          ? reply.body
          : new TextDecoder().decode(reply.body);
    const answeredHeaders: Record<string, string> = {};
    for (let i = 0; i < reply.headers.length; i += 2)
      answeredHeaders[reply.headers[i]!.toLowerCase()] = reply.headers[i + 1]!;
    const parsed = text === "" ? undefined : JSON.parse(text);
    return { status: reply.status, headers: answeredHeaders, body: parsed };
  }

  subscription(method: string, id: string, body?: unknown, token?: string): Promise<Answer> {
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return this.call(method, `/v1/stream/__ds/subscriptions/${id}`, body, headers);
  }

  async webhook(id: string, config: object = {}): Promise<Answer> {
    const webhook = { url: "https://receiver.example/hook" };
    return this.subscription("PUT", id, { type: "webhook", pattern: "events/*", webhook, ...config });
  }

  async pullWake(id: string, config: object = {}): Promise<Answer> {
    return this.subscription("PUT", id, { type: "pull-wake", pattern: "events/*", wake_stream: "wakes", ...config });
  }

  /** Creates the stream if need be and appends one message; returns the tail. */
  async append(path: string, message: unknown = { n: 1 }): Promise<string> {
    await this.call("PUT", `/v1/stream/${path}`);
    const answer = await this.call("POST", `/v1/stream/${path}`, message);
    return answer.headers["stream-next-offset"]!;
  }

  async messages(
    path: string,
  ): Promise<{ subscription_id: string; generation: number; stream: string; type: string }[]> {
    return (await this.call("GET", `/v1/stream/${path}`)).body;
  }

  claim(id: string, worker = "worker-1"): Promise<Answer> {
    return this.subscription("POST", `${id}/claim`, { worker });
  }

  /** Moves the clock and lets everything that follows from it happen. */
  async advance(ms: number): Promise<void> {
    this.world.advance(ms);
    await this.quiet();
  }

  /** Lets the event loop turn until nothing that is under way here can still be. */
  async quiet(): Promise<void> {
    for (let i = 0; i < 60; i++) await turn();
  }

  async until(check: () => boolean | Promise<boolean>, what = String(check)): Promise<void> {
    for (let i = 0; i < MAX_TURNS; i++) {
      if (await check()) return;
      await turn();
    }
    throw new Error(`never came true: ${what}; reported: ${this.reports.join("; ")}`);
  }

  notified(count: number): Promise<void> {
    return this.until(() => this.receiver.received.length >= count, `${count} notifications`);
  }

  /** Waits until the wake stream holds this many events. */
  events(count: number): Promise<void> {
    return this.until(async () => (await this.messages("wakes")).length >= count, `${count} wake events`);
  }

  async shown(id: string): Promise<Answer["body"]> {
    return (await this.subscription("GET", id)).body;
  }

  async acked(id: string, path: string): Promise<string | undefined> {
    const { streams } = (await this.shown(id)) as { streams: { path: string; acked_offset: string }[] };
    return streams.find((stream) => stream.path === path)?.acked_offset;
  }

  /** How much the index in memory holds. */
  get known(): { size: number; explicitLinks: number } {
    return { size: this.index.size, explicitLinks: this.index.explicitLinks };
  }

  private get index(): SubscriptionIndex {
    return (this.app.wakes as unknown as { index: SubscriptionIndex }).index;
  }

  /** Lets whatever concerns the subscription wait until the returned function is called. */
  hold(id: string): () => void {
    let letGo: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    void this.index.get("default", id)!.serially(() => gate);
    return letGo;
  }

  /** Waits until something of the stream is acknowledged, or everything up to `offset`. */
  ackedUpTo(id: string, path: string, offset?: string): Promise<void> {
    return this.until(async () => {
      const acked = await this.acked(id, path);
      return acked !== undefined && (offset === undefined ? acked !== "-1" : acked === offset);
    }, `${path} acknowledged by ${id}`);
  }
}
