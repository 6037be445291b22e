/**
 * Live as every door uses it: mint, subscribe, unsubscribe, heartbeat, offsets. Open connections are the hub's.
 *
 * Invariants: a subscription is stored in the session, then on the roll of its stream; it is removed in the same order. So the
 * pointer decides, and a step that a crash prevented is found by the client's repeat or by the reconciliation. A pointer moves
 * only to an offset that the stream has given out.
 */
import { formatOffset, type Position } from "@sluice/protocol";
import type { Access, Permission } from "../core/action.ts";
import { hex } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";
import { refuseReserved } from "../core/reserved.ts";
import { newSessionId } from "../core/session-id.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { isNeverGiven } from "../engine/other-nodes.ts";
import { rowsOf } from "../engine/table-rows.ts";
import { checkPath } from "../streams/paths.ts";
import { absent, gone, sharded } from "../streams/refusals.ts";
import type { Streams } from "../streams/service.ts";
import type { LiveLimits } from "./defaults.ts";
import { inBatches } from "./in-batches.ts";
import type { LiveMeter } from "./meter.ts";
import { advances, heartbeatRule, type Processed, renewRule, subscribeRule, unsubscribeRule } from "./pointer-rules.ts";
import type { Rolls } from "./rolls.ts";
import type { SessionPort } from "./session-port.ts";
import { LIVE_FOLLOWER, LIVE_ROW, type Pointer, pointerTable } from "./state.ts";
import type { Tokens } from "./tokens.ts";

const BY_SESSION = { need: "read-or-write", bySession: "session" } as const;
export const MINT: Permission = { action: "live.mint", ...BY_SESSION };
export const SUBSCRIBE: Permission = { action: "live.subscribe", ...BY_SESSION };
/** A session may always leave a stream. */
export const UNSUBSCRIBE: Permission = { action: "live.unsubscribe", ...BY_SESSION, isUnconfined: true };
export const HEARTBEAT: Permission = { action: "live.heartbeat", ...BY_SESSION };
export const OFFSETS: Permission = { action: "live.offsets", ...BY_SESSION };
export const PRESENT: Permission = { action: "live.presence", need: "read", bySession: "subscribed" };
export const CONNECT: Permission = { action: "live.connect", ...BY_SESSION };

export interface LiveParts {
  readonly engine: Engine;
  readonly world: World;
  readonly streams: Streams;
  readonly sessions: SessionPort;
  readonly tokens: Tokens;
  readonly rolls: Rolls;
  readonly limits: LiveLimits;
  readonly meter: LiveMeter;
}

export interface MintedSession {
  readonly isNew: boolean;
  readonly sessionId: string;
  readonly token: string;
  readonly expiresAt: number;
}

export interface Subscription {
  readonly sessionId: string;
  readonly streamId: string;
  readonly presence?: boolean | undefined;
  readonly state?: unknown;
}

export interface Unsubscription {
  readonly sessionId: string;
  readonly streamId: string;
  readonly epoch?: number | undefined;
}

/** A pointer as clients see it. */
export interface Offset {
  readonly streamId: string;
  readonly lastOffset: string;
  readonly epoch: number;
}

const NAME_BYTES = 8;

export class Live {
  constructor(private readonly parts: LiveParts) {}

  /** Creates a session, or renews the token of the caller's session. Throws a Refusal if the caller has no such session. */
  async mint(project: string, sessionId: string | undefined, access: Access): Promise<MintedSession> {
    const { tokens, sessions } = this.parts;
    if (sessionId === undefined) return this.mintNew(project, access);
    await access.demand({ ...MINT, project, session: sessionId });
    const untilMs = tokens.untilFor(access);
    const used = await sessions.use(project, sessionId, access, [LIVE_ROW], (view) => renewRule(view, untilMs));
    if (used === undefined) throw noSession(sessionId);
    const { token } = await tokens.mint(project, sessionId, used.owner, access);
    return { isNew: false, sessionId, token, expiresAt: used.expiresAt };
  }

  private async mintNew(project: string, access: Access): Promise<MintedSession> {
    const { tokens, sessions, world } = this.parts;
    // A session's token may renew itself, but not make further sessions.
    await access.demand({ action: MINT.action, need: MINT.need, project });
    for (;;) {
      const sessionId = newSessionId(world);
      const opened = await sessions.open(project, sessionId, access);
      if (opened.kind !== "open" || !opened.isNew) continue;
      const { token } = await tokens.mint(project, sessionId, access.subject, access);
      return { isNew: true, sessionId, token, expiresAt: opened.expiresAt };
    }
  }

  /** Throws a Refusal for a stream that does not exist, that no tab may follow, or that the caller may not. */
  async subscribe(
    project: string,
    { sessionId, streamId, presence = false, state }: Subscription,
    access: Access,
  ): Promise<Pointer> {
    const { sessions, rolls, limits } = this.parts;
    checkPath(streamId);
    refuseReserved(streamId);
    await access.demand({ ...SUBSCRIBE, project, stream: streamId, session: sessionId });
    const { name, tail } = await this.follow(project, streamId);
    const keys = [LIVE_ROW, pointerTable.at(streamId)];
    const input = {
      stream: streamId,
      name,
      tail,
      max: limits.subscriptions,
      presence: presence ? { state } : undefined,
    };
    const used = await sessions.use(project, sessionId, access, keys, (view, now) => subscribeRule(view, now, input));
    if (used === undefined) throw noSession(sessionId);
    if (used.outcome.kind === "too-many") {
      const detail = `the session ${sessionId} follows ${limits.subscriptions} streams already; unsubscribe from one first`;
      throw new Refusal("too-many-subscriptions", detail);
    }
    const { pointer } = used.outcome;
    // A repeat too, because a failover may have lost the row of the roll alone.
    await rolls.enroll(project, streamId, { session: sessionId, incarnation: used.incarnation, epoch: pointer.epoch });
    return pointer;
  }

