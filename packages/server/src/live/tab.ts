/**
 * One live connection of a session: it follows the streams that the session subscribes to, and keeps up with changes of the
 * session. The hub makes one per connection.
 *
 * A tab watches its session's entity. After every commit it reads one row and learns from it whether a newer connection has taken
 * its place, whether the token was renewed, and whether the set of subscriptions has changed. So it does not matter which node
 * took the request. A stream that was subscribed before the connection is followed from its tail, and the client catches up by
 * itself after `hello`. A stream that is subscribed later is followed from its pointer, and nothing is left to catch up.
 *
 * Invariants: the tab sends `hello` first, when the position of every follower is fixed. It never follows a stream that its
 * caller may not see. A subscription is followed under one epoch at a time. After the connection has ended the tab has no
 * follower and no watch.
 */
import type { Position } from "@sluice/protocol";
import type { Access } from "../core/action.ts";
import type { Connection, Paced } from "../core/connection.ts";
import type { Feeds } from "../core/feed.ts";
import { type FollowEnd, Follower } from "../core/follower.ts";
import type { EndReason } from "../core/sink.ts";
import { type Engine, EngineError, type Entity } from "../engine/contract.ts";
import { rowsOf } from "../engine/table-rows.ts";
import type { Described, StreamPage } from "../streams/reading.ts";
import type { Streams } from "../streams/service.ts";
import { followsOf, lifeOf, META, metaTable } from "../streams/state.ts";
import { StreamLog } from "../streams/tail-log.ts";
import { type ByeCode, type Codecs, eventBytes, type LiveEvent, notifyOf, type Wire } from "./events.ts";
import { inBatches } from "./in-batches.ts";
import type { Presence, Present } from "./presence.ts";
import { LIVE_FOLLOWER, LIVE_ROW, type Live, liveTable, type Pointer, pointerTable } from "./state.ts";

/** A subscription and the stream as it was when it was looked at. */
export interface Start {
  readonly streamId: string;
  readonly pointer: Pointer;
  readonly described: Described;
}

/** A connection whose nonce is stored, before its first byte. */
export interface Admitted {
  readonly project: string;
  readonly sessionId: string;
  readonly owner: string | undefined;
  readonly access: Access;
  readonly nonce: string;
  readonly live: Live;
  readonly starts: readonly Start[];
}

export interface TabParts {
  readonly engine: Engine;
  readonly streams: Streams;
  readonly feeds: Feeds<StreamPage>;
  readonly codecs: Codecs;
  readonly presence: Presence;
  readonly pageBytes: number;
  readonly pageRows: number;
  readonly batch: number;
  entityOf(project: string, session: string): Entity;
  /** The hub counts active subscriptions and parks some when there are too many. */
  activated(followed: Followed): void;
  deactivated(followed: Followed): void;
  /** The tab has ended. */
  left(tab: Tab): void;
  /** The stream of this subscription is gone. Must not reject. */
  streamGone(tab: Tab, streamId: string, pointer: Pointer): void;
  readonly report: (what: string, fault: unknown) => void;
}

/** A subscription of a tab. Without a follower it is parked, or its stream is closed or gone. */
export interface Followed {
  readonly tab: Tab;
  readonly streamId: string;
  pointer: Pointer;
  follower: Follower<StreamPage> | undefined;
  isParked: boolean;
  /** The follower's position when the hub last looked whether the subscription is in use. */
  seen: Position | undefined;
  /** Whether, and with which state, the session is shown on the stream. */
  shown: Pointer["presence"];
}

export class Tab implements Paced, Present {
  private readonly admitted: Omit<Admitted, "starts">;
  private readonly followed = new Map<string, Followed>();
  private readonly entity: Entity;
  private readonly unwatch: () => void;
  private live: Live;
  private isLooking = false;
  private looksAgain = false;
  private isOver = false;

