/**
 * A browser tab in the simulated network, which keeps to the handshake of docs/live.md: connect, subscribe, catch up; hold back
 * pushes meanwhile; drop what it has seen. It loses answers, reconnects, reloads and changes its mind. The live scenario plays
 * several.
 *
 * Invariants: it never waits for a late request, so that one may arrive after its successors.
 */
import type { Stage } from "../../scenario.ts";
import type { Ledger, Period } from "./ledger.ts";
import { type Connection, type Push, Requests } from "./requests.ts";
import { Words } from "./words.ts";

/** How often a tab does what, by share. */
export type Habits = Readonly<Record<"subscribe" | "unsubscribe" | "heartbeat" | "disconnect" | "reload", number>>;

/** A pointer as the server lists it. */
interface Stored {
  readonly streamId: string;
  readonly lastOffset: string;
  readonly epoch: number;
}

/** What the tab knows of a stream that it wants. */
interface Followed {
  epoch: number | undefined;
  period: Period | undefined;
  /** Pushes that wait for the catch-up; undefined while there is none. */
  held: Push[] | undefined;
  /** Requests for this subscription that are not answered. */
  asked: number;
  isCatchingUp: boolean;
  catchesUpAgain: boolean;
}

export class SimTab {
  sessionId: string | undefined;
  private readonly wanted = new Map<string, Followed>();
  /** The last offset processed, by stream; kept for as long as the tab lives. */
  private readonly last = new Map<string, string>();
  private readonly words: Words;
  private reloads = 0;
  /** The page is new, and takes up what its session has stored. */
  private isFresh = false;
  /** What came for streams that a new page does not know yet. */
  private readonly early: Push[] = [];
  /** Reads of a stream so far. */
  catchUps = 0;
  private connection: Connection | undefined;
  private isLive = false;
  private isOver = false;
  private connecting: Promise<void> = Promise.resolve();

  private readonly requests: Requests;

  constructor(
    readonly name: string,
    private readonly stage: Stage,
    private readonly ledger: Ledger,
  ) {
    this.requests = new Requests(name, stage, ledger);
    this.words = new Words(name, ledger);
  }

  offsetOf(stream: string): string | undefined {
    return this.last.get(stream);
  }

  get streams(): readonly string[] {
    return [...this.wanted].filter(([, { period }]) => period !== undefined).map(([stream]) => stream);
  }

  /** Whether it has caught up with everything that it knows of. */
  get isSettled(): boolean {
    const isQuiet = ({ isCatchingUp, asked, epoch }: Followed) => !isCatchingUp && asked === 0 && epoch !== undefined;
    return this.isLive && !this.isFresh && [...this.wanted.values()].every(isQuiet);
  }

  /** Acts for a while, connected as well as it can be, and ends without a connection. */
  async act(streams: readonly string[], steps: number, habits: Habits): Promise<void> {
    const { random, world } = this.stage;
    this.open();
    for (let i = 0; i < steps; i++) {
      const stream = random.pick(streams);
      const habit = random.weighted(habits);
      if (habit === "subscribe") await this.subscribe(stream);
      else if (habit === "unsubscribe") await this.unsubscribe(stream);
      else if (habit === "heartbeat") await this.heartbeat();
      else if (habit === "reload") this.reload();
      else this.disconnect();
      await world.sleep(random.between(0, random.pick([0, 30, 400])));
    }
    await this.close();
  }

  /** Opens a connection, and another one whenever it is lost. */
  open(): void {
    this.isOver = false;
    this.connecting = this.stayConnected();
  }

  /** The page is hidden for good. */
  async close(): Promise<void> {
    this.isOver = true;
    this.disconnect();
    await this.connecting;
  }

  /** The page loses all that it knows but the id of its session. */
  private reload(): void {
    this.wanted.clear();
    this.last.clear();
    this.isFresh = true;
    this.reloads++;
    this.disconnect();
  }

  private keyOf(stream: string, epoch: number): string {
    return `${this.sessionId} ${stream} ${epoch}`;
  }

  disconnect(): void {
    this.connection?.leave();
    this.lost();
  }

  private lost(): void {
    this.connection = undefined;
    this.isLive = false;
  }

  private async mint(): Promise<string> {
    for (;;) {
      if (this.sessionId !== undefined) return this.sessionId;
      const reply = await this.requests.ask("POST", "sessions", {});
      if (reply?.status === 201) this.sessionId = reply.body.sessionId;
      else await this.requests.pause();
    }
  }

  /** The session has expired or was deleted. The tab goes on with another, from its own offsets. */
  private forgetSession(sessionId: string): void {
    if (this.sessionId !== sessionId) return;
    this.sessionId = undefined;
    for (const followed of this.wanted.values()) followed.epoch = undefined;
  }

  async subscribe(stream: string): Promise<void> {
    const followed = this.wanted.get(stream) ?? {
      epoch: undefined,
      period: undefined,
      held: [],
      asked: 0,
      isCatchingUp: false,
      catchesUpAgain: false,
    };
    this.wanted.set(stream, followed);
    followed.asked++;
    await this.askFor(stream, followed);
    followed.asked--;
  }

