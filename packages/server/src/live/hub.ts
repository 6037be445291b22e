/**
 * The hub of this node: the live connections that clients have opened to it. Routes admit a client, then open its connection. No
 * node routes to another: a hub serves whichever tabs connect to it, and its pushes follow the logs.
 *
 * Invariants: a session has at most one connection on this node; the newest connection of a session anywhere displaces the
 * others. At most `active` subscriptions are followed. A client gets its connection only after it was shown to own the session.
 */
import type { Access } from "../core/action.ts";
import type { Audience } from "../core/audience.ts";
import { hex } from "../core/bytes.ts";
import { Connections, type Framing } from "../core/connection.ts";
import type { Feeds } from "../core/feed.ts";
import type { EndReason, Sink } from "../core/sink.ts";
import { SSE } from "../core/sse.ts";
import type { Cancel, World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { rowsOf } from "../engine/table-rows.ts";
import type { StreamPage } from "../streams/reading.ts";
import type { Streams } from "../streams/service.ts";
import { ActiveSubscriptions } from "./active.ts";
import type { LiveLimits } from "./defaults.ts";
import { type ByeCode, type Codecs, codecsFor, eventBytes, type LiveEvent, type Wire } from "./events.ts";
import { inBatches } from "./in-batches.ts";
import type { LiveMeter } from "./meter.ts";
import { connectRule } from "./pointer-rules.ts";
import type { Presence } from "./presence.ts";
import type { Rolls } from "./rolls.ts";
import { CONNECT, noSession } from "./service.ts";
import type { SessionPort } from "./session-port.ts";
import { LIVE_ROW, type Pointer, pointerTable } from "./state.ts";
import { type Admitted, type Start, Tab, type TabParts } from "./tab.ts";

export interface HubParts {
  readonly engine: Engine;
  readonly world: World;
  readonly audience: Audience;
  readonly streams: Streams;
  readonly sessions: SessionPort;
  readonly rolls: Rolls;
  readonly presence: Presence;
  /** Shared with the other readers of streams, so that a log has one feed on this node. */
  readonly feeds: Feeds<StreamPage>;
  /** The most bytes that are read of a log at a time. */
  readonly pageBytes: number;
  readonly limits: LiveLimits;
  readonly meter: LiveMeter;
  readonly report: (what: string, fault: unknown) => void;
}

const NONCE_BYTES = 8;

/** What a client is told, by the reason for which the server ends connections of its own accord. */
const CODES: Readonly<Partial<Record<EndReason, ByeCode>>> = { drained: "draining", fault: "unavailable" };
const STAYS_AWAY: readonly string[] = ["displaced", "session-not-found"] satisfies ByeCode[];

export class Hub {
  /** By the session's entity. */
  private readonly tabs = new Map<string, Tab>();
  private readonly connections: Connections;
  private readonly codecs: Codecs;
  private readonly active: ActiveSubscriptions;
  private readonly tabParts: TabParts;
  private timer: Cancel | undefined;

  constructor(private readonly parts: HubParts) {
    const { world, audience, limits, meter, engine, streams, feeds, sessions, presence, pageBytes, report } = parts;
    this.connections = new Connections(world, audience, limits);
    this.codecs = codecsFor(limits.notifyBytes, (atMs) => {
      meter.pushSeconds.add(Math.max(0, engine.now() - atMs) / 1_000);
    });
    this.active = new ActiveSubscriptions(limits.active, () => void meter.parked++);
    this.tabParts = {
      engine,
      streams,
      feeds,
      codecs: this.codecs,
      presence,
      pageBytes,
      pageRows: limits.pageRows,
      batch: limits.batch,
      report,
      entityOf: (project, session) => sessions.entity(project, session),
      activated: (followed) => this.active.add(followed),
      deactivated: (followed) => this.active.remove(followed),
      left: (tab) => this.forget(tab),
      streamGone: (tab, streamId, pointer) => this.streamGone(tab, streamId, pointer),
    };
  }

  /** Connections whose client has not gone. */
  get size(): number {
    return this.connections.size;
  }

  /** Subscriptions that are followed now. */
  get followed(): number {
    return this.active.size;
  }

  /** Messages that were announced instead of pushed. */
  get notified(): number {
    return this.codecs.notified;
  }

  /**
   * Stores the nonce of a new connection and looks at what it will follow. From the commit on every other connection of the
   * session is displaced. Throws a Refusal if the caller has no such session.
   */
  async admit(project: string, sessionId: string, access: Access): Promise<Admitted> {
    const { sessions, world } = this.parts;
    await access.demand({ ...CONNECT, project, session: sessionId });
    const nonce = hex(world.randomBytes(NONCE_BYTES));
    const used = await sessions.use(project, sessionId, access, [LIVE_ROW], (view) => connectRule(view, nonce));
    if (used === undefined) throw noSession(sessionId);
    const starts = await this.startsOf(project, sessionId, access);
    return { project, sessionId, owner: used.owner, access, nonce, live: used.outcome, starts };
  }

  /** Read after the nonce is stored: a subscription that is committed later raises the version, and the tab notices it. */
  private async startsOf(project: string, sessionId: string, access: Access): Promise<readonly Start[]> {
    const { engine, sessions, streams, limits } = this.parts;
    const pointers: { readonly key: string; readonly value: Pointer }[] = [];
    for await (const row of rowsOf(engine, sessions.entity(project, sessionId), pointerTable, limits.pageRows)) {
      if (access.sees(row.key)) pointers.push(row);
    }
    return inBatches(pointers, limits.batch, async ({ key: streamId, value: pointer }) => {
      return { streamId, pointer, described: await streams.describe(project, streamId) };
    });
  }

  /** Opens the connection. `leave` runs once when the client has gone. */
  open(admitted: Admitted, sink: Sink, wire: Wire, leave: () => void): Tab {
    let opened: Tab | undefined;
    this.connections.open({ sink, framing: this.framingOf(wire), onGone: leave }, (connection) => {
      const { meter } = this.parts;
      meter.opened++;
      if (admitted.live.connections > 1) meter.reconnects++;
      opened = new Tab(this.tabParts, admitted, connection, wire);
      this.seat(opened);
    });
    return opened!;
  }

  /** Of two connections of a session the one stays that was admitted later, in whatever order they open. */
  private seat(tab: Tab): void {
    const other = this.tabs.get(tab.key);
    const older = other === undefined || other.number < tab.number ? other : tab;
    older?.end("displaced", "displaced");
    if (older === tab || tab.hasEnded) return;
    this.tabs.set(tab.key, tab);
    this.timer ??= this.parts.world.after(this.parts.limits.checkMs, this.check);
  }

  private framingOf(wire: Wire): Framing {
    return {
      tellsSlow: true,
      beat: SSE.beat,
      farewell: (sink, why) => sink.write(eventBytes(wire, this.bye(CODES[why as EndReason] ?? (why as ByeCode)))),
    };
  }

  /** Clients are spread over some time, because many may have lost their connection at the same moment. */
  private bye(code: ByeCode): LiveEvent {
    const { world, limits, meter } = this.parts;
    meter.byes[code]++;
    const reconnect = !STAYS_AWAY.includes(code);
    return { type: "bye", code, reconnect, retryMs: reconnect ? Math.round(world.random() * limits.spreadMs) : 0 };
  }

  /** Ends the connections whose token has ended. */
  private readonly check = (): void => {
    const { world, engine, limits } = this.parts;
    const now = engine.now();
    for (const tab of [...this.tabs.values()]) if (tab.untilMs <= now) tab.end("expired", "token-expired");
    this.timer = this.tabs.size === 0 ? undefined : world.after(limits.checkMs, this.check);
  };

  private forget(tab: Tab): void {
    if (this.tabs.get(tab.key) === tab) this.tabs.delete(tab.key);
    if (this.tabs.size > 0) return;
    this.timer?.();
    this.timer = undefined;
  }

  private streamGone({ project, sessionId }: Tab, streamId: string, { name }: Pointer): void {
    const { rolls, report } = this.parts;
    rolls.streamGone(project, sessionId, streamId, name).catch((fault) => {
      report(`removing a subscription to ${streamId}, which is gone, failed; the next connection repeats it`, fault);
    });
  }
}
