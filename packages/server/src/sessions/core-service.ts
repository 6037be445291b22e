/**
 * How subscribing and fan-out reach streams: the source they follow and the inboxes they copy into. A port, so that a test can
 * make each of its calls late, failing or finding nothing; `LocalCore` is the one that serves, on the keepers of this process.
 */
import type { Position } from "@sluice/protocol";
import type { RowKey } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import type { FollowOutcome } from "../streams/following.ts";
import type { Streams } from "../streams/service.ts";
import { FANOUT_FOLLOWER, MARKS, META } from "../streams/state.ts";
import type { Copy } from "./copy.ts";
import type { SessionLimits } from "./limits.ts";
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

/** What a copy says of its sender. Repetitions are recognised by positions; these tell which fan-out it was. */
export interface ProducerHeaders {
  readonly producerId: string;
  readonly producerEpoch: string;
  readonly producerSeq: string;
}

export interface CoreService {
  /** Looks at a source and follows it. */
  headStream(project: string, stream: string, name: string, from?: Position): Promise<FollowOutcome>;
  /** Creates or touches the inbox of a session, and notes what it subscribes to. */
  putStream(project: string, session: string, join: Join): Promise<JoinOutcome>;
  /** Copies into an inbox. */
  postStream(
    project: string,
    session: string,
    copy: Copy,
    to: Addressed,
    producer: ProducerHeaders,
  ): Promise<CopyOutcome>;
  /** Removes the inbox of a session that is ending. */
  deleteStream(project: string, session: string, incarnation: string): Promise<boolean>;
}

export class LocalCore implements CoreService {
  private lastKeys: { readonly stream: string; readonly keys: readonly RowKey[] } | undefined;

  constructor(
    private readonly streams: Streams,
    private readonly keepers: Keepers,
    private readonly limits: SessionLimits,
  ) {}

  headStream(project: string, stream: string, name: string, from?: Position): Promise<FollowOutcome> {
    return this.streams.follow(project, stream, { follower: FANOUT_FOLLOWER, name, from });
  }

  putStream(project: string, session: string, join: Join): Promise<JoinOutcome> {
    const keys = [META, SESSION_ROW, subscriptionTable.at(join.stream)];
    const { limits } = this;
    return this.keepers.submit(sessionEntity(project, session), keys, (view, now) => joinRule(view, now, join, limits));
  }

  postStream(project: string, session: string, copy: Copy, to: Addressed): Promise<CopyOutcome> {
    const keys = this.copyKeys(copy.stream);
    return this.keepers.submit(sessionEntity(project, session), keys, (view, now) => copyRule(view, now, copy, to));
  }

  /** The same list for all copies of a round: keepers see at once that they have what it asks for. */
  private copyKeys(stream: string): readonly RowKey[] {
    if (this.lastKeys?.stream !== stream) {
      this.lastKeys = { stream, keys: [META, SESSION_ROW, MARKS, subscriptionTable.at(stream)] };
    }
    return this.lastKeys.keys;
  }

  deleteStream(project: string, session: string, incarnation: string): Promise<boolean> {
    const keys = [META, SESSION_ROW];
    return this.keepers.submit(sessionEntity(project, session), keys, (view) => destroyRule(view, incarnation));
  }
}