  private async askFor(stream: string, followed: Followed): Promise<void> {
    while (this.wanted.get(stream) === followed) {
      const sessionId = await this.mint();
      // Pushes of a new subscription may come before its answer, and before what they follow was read.
      if (followed.epoch === undefined) followed.held ??= [];
      const reply = await this.requests.ask("POST", "subscriptions", { sessionId, streamId: stream });
      if (this.wanted.get(stream) !== followed) return;
      if (reply?.body.code === "session-not-found") this.forgetSession(sessionId);
      else if (reply !== undefined && reply.status !== 200) {
        // There is no such stream now. A stream that goes takes the subscription with it.
        this.wanted.delete(stream);
      } else if (reply !== undefined && this.sessionId === sessionId) {
        this.subscribed(stream, followed, reply.body);
        return;
      }
      await this.requests.pause();
    }
  }

  private subscribed(stream: string, followed: Followed, { offset, epoch }: { offset: string; epoch: number }): void {
    followed.epoch = epoch;
    this.words.say(this.keyOf(stream, epoch), offset);
    const last = this.last.get(stream);
    if (followed.period === undefined) {
      const begins = last !== undefined && last > offset ? last : offset;
      followed.period = this.ledger.begin(`${this.name}, page ${this.reloads}`, stream, begins);
      this.last.set(stream, begins);
    }
    void this.catchUp(stream, followed);
  }

  async unsubscribe(stream: string): Promise<void> {
    const followed = this.wanted.get(stream);
    if (followed === undefined) return;
    this.wanted.delete(stream);
    const { sessionId } = this;
    if (sessionId === undefined || followed.epoch === undefined) return;
    for (let i = 0; i < 3; i++) {
      const reply = await this.requests.ask("DELETE", "subscriptions", {
        sessionId,
        streamId: stream,
        epoch: followed.epoch,
      });
      if (reply !== undefined || this.wanted.has(stream)) return;
    }
  }

  async heartbeat(): Promise<void> {
    const { sessionId } = this;
    if (sessionId === undefined) return;
    const offsets = [...this.wanted].flatMap(([streamId, { epoch, period }]) =>
      epoch === undefined || period === undefined ? [] : [{ streamId, lastOffset: this.last.get(streamId)!, epoch }],
    );
    const said = offsets.map(({ streamId, epoch, lastOffset }) => [this.keyOf(streamId, epoch), lastOffset] as const);
    for (const [key, offset] of said) this.words.say(key, offset);
    const body = { sessionId, offsets };
    this.words.sent.push(body);
    const reply = await this.requests.ask("POST", "heartbeat", body);
    if (reply?.body.code === "session-not-found") this.forgetSession(sessionId);
    else if (reply?.status === 200) for (const [key, offset] of said) this.words.confirm(key, offset);
    else if (reply !== undefined) {
      this.ledger.object(this.name, `a heartbeat of processed offsets got ${JSON.stringify(reply.body)}`);
    }
    // An earlier one comes again, as from a queue that repeats itself.
    if (this.stage.random.chance(0.3))
      await this.requests.ask("POST", "heartbeat", this.stage.random.pick(this.words.sent));
  }

  private async stayConnected(): Promise<void> {
    while (!this.isOver) {
      await this.connect();
      // A tab that was displaced by a late request of its own comes back too, as when its user looks at it.
      if (!this.isOver) await this.requests.pause();
    }
  }

  private async connect(): Promise<void> {
    const sessionId = await this.mint();
    if (this.isOver) return;
    const connection: Connection = this.requests.connect(sessionId, (push) => {
      if (this.connection === connection) this.take(push);
    });
    this.connection = connection;
    const isUnknown = await connection.over;
    if (this.connection === connection) this.lost();
    if (isUnknown) this.forgetSession(sessionId);
  }

  private take(push: Push): void {
    const { type, streamId } = push;
    this.requests.say(`<- ${type} ${streamId ?? ""} ${push.offset ?? ""} ${push.epoch ?? ""}`);
    if (type === "hello") {
      this.isLive = true;
      this.early.length = 0;
      void this.afterHello();
      return;
    }
    if (type === "bye") return;
    const followed = this.wanted.get(streamId);
    if (followed === undefined) {
      if (this.isFresh) this.early.push(push);
      return;
    }
    if (followed.held !== undefined) followed.held.push(push);
    else this.process(streamId, followed, push);
  }

  /** The stream is gone, and the subscription with it. The tab may want the next stream at that path. */
  private ended(stream: string, followed: Followed): void {
    if (this.wanted.get(stream) !== followed) return;
    this.wanted.delete(stream);
    if (this.stage.random.chance(0.7)) void this.subscribe(stream);
  }

  /** The hub has parked the subscription. The tab comes back to it after a while, because all of its tabs would otherwise take turns. */
  private async comeBack(stream: string, followed: Followed): Promise<void> {
    await this.stage.world.sleep(this.stage.random.between(100, 2_000));
    if (this.wanted.get(stream) === followed && !this.isOver) await this.subscribe(stream);
  }