  constructor(
    private readonly parts: TabParts,
    admitted: Admitted,
    private readonly connection: Connection,
    private readonly wire: Wire,
  ) {
    // The streams as they were at the start are of no use afterwards, and would stay in memory with the tab.
    const { starts, ...lasting } = admitted;
    const { project, sessionId, live } = lasting;
    this.admitted = lasting;
    this.live = live;
    this.entity = parts.entityOf(project, sessionId);
    connection.add(this);
    this.unwatch = parts.engine.watch(this.entity, () => this.wake());
    this.send({ type: "hello", sessionId });
    for (const { streamId, pointer, described } of starts) this.begin(streamId, pointer, described, "tail");
    // The session may have changed between the look at its rows and the watch.
    this.wake();
  }

  get key(): string {
    return this.entity.key;
  }

  /** Grows with every connection of the session. */
  get number(): number {
    return this.admitted.live.connections;
  }

  get nonce(): string {
    return this.admitted.nonce;
  }

  get subject(): string | undefined {
    return this.admitted.owner;
  }

  get hasEnded(): boolean {
    return this.isOver;
  }

  get project(): string {
    return this.admitted.project;
  }

  get sessionId(): string {
    return this.admitted.sessionId;
  }

  get access(): Access {
    return this.admitted.access;
  }

  /** When the caller's credentials end; a renewed token of the session counts too. Epoch ms. */
  get untilMs(): number {
    const { untilMs } = this.admitted.access;
    return untilMs === undefined ? Number.POSITIVE_INFINITY : Math.max(untilMs, this.live.tokenUntilMs ?? 0);
  }

  send(event: LiveEvent | object): void {
    this.connection.send(eventBytes(this.wire, event));
  }

  /** The epoch lets a client ignore what concerns an earlier subscription of its own. */
  private sendOf({ streamId, pointer: { epoch } }: Followed, type: "closed" | "gone" | "idle"): void {
    this.send({ type, streamId, epoch });
  }

  end(why: EndReason, code: ByeCode): void {
    this.connection.end(why, code);
  }

  /** A tab has no pages of its own. */
  async turn(): Promise<void> {}

  /** The connection has ended. */
  stop(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.unwatch();
    for (const followed of this.followed.values()) this.drop(followed);
    this.parts.left(this);
  }

  /** Follows the subscription no more, until the client subscribes again. */
  park(followed: Followed): void {
    this.unfollow(followed);
    followed.isParked = true;
    this.sendOf(followed, "idle");
  }

  private wake(): void {
    this.looksAgain = true;
    if (this.isLooking || this.isOver) return;
    this.isLooking = true;
    void this.look();
  }

  private async look(): Promise<void> {
    try {
      while (this.looksAgain && !this.isOver) {
        this.looksAgain = false;
        await this.lookOnce();
      }
    } catch (fault) {
      // A store that does not answer is the operator's news already, and would be told once per connection.
      if (!(fault instanceof EngineError))
        this.parts.report("reading the session of a live connection failed; the connection is closed", fault);
      this.end("fault", "unavailable");
    } finally {
      this.isLooking = false;
    }
  }

  private async lookOnce(): Promise<void> {
    const { engine } = this.parts;
    const { head, rows } = await engine.load(this.entity, [META, LIVE_ROW]);
    if (this.isOver) return;
    const meta = rows[0] && metaTable.decode(rows[0]);
    const live = rows[1] && liveTable.decode(rows[1]);
    if (live === undefined || lifeOf(meta, head, engine.now()) !== "live") {
      this.end("expired", "session-not-found");
    } else if (live.nonce !== this.admitted.nonce) {
      // With fewer connections than this one is the store has lost its end, and there is no newer one.
      const isDisplaced = live.connections >= this.admitted.live.connections;
      this.end(isDisplaced ? "displaced" : "fault", isDisplaced ? "displaced" : "unavailable");
    } else {
      const { version } = this.live;
      this.live = live;
      if (live.version !== version) await this.followChanges();
    }
  }

