/**
 * The owner of one session id: subscribes and unsubscribes, reads, touches, deletes and creates the session again. The
 * sessions scenario starts it.
 *
 * Invariants: it does one thing at a time, and after a request without an answer it looks up the outcome; so it always knows
 * its state.
 */
import { formatOffset, type Position, parseOffset } from "@sluice/protocol";
import type { Caller, Told } from "./caller.ts";
import { type ContentType, decode } from "./messages.ts";
import type { Epoch, Interval, Life } from "./story.ts";

export interface SourceSpec {
  readonly path: string;
  readonly contentType: ContentType;
  readonly maxMessages: number | undefined;
}

export interface Habits {
  readonly sources: readonly SourceSpec[];
  readonly ttlSeconds: number;
  readonly deletes: boolean;
  /** Whether inboxes trim their oldest copies. */
  readonly isCut: boolean;
}

interface Listed {
  readonly streamId: string;
  readonly missed?: { readonly after: string; readonly through: string };
}

const ACTIONS = { subscribe: 5, unsubscribe: 2, read: 3, touch: 1, look: 1, delete: 1, rest: 4 };

export class Owner {
  life: Life | undefined;
  private offset = "-1";
  /** The last time at which it was certainly used. */
  private usedMs = 0;
  /** The content of the inbox: raw copies of one type, or JSON. */
  private inboxType: ContentType = "application/json";
  /** A subscribe was given up, and may have made a session that appeared only after a restart. */
  private isInDoubt = false;
  private readonly formats = new Map<string, "raw" | "envelope">();

  constructor(
    readonly session: string,
    private readonly caller: Caller,
    private readonly habits: Habits,
  ) {}

  private get random() {
    return this.caller.stage.random;
  }

  async act(steps: number): Promise<void> {
    const { world } = this.caller.stage;
    for (let i = 0; i < steps; i++) {
      await this.step(this.random.weighted(ACTIONS));
      await world.sleep(this.random.between(0, this.random.pick([0, 20, 200])));
    }
  }

  private async step(action: keyof typeof ACTIONS): Promise<void> {
    const standing = this.life?.epochs.filter(({ ended }) => ended === undefined) ?? [];
    switch (action) {
      case "subscribe":
        return this.subscribe();
      case "unsubscribe":
        return standing.length > 0 ? this.unsubscribe(this.random.pick(standing)) : undefined;
      case "read":
        return this.read();
      case "touch":
        return this.touch();
      case "look":
        return this.compare();
      case "delete":
        return this.habits.deletes ? this.delete() : undefined;
      default:
        return this.caller.stage.world.sleep(this.random.between(1, this.random.pick([50, 1_000])));
    }
  }

  private async subscribe(): Promise<void> {
    const source = this.chooseSource();
    if (source === undefined) return;
    const known = this.life?.epochs.find(({ source: path, ended }) => path === source.path && ended === undefined);
    const from = this.random.chance(0.4) ? this.chooseStart(source.path) : undefined;
    // Once subscribed, the format stays.
    const format = known === undefined ? this.chooseFormat(source) : this.formats.get(source.path)!;
    const body = { sessionId: this.session, streamId: source.path, format, ...(from && { from }) };
    const began = this.caller.story.begin();
    const startedMs = this.caller.stage.world.now();
    // Retries like a careful client; sometimes it gives up and looks up the outcome.
    let told = await this.caller.once(post("/v1/default/subscribe", body), began);
    let repetitions = 0;
    for (; told.kind !== "reply" && this.random.chance(0.9); repetitions++) {
      told = await this.caller.once(post("/v1/default/subscribe", body), began);
    }
    const isRefused = told.kind === "reply" && told.status !== 200;
    if (told.kind === "reply" && isRefused) {
      await this.refused(told, source);
      if (repetitions === 0) return;
    }
    if (told.kind !== "reply") {
      await this.unsubscribeForSure(source.path, began);
      for (const one of this.life?.epochs ?? []) if (one.source === source.path) one.ended ??= began;
      this.isInDoubt = true;
    }
    const listed = await this.look(startedMs);
    const isSure = listed?.includes(source.path) === true;
    if (told.kind === "reply" && !isRefused) this.used(startedMs);
    if (this.life === undefined) return;
    this.formats.set(source.path, format);
    if (told.kind === "reply" && !isRefused && !isSure && !this.mayHaveEnded({ source: source.path, began })) {
      this.caller.story.object(`${this.session} subscribed to ${source.path} and is not subscribed`);
    }
    // A stream that was deleted in between may have ended the known subscription, and then this is a new one.
    if (known !== undefined && this.life.epochs.includes(known) && !this.mayHaveEnded(known)) return;
    const start = from === "-1" ? "beginning" : from === undefined ? undefined : parseOffset(from);
    // It may have ended before the look. Whether it continues or begins anew is unknown.
    const ended = isSure ? undefined : { ...began, returned: this.caller.story.tick() };
    const epoch: Epoch = { source: source.path, from: start, began, isSure: isSure && known === undefined, ended };
    // Each attempt may have met another stream of the same path.
    for (let i = 0; i < repetitions; i++) this.life.epochs.push({ ...epoch, isSure: false, ended: { ...began } });
    this.life.epochs.push(epoch);
  }

