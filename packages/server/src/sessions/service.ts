/**
 * Sessions as every door uses them: subscribe, unsubscribe, publish, get, touch, delete, sweep. It strings idempotent
 * steps on sessions and registries together; the next step detects what a crash left between two of them.
 *
 * Invariants: a subscription is stored in the session before the registry, so that no copy meets a session that would
 * refuse it. It is removed from the session before the registry, so that no copy is applied afterwards.
 */
import { comparePositions, type Position, ZERO } from "@sluice/protocol";
import type { Access, Permission } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import { refuseReserved } from "../core/reserved.ts";
import type { Entity, RowKey } from "../engine/contract.ts";
import type { Rule } from "../engine/keeper.ts";
import type { AppendOutcome } from "../streams/append.ts";
import type { AppendRequest } from "../streams/bodies.ts";
import type { FollowOutcome } from "../streams/following.ts";
import { checkPath } from "../streams/paths.ts";
import type { ReadOutcome } from "../streams/reading.ts";
import { absent, appendRefusal } from "../streams/refusals.ts";
import type { Streams } from "../streams/service.ts";
import { FANOUT_FOLLOWER, lifeOf, META, metaTable, SESSION } from "../streams/state.ts";
import { STREAM_ID } from "./bodies.ts";
import { type EndingParts, Endings, type EndingTask, subscriptionsOf } from "./endings.ts";
import type { Published } from "./fanout.ts";
import {
  type Asker,
  confirmRule,
  expiresAtOf,
  type Joined,
  type JoinOutcome,
  leaveRule,
  mayUse,
  type OpenOutcome,
  openRule,
  touchSessionRule,
  type Used,
  type User,
  undoRule,
  useRule,
} from "./session-rules.ts";
import {
  type CopyFormat,
  SESSION_ROW,
  type Subscription,
  sessionEntity,
  sessionIdOf,
  sessionPath,
  sessionTable,
  subscriptionTable,
} from "./state.ts";
import type { StreamPort } from "./stream-port.ts";

export interface SessionParts extends EndingParts {
  readonly streams: Streams;
}

export interface Subscribe {
  readonly sessionId: string;
  readonly streamId: string;
  readonly format: CopyFormat;
  /** Undefined: only messages from now on. */
  readonly from: Position | "beginning" | undefined;
}

export type SubscribeOutcome =
  | Joined
  | Exclude<JoinOutcome, Joined | { kind: "over" }>
  | { readonly kind: "no-stream" }
  | Extract<FollowOutcome, { kind: "sharded" }>
  | Extract<ReadOutcome, { kind: "trimmed" | "ahead" | "lost" }>;

/** An accepted append, and the outcome of its copies so far. */
export interface PublishOutcome {
  readonly outcome: Extract<AppendOutcome, { kind: "appended" | "duplicate" }>;
  readonly copies: Published;
}

const NO_COPIES: Published = { mode: "inline", count: 0, successes: 0, failures: 0 };

export const SUBSCRIBE: Permission = { action: "subscribe", need: "read-or-write" };
/** A session may always leave a stream. */
export const UNSUBSCRIBE: Permission = { action: "unsubscribe", need: "write", isUnconfined: true };

/** Throws a Refusal for a path that sessions cannot follow. */
function checkStreamId(streamId: string): void {
  if (!STREAM_ID.test(streamId)) {
    throw new Refusal("bad-path", "sessions follow only streams whose path consists of letters, digits, _ . : / and -");
  }
  checkPath(streamId);
  refuseReserved(streamId);
}

export interface SessionInfo {
  readonly expiresAt: number;
  readonly subscriptions: readonly { readonly streamId: string; readonly subscription: Subscription }[];
}

export class Sessions {
  private readonly endings: Endings;

  constructor(private readonly parts: SessionParts) {
    this.endings = new Endings(parts);
  }

  /** Throws a Refusal for a stream that no session may follow, or that the caller may not. */
  async subscribe(project: string, input: Subscribe, access: Access): Promise<SubscribeOutcome> {
    const { sessionId, streamId } = input;
    checkStreamId(streamId);
    await access.demand({ ...SUBSCRIBE, project, stream: streamId, session: sessionId });
    return this.subscribeAs(access, project, input);
  }

  private async subscribeAs(asker: Asker, project: string, input: Subscribe): Promise<SubscribeOutcome> {
    const { port, fanout, events, world } = this.parts;
    const { sessionId, streamId, format, from } = input;
    const startedAt = world.monotonicMs();
    const asked = from === undefined ? undefined : await this.startOf(project, streamId, from);
    if (asked !== undefined && "kind" in asked) return asked;
    return fanout.joining(project, streamId, async () => {
      const followed = await port.follow(project, streamId, fanout.newName(), asked);
      if (followed.kind === "sharded") return followed;
      if (followed.kind !== "following") return { kind: "no-stream" };
      const { name, meta, tail } = followed;
      // On a shared store a read accepts positions beyond the end; a subscription from there would miss messages.
      if (asked !== undefined && comparePositions(asked, tail) > 0) return { kind: "ahead", tail };
      const isCut = meta.config.retention !== undefined;
      // From here on messages are held. If retention trimmed some before, the subscription cannot start there.
      const start = from !== undefined && isCut ? await this.startOf(project, streamId, from) : asked;
      if (start !== undefined && "kind" in start) return start;
      const join = {
        asker,
        stream: streamId,
        name,
        format,
        contentType: meta.config.contentType,
        start: start ?? tail,
      };
      const joined = await this.join(project, sessionId, join);
      if (joined.kind !== "joined") return joined;
      if (joined.isNewSubscription) {
        if (!(await this.register(project, input, name, joined, isCut))) return { kind: "no-stream" };
      } else await this.enlist(project, input, name, joined);
      if (joined.isNewSession) events.tell("session_create", { session: sessionId });
      events.tell("subscribe", { stream: streamId, session: sessionId, latencyMs: world.monotonicMs() - startedAt });
      return joined;
    });
  }