  private async afterHello(): Promise<void> {
    const { connection, sessionId } = this;
    for (const [stream, followed] of this.wanted)
      if (followed.period !== undefined) void this.catchUp(stream, followed);
    for (;;) {
      if (this.connection !== connection || sessionId === undefined || this.sessionId !== sessionId) return;
      const before = new Map([...this.wanted].map(([stream, { epoch }]) => [stream, epoch]));
      const confirmed = this.words.confirmed();
      const reply = await this.requests.ask("GET", `session-offsets/${sessionId}`);
      if (reply === undefined) {
        await this.requests.pause();
        continue;
      }
      if (reply.status !== 200) return;
      const stored = new Set(reply.body.map((one: { streamId: string }) => one.streamId));
      for (const one of reply.body) this.adopt(one, confirmed);
      this.isFresh = false;
      for (const push of this.early.splice(0)) if (this.wanted.has(push.streamId)) this.take(push);
      for (const [stream, epoch] of before) {
        const followed = this.wanted.get(stream);
        if (stored.has(stream) || followed === undefined || followed.epoch !== epoch) continue;
        // It ended while the tab was away.
        if (epoch === undefined) void this.subscribe(stream);
        else this.ended(stream, followed);
      }
      return;
    }
  }

  /** A new page follows what its session has stored, from the pointer on. */
  private adopt({ streamId, lastOffset, epoch }: Stored, confirmed: ReadonlyMap<string, string>): void {
    this.words.judge(this.keyOf(streamId, epoch), lastOffset, confirmed);
    if (!this.isFresh || this.wanted.has(streamId)) return;
    const held: Push[] = [];
    const followed: Followed = { epoch, period: undefined, held, asked: 0, isCatchingUp: false, catchesUpAgain: false };
    this.wanted.set(streamId, followed);
    this.subscribed(streamId, followed, { offset: lastOffset, epoch });
  }

  private process(stream: string, followed: Followed, { type, offset, payload, epoch }: Push): void {
    if (type === "gone" || type === "idle") {
      if (epoch !== followed.epoch) return;
      if (type === "gone") this.ended(stream, followed);
      else void this.comeBack(stream, followed);
      return;
    }
    if (type === "closed") return;
    const last = this.last.get(stream)!;
    if (offset <= last) return;
    if (type === "notify") {
      void this.catchUp(stream, followed);
      return;
    }
    followed.period!.processed.push({ offset, id: payload.slice(0, payload.indexOf("|")) });
    this.last.set(stream, offset);
  }

  private async catchUp(stream: string, followed: Followed): Promise<void> {
    followed.held ??= [];
    followed.catchesUpAgain = true;
    if (followed.isCatchingUp) return;
    followed.isCatchingUp = true;
    while (followed.catchesUpAgain && this.wanted.get(stream) === followed) {
      followed.catchesUpAgain = false;
      if ((await this.readAll(stream, followed)) === "done") continue;
      // Without a complete catch-up nothing that was pushed may be processed. The next hello begins another.
      followed.isCatchingUp = false;
      followed.held = [];
      return;
    }
    followed.isCatchingUp = false;
    if (this.wanted.get(stream) !== followed || followed.epoch === undefined) return;
    const held = followed.held ?? [];
    followed.held = undefined;
    for (const push of held) {
      if (this.wanted.get(stream) !== followed) return;
      // A notify among them begins another catch-up, which holds the rest back.
      if (followed.held !== undefined) (followed.held as Push[]).push(push);
      else this.process(stream, followed, push);
    }
  }

  private async readAll(stream: string, followed: Followed): Promise<"done" | "stopped"> {
    for (;;) {
      const after = this.last.get(stream)!;
      this.catchUps++;
      const reply = await this.requests.ask(
        "GET",
        `stream/${stream}`,
        undefined,
        `offset=${after}&format=envelope&session=${this.sessionId}`,
      );
      if (this.wanted.get(stream) !== followed) return "stopped";
      if (reply === undefined) {
        if (this.isOver) return "stopped";
        await this.requests.pause();
      } else if (reply.status === 200) {
        for (const { offset, payload } of reply.body) {
          this.process(stream, followed, { type: "data", offset, payload } as Push);
        }
        // A stream that was created anew has fewer messages than were pushed; those of the earlier one are gone with it.
        const next = reply.header("stream-next-offset")!;
        if (next > this.last.get(stream)!) this.last.set(stream, next);
        if (reply.header("stream-up-to-date") === "true") return "done";
      } else if (reply.body.code === "offset-trimmed") {
        const through = reply.header("stream-earliest-offset")!;
        followed.period!.gaps.push({ after, through });
        this.last.set(stream, through);
      } else if (reply.status === 404 || reply.status === 410) {
        this.ended(stream, followed);
        return "stopped";
      } else {
        this.ledger.object(this.name, `a catch-up from ${after} got ${JSON.stringify(reply.body)}`);
        return "stopped";
      }
    }
  }
}