  private async refused(told: Extract<Told, { kind: "reply" }>, { path }: SourceSpec): Promise<void> {
    const { code } = JSON.parse(told.text);
    if (code === "content-type-mismatch" && this.isInDoubt) return this.leave();
    const isExpected = told.status === 404 || told.status === 410;
    if (!isExpected) this.caller.story.object(`${this.session} could not subscribe to ${path}: ${told.text}`);
  }

  private chooseFormat({ contentType }: SourceSpec): "raw" | "envelope" {
    if (this.inboxType !== "application/json") return "raw";
    return contentType === "application/json" && this.random.chance(0.5) ? "raw" : "envelope";
  }

  private mayHaveEnded({ source, began }: Pick<Epoch, "source" | "began">): boolean {
    return this.caller.story.deletions.some((one) => one.source === source && one.returned > began.invoked);
  }

  private chooseSource(): SourceSpec | undefined {
    const { sources } = this.habits;
    if (this.life === undefined) {
      const first = this.random.pick(sources);
      this.inboxType = this.random.chance(0.5) ? "application/json" : first.contentType;
      this.formats.clear();
      return first;
    }
    const fitting = sources.filter(
      ({ contentType }) => this.inboxType === "application/json" || contentType === this.inboxType,
    );
    return fitting.length > 0 ? this.random.pick(fitting) : undefined;
  }

  /** The beginning, or an offset that existed once. */
  private chooseStart(path: string): string | undefined {
    const known = this.starts.get(path);
    return known === undefined || this.random.chance(0.5) ? "-1" : formatOffset(this.random.pick(known));
  }

  /** Offsets that publishers got, by stream. */
  starts: ReadonlyMap<string, Position[]> = new Map();

  /** Afterwards it is not subscribed, whatever the outcome of an unanswered attempt. */
  private async unsubscribeForSure(streamId: string, until: Interval): Promise<void> {
    const body = { sessionId: this.session, streamId };
    await this.caller.insist({ ...post("/v1/default/unsubscribe", body), method: "DELETE" });
    this.caller.story.end(until);
  }

  private async unsubscribe(epoch: Epoch): Promise<void> {
    const body = { sessionId: this.session, streamId: epoch.source };
    const ended = this.caller.story.begin();
    const told = await this.caller.once({ ...post("/v1/default/unsubscribe", body), method: "DELETE" }, ended);
    if (told.kind === "unsent") return;
    if (told.kind === "reply" && told.status !== 204) return this.gone(`unsubscribe ${told.status}`);
    if (told.kind === "unknown" && (await this.look())?.includes(epoch.source) === true) return;
    for (const one of this.life?.epochs ?? []) if (one.source === epoch.source) one.ended ??= ended;
  }

  /** The subscriptions that the server reports; undefined when the session is missing. */
  async look(startedMs?: number): Promise<readonly string[] | undefined> {
    const told = await this.caller.insist({ method: "GET", path: `/v1/default/session/${this.session}` });
    if (told.status === 404) {
      if (startedMs === undefined) this.gone("look");
      else this.over();
      return undefined;
    }
    const inbox = await this.caller.insist({ method: "HEAD", path: this.inbox });
    if (inbox.status === 404) {
      this.over();
      return undefined;
    }
    const { generation } = parseOffset(inbox.header("stream-next-offset")!)!;
    if (this.life?.generation !== generation) this.beginLife(generation);
    const { subscriptions } = JSON.parse(told.text) as { subscriptions: readonly Listed[] };
    for (const { streamId: source, missed } of subscriptions) {
      if (missed === undefined) continue;
      const [after, through] = [parseOffset(missed.after)!, parseOffset(missed.through)!];
      this.life!.missed.push({ source, after, through });
    }
    return subscriptions.map(({ streamId }) => streamId);
  }