  private async join(project: string, sessionId: string, join: Parameters<StreamPort["join"]>[2]) {
    for (;;) {
      const joined = await this.parts.port.join(project, sessionId, join);
      if (joined.kind !== "over") return joined;
      // The remains of an earlier session of this id go first, so that the new session inherits nothing.
      await this.endings.sweepOne(project, sessionId);
    }
  }

  /** The registry's step. If it fails, the session's step is undone; false if the stream is gone. */
  private async register(
    project: string,
    { sessionId: session, streamId }: Subscribe,
    name: string,
    joined: Joined,
    isCut: boolean,
  ): Promise<boolean> {
    const { fanout, keepers, streams } = this.parts;
    const { incarnation, subscription, isNewSession } = joined;
    const { epoch } = subscription;
    const who = { incarnation, epoch };
    const e = sessionEntity(project, session);
    const keys = [META, SESSION_ROW, subscriptionTable.at(streamId)];
    const undo = () => keepers.submit(e, keys, (view) => undoRule(view, streamId, who, isNewSession));
    let isAdded = false;
    try {
      isAdded = await this.enlist(project, { sessionId: session, streamId }, name, joined);
      // Another node may have released the hold before it saw this subscription. Holding again costs no commit.
      if (isAdded && isCut)
        await streams.keep(project, streamId, { follower: FANOUT_FOLLOWER, name, from: subscription.at });
    } catch (fault) {
      await undo().catch((second) => this.parts.report(`taking back a subscription of ${session} failed`, second));
      throw fault;
    }
    if (!isAdded) {
      await undo();
      return false;
    }
    // No client may learn of the subscription before this step, because until then a repeated subscribe starts over and
    // would forget messages. If it fails, the first copy or the next subscribe confirms it.
    const outcome = await keepers.submit(e, keys, (view) => confirmRule(view, streamId, who));
    if (outcome !== "stands") {
      // It ended meanwhile, and the step that ended it may not have found it in the registry.
      await fanout.remove(project, streamId, { session, ...who, keepsBorrowing: outcome.borrows });
    }
    return true;
  }

  /**
   * Makes sure that the registry has the subscription, at the inbox's position. This also runs for an existing one: a
   * failover may have lost it from the registry alone, and subscribing again restores it with the messages it missed.
   */
  private enlist(
    project: string,
    { sessionId: session, streamId }: Pick<Subscribe, "sessionId" | "streamId">,
    name: string,
    { incarnation, subscription: { epoch, at } }: Joined,
  ): Promise<boolean> {
    return this.parts.fanout.add(project, streamId, { session, incarnation, epoch, name, start: at });
  }

  /** Where a subscription with `from` starts, or why it cannot. */
  private async startOf(
    project: string,
    stream: string,
    from: Position | "beginning",
  ): Promise<Position | Exclude<SubscribeOutcome, Joined>> {
    const page = await this.parts.streams.peek(project, stream, from === "beginning" ? ZERO : from, 1);
    switch (page.kind) {
      case "absent":
      case "gone":
        return { kind: "no-stream" };
      case "page":
        return from === "beginning" ? ZERO : from;
      case "trimmed":
        return from === "beginning" ? page.earliest : page;
      default:
        return page;
    }
  }

  /** The caller's session of this id; created if there is none. It has no inbox until it subscribes by copy. */
  async open(project: string, sessionId: string, asker: Asker): Promise<Exclude<OpenOutcome, { kind: "over" }>> {
    const { keepers, limits, events } = this.parts;
    for (;;) {
      const outcome = await keepers.submit(sessionEntity(project, sessionId), [META, SESSION_ROW], (view, now) =>
        openRule(view, now, asker, limits),
      );
      if (outcome.kind === "open" && outcome.isNew) events.tell("session_create", { session: sessionId });
      if (outcome.kind !== "over") return outcome;
      await this.endings.sweepOne(project, sessionId);
    }
  }

