/**
 * A browser tab in the simulated network that runs the real client: its user subscribes, changes their mind, hides and reloads the
 * page, and loses the connection. The live scenario plays several.
 *
 * Invariants: the tab itself keeps to no protocol; all of that is the client's. What the client tells its user goes into the
 * ledger, and what it tells the server is compared with that.
 */
import type { SluiceError } from "../../../../packages/client/src/error.ts";
import type { Presence } from "../../../../packages/client/src/live/presence.ts";
import type { LiveSubscription } from "../../../../packages/client/src/live/subscribe-options.ts";
import type { Stage } from "../../scenario.ts";
import { Evidence } from "./evidence.ts";
import type { Ledger, Period } from "./ledger.ts";
import { Page, type TabStore } from "./page.ts";
import type { Asked } from "./sim-fetch.ts";
import { Words } from "./words.ts";

/** How often a tab does what, by share. */
export type Habits = Readonly<Record<"subscribe" | "unsubscribe" | "hide" | "disconnect" | "reload", number>>;

/** One stream that the user of the tab wants. */
interface Wanted {
  readonly period: Period;
  readonly presence: Presence | undefined;
  subscription: LiveSubscription | undefined;
}

export class SimTab {
  private readonly wanted = new Map<string, Wanted>();
  private readonly store: TabStore = { items: new Map(), locks: new Map() };
  private readonly words: Words;
  private page: Page | undefined;
  private pages = 0;
  /** By stream: what this page has processed. */
  private last = new Map<string, string>();
  /** By stream: the offset of the first answer since the user asked. */
  private answered = new Map<string, string>();
  /** By request: what the server had confirmed when it was sent. */
  private readonly confirmed = new WeakMap<Asked, ReadonlyMap<string, string>>();
  /** What the server has told this page about the ends of streams. */
  private evidence = new Evidence();
  /** Reads of a stream so far. */
  catchUps = 0;
  /** Whether the page has been live: connected, with everything read. */
  hasSettled = false;

  constructor(
    readonly name: string,
    private readonly stage: Stage,
    private readonly ledger: Ledger,
  ) {
    this.words = new Words(name, ledger);
  }

  offsetOf(stream: string): string | undefined {
    return this.wanted.get(stream)?.subscription?.offset;
  }

  get streams(): readonly string[] {
    return [...this.wanted.keys()];
  }

  /** Acts for a while, connected as well as it can be, and ends without a connection. */
  async act(streams: readonly string[], steps: number, habits: Habits): Promise<void> {
    const { random, world } = this.stage;
    await this.open();
    for (let i = 0; i < steps; i++) {
      const stream = random.pick(streams);
      const habit = random.weighted(habits);
      if (habit === "subscribe") this.subscribe(stream);
      else if (habit === "unsubscribe") this.unsubscribe(stream);
      else if (habit === "hide") await this.hide();
      else if (habit === "reload") await this.reload();
      else this.page?.cut();
      await world.sleep(random.between(0, random.pick([0, 30, 400, 3_000])));
    }
    if (random.chance(0.5)) await this.close();
    else this.page?.goOffline();
  }

  /** The page comes back to its network, or the tab opens a new one. */
  async resume(): Promise<void> {
    if (this.page === undefined) return this.open();
    this.hasSettled = false;
    this.page.goOnline();
  }

  /** Opens a page, which wants what the page before wanted. */
  async open(): Promise<void> {
    const { stage } = this;
    const page: Page = new Page(stage, this.store, {
      say: (line) => this.say(line),
      sent: (asked) => this.sent(asked),
      heard: (asked, status, text, isClosed) => {
        this.evidence.answered(asked, status, text, isClosed);
        this.heard(page, asked, status, text);
      },
      connected: () => this.evidence.connected(),
      pushed: (piece) => this.evidence.pushed(piece),
      error: (error) => this.failed(error),
    });
    this.page = page;
    this.pages++;
    this.last = new Map();
    this.answered = new Map();
    this.evidence = new Evidence();
    const wanted = [...this.wanted.keys()];
    this.wanted.clear();
    await page.open();
    this.say(`page ${this.pages} has session ${page.session!.id}`);
    for (const stream of wanted) this.subscribe(stream);
    this.hasSettled = false;
    page.session!.on("status", (status) => {
      if (status === "live") this.hasSettled = true;
    });
  }

