/**
 * Publishers and sessions at work on a real service that may die under them: some sessions stay, others come and go. Everybody
 * repeats what was not answered. In the end every inbox is held against the logs of its sources, by the rules of the simulation.
 */
import { randomUUID } from "node:crypto";
import { onTestFinished } from "vitest";
import { check } from "../sim/scenarios/sessions/check.ts";
import { type ContentType, decode, encode, type Found } from "../sim/scenarios/sessions/messages.ts";
import type { Entry } from "../sim/scenarios/sessions/source-logs.ts";
import { type Epoch, type Interval, type Life, type Publish, Story } from "../sim/scenarios/sessions/story.ts";
import { ask, type Payload, type Told } from "../support/ask.ts";
import { sleep } from "../support/eventually.ts";

const TYPE: ContentType = "application/json";
const JSON_TYPE = { "Content-Type": "application/json" };
/** Small, and above what is written once for all copies. */
const SIZES = [20, 20, 1_500];
/** A request that is not answered by then has hung. */
const HUNG_MS = 20_000;
const PAUSE_MS = 5;

export interface LoadOptions {
  /** Where the service can be reached at the moment; empty while it cannot. */
  readonly urls: () => readonly string[];
  readonly streams: readonly string[];
  readonly publishers: number;
  readonly staying: number;
  readonly restless: number;
}

export class SessionLoad {
  readonly story = new Story();
  acknowledged = 0;
  private isOver = false;
  private readonly working: Promise<void>[] = [];
  private readonly faults: string[] = [];

  constructor(private readonly options: LoadOptions) {}

  /** Streams and the sessions that stay are there when it resolves. The load ends with the test, also when the test fails. */
  async start(): Promise<void> {
    onTestFinished(() => {
      this.isOver = true;
    });
    const { streams, publishers, staying, restless } = this.options;
    for (const stream of streams) await this.insist("PUT", `/stream/${stream}`);
    await Promise.all(Array.from({ length: staying }, () => this.stay()));
    for (const stream of streams) {
      for (let i = 0; i < publishers; i++) this.work(() => this.publish(stream, `p${i}`, i % 2 === 0));
    }
    for (let i = 0; i < restless; i++) this.work(() => this.comeAndGo());
  }

  /** So many more messages are acknowledged. */
  async progress(count: number, withinMs = 60_000): Promise<void> {
    const wanted = this.acknowledged + count;
    for (const until = Date.now() + withinMs; this.acknowledged < wanted; await sleep(5)) {
      if (Date.now() > until) throw new Error(`${this.acknowledged} of ${wanted} messages are acknowledged`);
    }
  }

  /** Ends the load. */
  async stop(): Promise<void> {
    this.isOver = true;
    await Promise.all(this.working);
  }

  /** What is wrong once everything has arrived; an empty list is what a test wants. */
  async findings(): Promise<string[]> {
    const logs = new Map<string, Entry[]>();
    for (const stream of this.options.streams) {
      const found: Found[] = [];
      await this.read(`/stream/${stream}`, "-1", found);
      logs.set(
        stream,
        found.map(({ id, offset, damage }) => ({ id: damage ?? id, position: offset })),
      );
    }
    for (const life of this.story.lives) {
      if (life.isOver) continue;
      life.seen = [];
      await this.read(`/stream/session:${life.session}`, "-1", life.seen);
    }
    const damaged = this.story.lives.flatMap(({ seen }) => seen.flatMap(({ damage }) => damage ?? []));
    const lost = this.story.publishes.flatMap(({ source, ids, isAcknowledged }) =>
      isAcknowledged && !logs.get(source)!.some(({ id }) => id === ids[0]) ? [`${ids[0]} is lost`] : [],
    );
    const entries = (path: string) => logs.get(path)!;
    const sources = { paths: this.options.streams, entries, isCut: () => false, loss: () => "nothing" as const };
    return [...this.faults, ...damaged, ...lost, ...check(this.story, sources)].slice(0, 20);
  }

  private work(task: () => Promise<void>): void {
    this.working.push(task().catch((fault) => void this.faults.push(`the load failed: ${fault?.stack ?? fault}`)));
  }

  /** Subscribed to everything, in both formats, from now on. */
  private async stay(): Promise<void> {
    const life = this.live();
    for (const [i, stream] of this.options.streams.entries()) {
      await this.subscribe(life, stream, i % 2 === 0 ? "raw" : "envelope");
    }
  }

  private live(): Life {
    const session = randomUUID();
    const nothing = { epochs: [], seen: [], wasCut: false, missed: [], reads: [] };
    const life: Life = { session, generation: 0, ...nothing, isOver: false };
    this.story.lives.push(life);
    return life;
  }

