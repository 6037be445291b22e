/**
 * The ends of sessions: deleted by their owner, or expired. Called by the service, which the doors and the sweeper call.
 *
 * Invariants: the first commit is the moment from which on the session is gone. The rest is cleanup, and the sweep repeats it
 * until nothing points at the session any more.
 */
import type { World } from "../core/world.ts";
import type { Engine, Entity } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { META } from "../streams/state.ts";
import type { SessionLimits } from "./defaults.ts";
import type { Events } from "./events.ts";
import type { Fanout } from "./fanout.ts";
import { type Asker, deleteSessionRule, expireRule } from "./session-rules.ts";
import { SESSION_ROW, type Subscription, sessionEntity, sessionIdOf, subscriptionTable } from "./state.ts";
import type { StreamPort } from "./stream-port.ts";

export interface EndingParts {
  readonly engine: Engine;
  readonly keepers: Keepers;
  readonly port: StreamPort;
  readonly fanout: Fanout;
  readonly world: World;
  readonly limits: SessionLimits;
  readonly events: Events;
  readonly report: (what: string, fault: unknown) => void;
}

/** The stored subscriptions of a session, those included that it has left and still borrows from. */
export async function* subscriptionsOf(
  engine: Engine,
  session: Entity,
  pageRows: number,
): AsyncGenerator<{ streamId: string; subscription: Subscription }> {
  for (let after = ""; ; ) {
    const page = await engine.rows(session, subscriptionTable.name, after, pageRows);
    for (const { key, value } of page) yield { streamId: key, subscription: subscriptionTable.decode(value) };
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) return;
    after = last.key;
  }
}

/** Removes what another feature has stored elsewhere about a session. Idempotent. */
export type EndingTask = (project: string, session: string, incarnation: string) => Promise<void>;

export class Endings {
  readonly tasks: EndingTask[] = [];

  constructor(private readonly parts: EndingParts) {}

  /** The session is gone from the first step on. The sweep finishes the cleanup if it is interrupted. */
  async delete(project: string, sessionId: string, asker: Asker): Promise<"deleted" | "absent"> {
    const { keepers, events, report, limits } = this.parts;
    const outcome = await keepers.submit(sessionEntity(project, sessionId), [META, SESSION_ROW], (view, now) =>
      deleteSessionRule(view, now, asker, limits),
    );
    if (outcome.kind !== "ending") return "absent";
    try {
      await this.finish(project, sessionId, outcome.incarnation);
    } catch (fault) {
      report(`cleaning up after session ${sessionId} failed; the sweep repeats it`, fault);
    }
    events.tell("session_delete", { session: sessionId });
    return "deleted";
  }

  /** Removes the session from every registry, then destroys it. */
  private async finish(project: string, session: string, incarnation: string): Promise<number> {
    const { engine, port, fanout, limits } = this.parts;
    const streams: string[] = [];
    for await (const { streamId } of subscriptionsOf(engine, sessionEntity(project, session), limits.pageRows))
      streams.push(streamId);
    const who = { session, incarnation, epoch: undefined, keepsBorrowing: false };
    for (let i = 0; i < streams.length; i += limits.cleanupStreams) {
      const some = streams.slice(i, i + limits.cleanupStreams);
      await Promise.all(some.map((stream) => fanout.remove(project, stream, who)));
    }
    for (const task of this.tasks) await task(project, session, incarnation);
    await port.remove(project, session, incarnation);
    return streams.length;
  }

  /** Ends the sessions that have expired. */
  async sweep(entities: readonly Entity[]): Promise<void> {
    const { world, events, report } = this.parts;
    const startedAt = world.monotonicMs();
    let expired = 0;
    let removed = 0;
    let failed = 0;
    const sweeping = entities.map(async ({ project, id }) => {
      try {
        const count = await this.sweepOne(project, sessionIdOf(id));
        if (count === undefined) return;
        expired++;
        removed += count;
      } catch (fault) {
        failed++;
        report(`cleaning up session ${id} failed; the next sweep repeats it`, fault);
      }
    });
    await Promise.all(sweeping);
    if (expired + failed === 0) return;
    const latencyMs = world.monotonicMs() - startedAt;
    events.tell("cleanup_batch", { count: expired, latencyMs, values: [expired, removed, failed] });
  }

  /** Undefined if the session is live; otherwise the number of its subscriptions. */
  async sweepOne(project: string, sessionId: string): Promise<number | undefined> {
    const { keepers, limits, events } = this.parts;
    const outcome = await keepers.submit(sessionEntity(project, sessionId), [META, SESSION_ROW], (view, now) =>
      expireRule(view, now, limits),
    );
    if (outcome.kind !== "ending") return undefined;
    const removed = await this.finish(project, sessionId, outcome.incarnation);
    events.tell("session_expire", { session: sessionId });
    return removed;
  }
}