  private async follow(project: string, streamId: string): Promise<{ readonly name: string; readonly tail: Position }> {
    const { streams, world } = this.parts;
    const name = hex(world.randomBytes(NAME_BYTES));
    const followed = await streams.follow(project, streamId, { follower: LIVE_FOLLOWER, name, holds: false });
    if (followed.kind === "following") return followed;
    if (followed.kind === "sharded") throw sharded(streamId, followed.shards);
    throw followed.kind === "gone" ? gone(streamId) : absent(streamId);
  }

  /** With an epoch, only the subscription of that epoch ends, so that a request that comes late ends no later one. */
  async unsubscribe(project: string, { sessionId, streamId, epoch }: Unsubscription, access: Access): Promise<void> {
    const { sessions, rolls } = this.parts;
    await access.demand({ ...UNSUBSCRIBE, project, stream: streamId, session: sessionId });
    const keys = [LIVE_ROW, pointerTable.at(streamId)];
    const used = await sessions.use(project, sessionId, access, keys, (view) =>
      unsubscribeRule(view, streamId, { epoch }),
    );
    if (used === undefined) throw noSession(sessionId);
    const { outcome: ended, incarnation } = used;
    if (ended !== undefined) await rolls.strike(project, streamId, [{ session: sessionId, incarnation, epoch: ended }]);
  }

  /**
   * Stores what the client has processed, in one commit, and prolongs the session. Throws a Refusal if a word is ahead of its
   * stream; then nothing is stored. Words about streams that are gone or not subscribed are ignored.
   */
  async heartbeat(
    project: string,
    sessionId: string,
    words: readonly Processed[],
    access: Access,
  ): Promise<{ readonly expiresAt: number }> {
    const { sessions, meter } = this.parts;
    await access.demand({ ...HEARTBEAT, project, session: sessionId });
    const given = await this.given(project, sessionId, words, access);
    const keys = given.map(({ stream }) => pointerTable.at(stream));
    const used = await sessions.use(project, sessionId, access, keys, (view) => heartbeatRule(view, given));
    if (used === undefined) throw noSession(sessionId);
    if (used.outcome > 0) meter.heartbeats.moved++;
    else meter.heartbeats.idle++;
    meter.pointersMoved += used.outcome;
    return { expiresAt: used.expiresAt };
  }

  /** The words that would move a pointer, each checked against its stream. */
  private async given(
    project: string,
    sessionId: string,
    words: readonly Processed[],
    access: Access,
  ): Promise<readonly Processed[]> {
    const { engine, sessions, streams, limits, meter } = this.parts;
    const keys = words.map(({ stream }) => pointerTable.at(stream));
    const { rows } = await engine.load(sessions.entity(project, sessionId), keys);
    const moving = words.filter((word, i) => advances(rows[i] && pointerTable.decode(rows[i]), word));
    const checked = await inBatches(moving, limits.batch, async (word) => {
      const described = await streams.describe(project, word.stream);
      if (described.kind !== "live") return undefined;
      const { head } = described;
      if (!isNeverGiven(engine, head, word.at)) return word;
      // The refusal tells of the stream, so it is for the owner of the session alone.
      await this.demandSession(project, sessionId, access);
      meter.heartbeats.refused++;
      const tail = formatOffset(head.last);
      const detail = `lastOffset ${formatOffset(word.at)} of ${word.stream} is ahead of its end ${tail}; nothing was stored`;
      throw new Refusal("offset-ahead", detail, { nextOffset: tail });
    });
    return checked.filter((word) => word !== undefined);
  }

  /** The pointers of the caller's session. Throws a Refusal if there is no such session. */
  async offsets(project: string, sessionId: string, access: Access): Promise<readonly Offset[]> {
    const { engine, sessions, limits } = this.parts;
    await access.demand({ ...OFFSETS, project, session: sessionId });
    await this.demandSession(project, sessionId, access);
    const offsets: Offset[] = [];
    for await (const { key, value } of rowsOf(
      engine,
      sessions.entity(project, sessionId),
      pointerTable,
      limits.pageRows,
    )) {
      offsets.push({ streamId: key, lastOffset: formatOffset(value.at), epoch: value.epoch });
    }
    return offsets;
  }

  /** Throws a Refusal if the caller has no such session. It counts as a use of the session. */
  private async demandSession(project: string, sessionId: string, access: Access): Promise<void> {
    const rule = () => ({ outcome: undefined });
    const used = await this.parts.sessions.use<void>(project, sessionId, access, [], rule);
    if (used === undefined) throw noSession(sessionId);
  }

  /** Removes an ended session from the rolls of the streams that it followed. */
  async sessionEnding(project: string, session: string, incarnation: string): Promise<void> {
    const { engine, sessions, rolls, limits } = this.parts;
    const followed: { readonly stream: string; readonly epoch: number }[] = [];
    for await (const { key, value } of rowsOf(
      engine,
      sessions.entity(project, session),
      pointerTable,
      limits.pageRows,
    )) {
      followed.push({ stream: key, epoch: value.epoch });
    }
    await inBatches(followed, limits.batch, ({ stream, epoch }) =>
      rolls.strike(project, stream, [{ session, incarnation, epoch }]),
    );
  }
}

export function noSession(sessionId: string): Refusal {
  return new Refusal("session-not-found", `there is no session ${sessionId}`);
}