  /** Follows what was subscribed since, from its pointer on, and leaves what was unsubscribed. */
  private async followChanges(): Promise<void> {
    const { access } = this.admitted;
    const pointers = new Map<string, Pointer>();
    for await (const { key, value } of rowsOf(this.parts.engine, this.entity, pointerTable, this.parts.pageRows)) {
      if (access.sees(key)) pointers.set(key, value);
    }
    if (this.isOver) return;
    for (const [streamId, followed] of this.followed) {
      if (pointers.get(streamId)?.epoch === followed.pointer.epoch) continue;
      this.drop(followed);
    }
    const begun = [...pointers].filter(([streamId, pointer]) => {
      const followed = this.followed.get(streamId);
      if (followed === undefined) return true;
      const isAsked = followed.pointer.asked !== pointer.asked;
      followed.pointer = pointer;
      this.show(followed, pointer.presence);
      return followed.isParked && isAsked;
    });
    await inBatches(begun, this.parts.batch, async ([streamId, pointer]) => {
      const described = await this.parts.streams.describe(this.project, streamId);
      if (!this.isOver) this.begin(streamId, pointer, described, "pointer");
    });
  }

  private drop(followed: Followed): void {
    this.unfollow(followed);
    this.show(followed, undefined);
    this.followed.delete(followed.streamId);
  }

  /** Follows the client's wish to be shown on the stream, if it has changed. */
  private show(followed: Followed, wanted: Pointer["presence"]): void {
    const { presence } = this.parts;
    const before = followed.shown;
    followed.shown = wanted;
    if (wanted === undefined && before !== undefined) presence.exit(this, followed.streamId);
    const isChanged = JSON.stringify(before) !== JSON.stringify(wanted);
    if (wanted !== undefined && isChanged) presence.enter(this, followed.streamId, wanted.state);
  }

  private begin(streamId: string, pointer: Pointer, described: Described, from: "tail" | "pointer"): void {
    // What was sent before may have been more than the client takes, and have ended the connection.
    if (this.isOver) return;
    const shown = this.followed.get(streamId)?.shown;
    const followed: Followed = {
      tab: this,
      streamId,
      pointer,
      follower: undefined,
      isParked: false,
      seen: undefined,
      shown,
    };
    this.followed.set(streamId, followed);
    const isIt = described.kind === "live" && followsOf(described.meta)?.[LIVE_FOLLOWER] === pointer.name;
    if (!isIt) {
      this.gone(followed);
      return;
    }
    const { meta, head } = described;
    const atTail = from === "tail";
    const next = atTail ? head.last : pointer.at;
    this.show(followed, pointer.presence);
    this.follow(followed, { kind: "page", path: streamId, meta, head, from: next, messages: [], next, atTail });
  }

  private follow(followed: Followed, page: StreamPage): void {
    const { streams, feeds, codecs, pageBytes } = this.parts;
    const { connection } = this;
    const log = new StreamLog(streams, this.project, followed.streamId, pageBytes);
    const onEnd = (why: FollowEnd) => this.followerEnded(followed, why);
    const follower = new Follower({ log, feeds, connection, codec: codecs.of(this.wire), onEnd });
    followed.follower = follower;
    this.parts.activated(followed);
    follower.begin(page);
  }

  private unfollow(followed: Followed): void {
    if (followed.follower === undefined) return;
    followed.follower.stop();
    followed.follower = undefined;
    this.parts.deactivated(followed);
  }

  private followerEnded(followed: Followed, why: FollowEnd): void {
    this.unfollow(followed);
    if (why === "over") this.sendOf(followed, "closed");
    else if (why === "fault") this.end("fault", "unavailable");
    else void this.examine(followed);
  }

  /** The log cannot be read on: the stream is gone, or retention or a failover took messages that were not pushed yet. */
  private async examine(followed: Followed): Promise<void> {
    const { streamId, pointer } = followed;
    let described: Described;
    try {
      described = await this.parts.streams.describe(this.project, streamId);
    } catch {
      return this.end("fault", "unavailable");
    }
    if (this.isOver || this.followed.get(streamId) !== followed) return;
    if (described.kind !== "live" || followsOf(described.meta)?.[LIVE_FOLLOWER] !== pointer.name) {
      return this.gone(followed);
    }
    // The client reads on by itself, and that read says what is lost.
    this.send(notifyOf(streamId, described.head.last));
    this.begin(streamId, pointer, described, "tail");
  }

  /** Stays known under its epoch, so that the client is told once. */
  private gone(followed: Followed): void {
    const { streamId, pointer } = followed;
    this.show(followed, undefined);
    this.sendOf(followed, "gone");
    this.parts.streamGone(this, streamId, pointer);
  }
}