  /** Compares the expected subscriptions with the reported ones. */
  async compare(): Promise<void> {
    const listed = await this.look();
    if (listed === undefined || this.life === undefined) return;
    const standing = this.life.epochs.filter(({ ended }) => ended === undefined);
    for (const epoch of standing) {
      if (listed.includes(epoch.source)) continue;
      if (this.mayHaveEnded(epoch)) epoch.ended = this.now();
      else this.caller.story.object(`${this.session} has lost its subscription to ${epoch.source}`);
    }
    for (const source of listed) {
      if (!standing.some((epoch) => epoch.source === source))
        this.caller.story.object(`${this.session} is subscribed to ${source}, which it has left`);
    }
  }

  private beginLife(generation: number): void {
    this.over();
    this.life = {
      session: this.session,
      generation,
      epochs: [],
      seen: [],
      wasCut: this.habits.isCut,
      missed: [],
      reads: [],
      isOver: false,
    };
    this.caller.story.lives.push(this.life);
    this.offset = "-1";
  }

  private get inbox(): string {
    return `/v1/default/stream/session:${this.session}`;
  }

  /** Reads to the end of the inbox. */
  async read(): Promise<void> {
    const { story, stage } = this.caller;
    for (let began: Interval | undefined; this.life !== undefined; ) {
      began ??= story.begin();
      const startedMs = stage.world.now();
      const search = `offset=${this.offset}&format=envelope`;
      const told = await this.caller.insist({ method: "GET", path: this.inbox, search });
      if (told.status === 404) return this.gone("read");
      if (told.status === 410) {
        this.life.seen = [];
        this.offset = "-1";
        continue;
      }
      this.take(told.text);
      this.offset = told.header("stream-next-offset")!;
      this.used(startedMs);
      if (told.header("stream-up-to-date") !== "true") continue;
      this.life.reads.push({ ...began, returned: story.tick(), count: this.life.seen.length });
      return;
    }
  }

  /** The content of the inbox, from its beginning. */
  async readAgain(): Promise<string[]> {
    const ids: string[] = [];
    for (let offset = "-1"; ; ) {
      const search = `offset=${offset}&format=envelope`;
      const told = await this.caller.insist({ method: "GET", path: this.inbox, search });
      if (told.status !== 200) return ids;
      ids.push(...decode(told.text).map(({ id, damage }) => damage ?? id));
      offset = told.header("stream-next-offset")!;
      if (told.header("stream-up-to-date") === "true") return ids;
    }
  }

  private take(text: string): void {
    for (const found of decode(text)) {
      if (found.damage !== undefined) this.caller.story.object(`${this.session} holds a damaged copy: ${found.damage}`);
      this.life!.seen.push(found);
    }
  }

  private async touch(): Promise<void> {
    const startedMs = this.caller.stage.world.now();
    const told = await this.caller.once(post(`/v1/default/session/${this.session}/touch`, {}));
    if (told.kind !== "reply") return;
    if (told.status === 200) this.used(startedMs);
    else this.gone("touch");
  }

  private async delete(): Promise<void> {
    if (this.life === undefined) return;
    await this.read();
    const told = await this.caller.once({ method: "DELETE", path: `/v1/default/session/${this.session}` });
    if (told.kind === "unsent") return;
    if (told.kind === "unknown" && (await this.look(0)) !== undefined) {
      // A write that a drive has refused may still appear after a restart.
      this.usedMs = 0;
      return;
    }
    this.over();
  }

  private used(ms: number): void {
    this.usedMs = Math.max(this.usedMs, ms);
  }

  /** The session is missing although no client deleted it. */
  private gone(how: string): void {
    const { story, stage } = this.caller;
    if (this.life !== undefined && stage.world.now() < this.usedMs + this.habits.ttlSeconds * 1_000) {
      story.object(`${this.session} was used at ${this.usedMs} and is gone too early (${how})`);
    }
    this.over();
  }

  private over(): void {
    if (this.life === undefined) return;
    this.life.isOver = true;
    const ended = this.now();
    for (const epoch of this.life.epochs) epoch.ended ??= ended;
    this.life = undefined;
  }

  private now(): Interval {
    const interval = this.caller.story.begin();
    this.caller.story.end(interval);
    return interval;
  }

  /** Deletes it for good. */
  async leave(): Promise<void> {
    await this.caller.insist({ method: "DELETE", path: `/v1/default/session/${this.session}` });
    this.over();
  }
}

function post(path: string, body: object) {
  return {
    method: "POST",
    path,
    headers: { "content-type": "application/json" },
    body: Buffer.from(JSON.stringify(body)),
  };
}