  private async comeAndGo(): Promise<void> {
    while (!this.isOver) {
      const life = this.live();
      const stream = this.pick(this.options.streams);
      const from = this.pick([undefined, undefined, "-1"] as const);
      const epoch = await this.subscribe(life, stream, this.pick(["raw", "envelope"] as const), from);
      await sleep(Math.random() * 150);
      if (this.isOver) return;
      const leaves = this.pick(["unsubscribes", "is deleted", "stays"] as const);
      if (leaves === "stays") continue;
      if (leaves === "unsubscribes") epoch.ended = await this.unsubscribe(life.session, stream);
      await this.read(`/stream/session:${life.session}`, "-1", life.seen);
      const ended = this.story.begin();
      await this.insist("DELETE", `/session/${life.session}`);
      this.story.end(ended);
      epoch.ended ??= ended;
      life.isOver = true;
    }
  }

  private async subscribe(life: Life, streamId: string, format: "raw" | "envelope", from?: "-1"): Promise<Epoch> {
    const began = this.story.begin();
    const body = JSON.stringify({ sessionId: life.session, streamId, format, ...(from && { from }) });
    await this.insist("POST", "/subscribe", body);
    this.story.end(began);
    const start = from === undefined ? undefined : "beginning";
    const epoch: Epoch = { source: streamId, from: start, began, isSure: true, ended: undefined };
    life.epochs.push(epoch);
    return epoch;
  }

  private async unsubscribe(sessionId: string, streamId: string): Promise<Interval> {
    const ended = this.story.begin();
    await this.insist("DELETE", "/unsubscribe", JSON.stringify({ sessionId, streamId }));
    this.story.end(ended);
    return ended;
  }

  /** Those with producer numbers repeat what was not answered, the others go on. */
  private async publish(stream: string, name: string, repeats: boolean): Promise<void> {
    const way = repeats ? "publish" : this.pick(["publish", "stream"] as const);
    for (let n = 0; !this.isOver; n++) {
      const ids = [`${stream}.${name}.${n}.${this.pick(SIZES)}`];
      const publish: Publish = { ...this.story.begin(), source: stream, ids, isAcknowledged: false, isCopied: false };
      this.story.publishes.push(publish);
      const producer = { "Producer-Id": name, "Producer-Epoch": "0", "Producer-Seq": String(n) };
      do {
        const body = encode(TYPE, ids);
        const answer = await this.request("POST", `/${way}/${stream}`, body, repeats ? producer : {});
        if (answer !== undefined) {
          publish.isAcknowledged = true;
          this.story.end(publish);
          this.acknowledged++;
        } else await sleep(20);
      } while (repeats && !publish.isAcknowledged);
      await sleep(PAUSE_MS);
    }
  }

  /** Reads everything after an offset. */
  private async read(path: string, after: string, into: Found[]): Promise<void> {
    for (let offset = after; ; ) {
      const answer = await this.insist("GET", `${path}?offset=${offset}&format=envelope`);
      into.push(...decode(answer.text));
      offset = answer.headers.get("stream-next-offset")!;
      if (answer.headers.get("stream-up-to-date") === "true") return;
    }
  }

  private async insist(method: string, path: string, body?: string): Promise<Told> {
    for (const until = Date.now() + 60_000; ; await sleep(20)) {
      const answer = await this.request(method, path, body, {});
      if (answer !== undefined) return answer;
      if (Date.now() > until) throw new Error(`${method} ${path} is never answered`);
    }
  }

  /** Undefined when nothing came, or that the service is in trouble; any other refusal is a fault. */
  private async request(
    method: string,
    path: string,
    body: Payload | undefined,
    headers: Record<string, string>,
  ): Promise<Told | undefined> {
    const urls = this.options.urls();
    if (urls.length === 0) return undefined;
    const signal = AbortSignal.timeout(HUNG_MS);
    const asked = { method, headers: { ...JSON_TYPE, ...headers }, body, signal };
    try {
      const answer = await ask(`${this.pick(urls)}/v1/default${path}`, asked);
      if (answer.status < 300 || (method === "DELETE" && answer.status === 404)) return answer;
      if (answer.status < 500) this.faults.push(`${method} ${path}: ${answer.status} ${answer.text}`);
      return undefined;
    } catch {
      if (signal.aborted) this.faults.push(`${method} ${path} hung`);
      return undefined;
    }
  }

  private pick<T>(list: readonly T[]): T {
    return list[Math.floor(Math.random() * list.length)]!;
  }
}