  async unsubscribe(project: string, sessionId: string, streamId: string, access: Access): Promise<"done" | "absent"> {
    const { keepers, fanout, events } = this.parts;
    await access.demand({ ...UNSUBSCRIBE, project, stream: streamId, session: sessionId });
    const keys = [META, SESSION_ROW, subscriptionTable.at(streamId)];
    const outcome = await keepers.submit(sessionEntity(project, sessionId), keys, (view, now) =>
      leaveRule(view, now, streamId, access),
    );
    if (outcome.kind !== "left") return outcome.kind === "absent" ? "absent" : "done";
    const { incarnation, epoch, borrows } = outcome;
    await fanout.remove(project, streamId, { session: sessionId, incarnation, epoch, keepsBorrowing: borrows });
    events.tell("unsubscribe", { stream: streamId, session: sessionId });
    return "done";
  }

  /**
   * An append that waits for its copies. `stored` runs when the message is durable, because a slow copy must not make
   * it look as if it were not stored. Throws a Refusal for an invalid append.
   */
  async publish(
    project: string,
    stream: string,
    append: AppendRequest,
    stored: () => void = () => {},
  ): Promise<PublishOutcome> {
    const { streams, fanout, events, world } = this.parts;
    const startedAt = world.monotonicMs();
    try {
      checkStreamId(stream);
      const outcome = await streams.append(project, stream, append);
      if (outcome.kind !== "appended" && outcome.kind !== "duplicate") throw appendRefusal(outcome, stream);
      stored();
      const isFollowed = outcome.follows?.[FANOUT_FOLLOWER] !== undefined;
      const copies = isFollowed ? await fanout.publish(project, stream, outcome.next) : NO_COPIES;
      events.tell("publish", { stream, count: copies.count, latencyMs: world.monotonicMs() - startedAt });
      return { outcome, copies };
    } catch (fault) {
      const error = fault instanceof Refusal ? fault.code : "internal";
      events.tell("publish_error", { stream, error, latencyMs: world.monotonicMs() - startedAt });
      throw fault;
    }
  }

  /** Ids of sessions, in order. */
  async ids(project: string, after: string, count: number): Promise<readonly string[]> {
    const { ids } = await this.parts.engine.list(project, SESSION, sessionPath(""), sessionPath(after), count);
    return ids.map(sessionIdOf);
  }

  async get(project: string, sessionId: string, asker: Asker): Promise<SessionInfo | undefined> {
    const { engine } = this.parts;
    const e = sessionEntity(project, sessionId);
    const { head, rows } = await engine.load(e, [META, SESSION_ROW]);
    const meta = rows[0] && metaTable.decode(rows[0]);
    const session = rows[1] && sessionTable.decode(rows[1]);
    if (meta === undefined || session === undefined || !mayUse(session, asker)) return undefined;
    if (lifeOf(meta, head, engine.now()) !== "live") return undefined;
    const subscriptions: { streamId: string; subscription: Subscription }[] = [];
    for await (const { streamId, subscription } of subscriptionsOf(this.parts.engine, e, this.parts.limits.pageRows)) {
      if (subscription.left) continue;
      // Only the registry knows whether a pending subscription was completed.
      const who = { session: sessionId, incarnation: session.incarnation, epoch: subscription.epoch };
      const stands = !subscription.pending || (await this.parts.fanout.has(project, streamId, who));
      if (stands) subscriptions.push({ streamId, subscription });
    }
    return { expiresAt: expiresAtOf(meta), subscriptions };
  }

  /** Throws a Refusal unless the caller may read the inbox; another subject's looks like one that does not exist. */
  async demandReader(project: string, path: string, access: Access): Promise<void> {
    if (access.isAdmin) return;
    const { rows } = await this.parts.engine.load(sessionEntity(project, sessionIdOf(path)), [SESSION_ROW]);
    const session = rows[0] && sessionTable.decode(rows[0]);
    if (session === undefined || !mayUse(session, access)) throw absent(path);
  }

  async touch(project: string, sessionId: string, asker: Asker): Promise<{ expiresAt: number } | undefined> {
    const touched = await this.parts.keepers.submit(
      sessionEntity(project, sessionId),
      [META, SESSION_ROW],
      (view, now) => touchSessionRule(view, now, asker),
    );
    if (touched) this.parts.events.tell("session_touch", { session: sessionId });
    return touched;
  }

  /** Runs the rule of another feature on its rows of the caller's session; undefined if the caller has no such session. */
  use<O>(
    project: string,
    sessionId: string,
    user: User,
    keys: readonly RowKey[],
    rule: Rule<O>,
  ): Promise<Used<O> | undefined> {
    const own = [META, SESSION_ROW, ...keys];
    return this.parts.keepers.submit(sessionEntity(project, sessionId), own, (view, now) =>
      useRule(view, now, user, rule),
    );
  }

  entity(project: string, sessionId: string): Entity {
    return sessionEntity(project, sessionId);
  }

  /** `task` removes what another feature has stored elsewhere about a session that ends. It is repeated until it succeeds. */
  onEnding(task: EndingTask): void {
    this.endings.tasks.push(task);
  }

  delete(project: string, sessionId: string, asker: Asker): Promise<"deleted" | "absent"> {
    return this.endings.delete(project, sessionId, asker);
  }

  /** Ends the sessions that have expired. */
  sweep(entities: readonly Entity[]): Promise<void> {
    return this.endings.sweep(entities);
  }
}