  async close(): Promise<void> {
    const { page } = this;
    if (page === undefined) return;
    await page.close();
    if (page.timersLeft > 0) this.ledger.object(this.name, `a closed session has ${page.timersLeft} timers left`);
    for (const { period } of this.wanted.values()) period.isOver = true;
    this.page = undefined;
  }

  /** The page loses all that it knows but its storage; sometimes without a last word. */
  private async reload(): Promise<void> {
    const { random, world } = this.stage;
    if (random.chance(0.7)) this.page?.hide();
    this.page?.kill();
    this.say("reloads");
    for (const [stream, { period }] of this.wanted) {
      period.isOver = true;
      if (random.chance(0.2)) this.wanted.delete(stream);
    }
    await world.sleep(random.between(0, random.pick([0, 100])));
    await this.open();
  }

  private async hide(): Promise<void> {
    this.page?.hide();
    // An earlier heartbeat comes again, as from a queue that repeats itself.
    if (this.words.sent.length === 0 || !this.stage.random.chance(0.3)) return;
    const body = Buffer.from(this.stage.random.pick(this.words.sent));
    await this.stage.network.request({ method: "POST", path: "/v1/heartbeat", body }, 100);
  }

  private subscribe(stream: string): void {
    const session = this.page?.session;
    const known = this.wanted.get(stream);
    if (known !== undefined) known.presence?.setState({ at: this.stage.world.elapsedMs });
    if (session === undefined || known !== undefined) return;
    const period = this.ledger.begin(`${this.name}, page ${this.pages}`, stream);
    const presence = this.stage.random.chance(0.3) ? session.presence(stream) : undefined;
    const one: Wanted = { period, presence, subscription: undefined };
    this.wanted.set(stream, one);
    this.answered.delete(stream);
    this.evidence.forget(stream);
    this.say(`subscribes to ${stream}`);
    one.subscription = session.subscribe<string>(
      stream,
      ({ offset, value }) => this.process(stream, one, offset, value),
      {
        onGap: ({ from, to }) => {
          this.begin(stream, one, from);
          this.say(`gap of ${stream} from ${from} to ${to}`);
          period.gaps.push({ after: from, through: to });
          this.moved(stream, to);
        },
        onCatchUp: ({ offset }) => {
          this.begin(stream, one, offset);
          this.say(`caught up with ${stream} at ${offset}`);
          // Where a catch-up ends, the page has been, also when it found nothing.
          this.moved(stream, offset);
        },
        onEnd: ({ reason }) => this.ended(stream, one, reason),
      },
    );
  }

  private unsubscribe(stream: string): void {
    const one = this.wanted.get(stream);
    if (one === undefined) return;
    this.say(`unsubscribes from ${stream}`);
    this.wanted.delete(stream);
    one.period.isOver = true;
    one.presence?.leave();
    one.subscription?.unsubscribe();
  }

  private ended(stream: string, one: Wanted, reason: string): void {
    this.say(`${stream} ended: ${reason}`);
    if (!this.evidence.shows(stream, reason)) {
      this.ledger.object(
        this.name,
        `${stream} is said to be ${reason}, which the server told of an earlier subscription at most`,
      );
    }
    if (this.wanted.get(stream) !== one) return;
    this.wanted.delete(stream);
    one.period.isOver = true;
    one.period.end = reason;
    one.presence?.leave();
    if (reason !== "closed" && this.stage.random.chance(0.7)) this.subscribe(stream);
  }

  /** Some handlers take a while; the message is processed at the end of it. */
  private process(stream: string, one: Wanted, offset: string, value: string): Promise<void> | undefined {
    if (one.subscription?.offset !== undefined) this.begin(stream, one, one.subscription.offset);
    const id = value.slice(0, value.indexOf("|"));
    this.say(`gets ${id} of ${stream} at ${offset}`);
    if (one.period.isOver) this.ledger.object(this.name, `${id} came after the end of the subscription`);
    const entry = { offset, id, isFinished: false };
    one.period.processed.push(entry);
    const finish = () => {
      entry.isFinished = !one.period.isOver;
      if (entry.isFinished) this.moved(stream, offset);
    };
    if (this.stage.random.chance(0.1)) return this.page!.sleep(this.stage.random.between(0, 300)).then(finish);
    finish();
    return undefined;
  }

