/**
 * The steps of subscribing and fan-out that commit to a stream: the source that sessions follow, and the inboxes that
 * receive copies. Called by the session service and by deliveries. It is a port, so that a test can delay, fail or
 * misdirect each step. `LocalStreamPort` implements it on the keepers of this process.
 *
 * Invariants: each step is one commit of one entity.
 */
import type { Position } from "@sluice/protocol";
import type { RowKey } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import type { FollowOutcome } from "../streams/following.ts";
import type { Streams } from "../streams/service.ts";
import { FANOUT_FOLLOWER, MARKS, META } from "../streams/state.ts";
import type { Copy } from "./copy.ts";
import type { SessionLimits } from "./defaults.ts";
import {
  type Addressed,
  type CopyOutcome,
  copyRule,
  destroyRule,
  type Join,
  type JoinOutcome,
  joinRule,
} from "./session-rules.ts";
import { SESSION_ROW, sessionEntity, subscriptionTable } from "./state.ts";

export interface StreamPort {
  /** Marks the stream as followed by sessions. Returns the tail from which on appends announce it. */
  follow(project: string, stream: string, name: string, from?: Position): Promise<FollowOutcome>;
  /** Creates or touches the inbox of a session, and stores the subscription in it. */
  join(project: string, session: string, join: Join): Promise<JoinOutcome>;
  /** Copies into an inbox. */
  deliver(project: string, session: string, copy: Copy, to: Addressed): Promise<CopyOutcome>;
  /** Removes the inbox of a session that is ending. */
  remove(project: string, session: string, incarnation: string): Promise<boolean>;
}

export class LocalStreamPort implements StreamPort {
  private lastKeys: { readonly stream: string; readonly keys: readonly RowKey[] } | undefined;

  constructor(
    private readonly streams: Streams,
    private readonly keepers: Keepers,
    private readonly limits: SessionLimits,
  ) {}

  follow(project: string, stream: string, name: string, from?: Position): Promise<FollowOutcome> {
    return this.streams.follow(project, stream, { follower: FANOUT_FOLLOWER, name, from });
  }

  join(project: string, session: string, join: Join): Promise<JoinOutcome> {
    const keys = [META, SESSION_ROW, subscriptionTable.at(join.stream)];
    const { limits } = this;
    return this.keepers.submit(sessionEntity(project, session), keys, (view, now) => joinRule(view, now, join, limits));
  }

  deliver(project: string, session: string, copy: Copy, to: Addressed): Promise<CopyOutcome> {
    const keys = this.copyKeys(copy.stream);
    return this.keepers.submit(sessionEntity(project, session), keys, (view, now) => copyRule(view, now, copy, to));
  }

  /** The same list for all copies of a round, so that a keeper sees by identity that it has loaded these rows. */
  private copyKeys(stream: string): readonly RowKey[] {
    if (this.lastKeys?.stream !== stream) {
      this.lastKeys = { stream, keys: [META, SESSION_ROW, MARKS, subscriptionTable.at(stream)] };
    }
    return this.lastKeys.keys;
  }

  remove(project: string, session: string, incarnation: string): Promise<boolean> {
    const keys = [META, SESSION_ROW];
    return this.keepers.submit(sessionEntity(project, session), keys, (view) => destroyRule(view, incarnation));
  }
}