  private moved(stream: string, offset: string): void {
    if (offset > (this.last.get(stream) ?? "")) this.last.set(stream, offset);
  }

  /**
   * The first word of a subscription tells where it starts. It starts no later than it was promised: by the first answer to it, and
   * by what its page has processed before.
   */
  private begin(stream: string, { period }: Wanted, offset: string): void {
    if (period.begins !== undefined) return;
    const [answered, last] = [this.answered.get(stream), this.last.get(stream)];
    const latest = answered === undefined || (last !== undefined && last > answered) ? last : answered;
    const promised = latest === undefined ? offset : this.stored(stream, latest);
    period.begins = promised < offset ? promised : offset;
  }

  /** A reload keeps the offsets that the page before it has processed. */
  private stored(stream: string, latest: string): string {
    const { offsets = {} } = JSON.parse(this.store.items.get("session") ?? "{}") as {
      offsets?: Record<string, string>;
    };
    const kept = offsets[stream];
    return kept !== undefined && kept > latest ? kept : latest;
  }

  private sent(asked: Asked): void {
    const { method, path, body } = asked;
    this.confirmed.set(asked, this.words.confirmed());
    if (method === "GET" && path.startsWith("stream/")) this.catchUps++;
    if (path !== "heartbeat") return;
    const { sessionId, offsets } = JSON.parse(body) as HeartbeatBody;
    for (const { streamId, epoch, lastOffset } of offsets) {
      this.words.say(keyOf(sessionId, streamId, epoch), lastOffset);
      this.claim(streamId, lastOffset);
    }
    this.words.sent.push(body);
  }

  /** A heartbeat says that everything up to this offset is processed. */
  private claim(stream: string, offset: string): void {
    const period = this.wanted.get(stream)?.period;
    const known = [this.last.get(stream), this.answered.get(stream), period?.begins, this.stored(stream, "")];
    const finished = known.reduce<string>((most, one) => (one !== undefined && one > most ? one : most), "");
    if (period !== undefined && finished < offset) this.ledger.claims.push({ period, finished, offset });
  }

  private heard(page: Page, asked: Asked, status: number, text: string): void {
    const { method, path, body } = asked;
    const confirmed = this.confirmed.get(asked)!;
    if (path === "heartbeat" && status === 200) {
      const { sessionId, offsets } = JSON.parse(body) as HeartbeatBody;
      for (const { streamId, epoch, lastOffset } of offsets) {
        this.words.confirm(keyOf(sessionId, streamId, epoch), lastOffset);
      }
    }
    if (path === "subscriptions" && method === "POST" && status === 200) {
      const { sessionId, streamId } = JSON.parse(body) as { sessionId: string; streamId: string };
      const { offset, epoch } = JSON.parse(text) as { offset: string; epoch: number };
      this.words.judge(keyOf(sessionId, streamId, epoch), offset, confirmed);
      if (page === this.page && page.session?.id === sessionId && !this.answered.has(streamId)) {
        this.answered.set(streamId, offset);
      }
    }
    if (path.startsWith("session-offsets/") && status === 200) {
      const sessionId = path.slice("session-offsets/".length);
      for (const { streamId, lastOffset, epoch } of JSON.parse(text) as HeartbeatBody["offsets"]) {
        this.words.judge(keyOf(sessionId, streamId, epoch), lastOffset, confirmed);
      }
    }
  }

  private failed(error: SluiceError): void {
    this.say(`error: ${error.code} ${error.message}`);
    // The user wants a stream that does not exist at the moment.
    if (error.code === "stream-not-found" || error.code === "stream-gone") return;
    this.ledger.object(this.name, `the client reports ${error.code}: ${error.stack}`);
  }

  private say(what: string): void {
    const line = `+${this.stage.world.elapsedMs} ${this.name} ${what}`;
    this.ledger.note(line);
    this.stage.world.log?.(`  ${line}`);
  }
}

interface HeartbeatBody {
  readonly sessionId: string;
  readonly offsets: readonly { readonly streamId: string; readonly lastOffset: string; readonly epoch: number }[];
}

function keyOf(sessionId: string, stream: string, epoch: number): string {
  return `${sessionId} ${stream} ${epoch}`;
}
