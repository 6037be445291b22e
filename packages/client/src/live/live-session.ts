/**
 * The live session of a tab: one connection, any number of streams, presence. `Sluice.session` opens it; the user subscribes
 * through it. Everything that needs time, chance, storage or the network comes through its parts.
 *
 * Invariants: every error reaches a listener of `error` or the platform's own report. After `close` no timer, lock or connection
 * of the session is left.
 */
import type { RetryPolicy } from "../backoff.ts";
import type { Call } from "../connection.ts";
import { SluiceError } from "../error.ts";
import type { StreamMessage } from "../message.ts";
import type { LastBudget } from "../page-exit.ts";
import { Comparison } from "./comparison.ts";
import { Delays } from "./delays.ts";
import { Followed } from "./followed.ts";
import { Heartbeats } from "./heartbeats.ts";
import { type Ask, Identity } from "./identity.ts";
import { Link } from "./link.ts";
import { Listeners } from "./listeners.ts";
import { Offsets } from "./offsets.ts";
import type { Presence } from "./presence.ts";
import type { SessionPort } from "./stored-subscription.ts";
import {
  type LiveEvents,
  type LiveStatus,
  type LiveSubscribeOptions,
  type LiveSubscription,
  type PresenceOptions,
  userOf,
} from "./subscribe-options.ts";
import type { Transport } from "./transport.ts";
import { Turns } from "./turns.ts";
import type { Cancel, LiveWorld } from "./world.ts";

/** Catch-up reads that run at the same time. */
const CONCURRENT_READS = 6;
/** Every so many heartbeats the session compares what it follows with what the server has stored. */
const COMPARE_EVERY = 20;

export interface LiveSessionParts {
  readonly world: LiveWorld;
  readonly policy: RetryPolicy;
  readonly heartbeatMs: number;
  /** The first one is preferred. */
  readonly transports: readonly Transport[];
  readonly ask: Ask;
  /** Sends without waiting, when the page goes away. */
  readonly sendLast: (call: Call) => void;
  /** Where the page's storage keeps the session. */
  readonly key: string;
  /** The address of a stream; throws a TypeError for a path that has none. */
  readonly addressOf: (path: string) => string;
  closed(): void;
}

export class LiveSession {
  private readonly streams = new Map<string, Followed>();
  private readonly offsets = new Offsets();
  private readonly turns = new Turns(CONCURRENT_READS);
  private readonly listeners: Listeners<LiveEvents>;
  private readonly port: SessionPort;
  private readonly identity: Identity;
  private readonly link: Link;
  private readonly heartbeats: Heartbeats;
  private readonly comparison: Comparison;
  private readonly stops: Cancel[] = [];
  /** Ends the requests of an earlier connection. */
  private requests = new AbortController();
  private told: LiveStatus = "connecting";
  private isClosed = false;
  private beats = 0;

  private constructor(private readonly parts: LiveSessionParts) {
    const { world, policy, transports, ask, key } = parts;
    this.listeners = new Listeners((error) => world.report(error));
    const { report } = this.listeners;
    this.identity = new Identity({
      world,
      ask,
      key,
      restored: (offsets) => {
        for (const [stream, offset] of Object.entries(offsets)) this.offsets.keep(stream, String(offset));
      },
      changed: () => this.each((followed) => followed.forget()),
    });
    this.port = {
      world,
      policy,
      report,
      ask: (call) => ask({ ...call, signal: this.requests.signal }),
      sessionId: () => this.identity.id,
      isConnected: () => this.link.state === "open" && !this.isClosed,
      sessionLost: (sessionId) => {
        this.identity.forget(sessionId);
        this.link.restart();
      },
    };
    this.link = new Link({
      world,
      policy,
      transports,
      report,
      identity: this.identity,
      changed: () => this.update(),
      hello: () => this.hello(),
      event: (event, chars) => this.streams.get(event.streamId)?.take(event, chars),
      lost: () => this.lost(),
    });
    this.heartbeats = new Heartbeats({
      port: this.port,
      everyMs: parts.heartbeatMs,
      followed: () => this.streams.values(),
      overLine: (body) => this.link.ask("heartbeat", body),
      tick: () => this.tick(),
    });
    this.comparison = new Comparison({
      port: this.port,
      streams: this.streams,
      leave: (stream, epoch) => this.follow(stream).subscription.leaveStray(epoch),
    });
  }

  /** Makes or takes up the session and connects. Rejects when the server refuses, or cannot be reached for `giveUpMs`. */
  static async open(parts: LiveSessionParts): Promise<LiveSession> {
    const session = new LiveSession(parts);
    const { world, policy } = parts;
    const delays = new Delays(world, policy);
    const untilMs = world.now() + policy.giveUpMs;
    for (;;) {
      try {
        await session.identity.ready();
        break;
      } catch (error) {
        const { retryable, retryAfterMs } = error as SluiceError;
        const delayMs = delays.next(retryAfterMs);
        if (!retryable || world.now() + delayMs > untilMs) {
          session.identity.close();
          throw error;
        }
        await delays.wait(delayMs);
      }
    }
    session.stops.push(
      world.page.onHide((budget) => session.hide(budget)),
      world.page.onWake(() => session.link.wake()),
      // Connections go silent then, and some of them stay so when the network is back.
      world.page.onOffline(() => session.link.restart()),
    );
    session.link.start();
    return session;
  }

  /** The id of the session. It changes when the server has forgotten the session. */
  get id(): string {
    return this.identity.id ?? "";
  }

  get status(): LiveStatus {
    if (this.link.state !== "open") return this.link.state;
    return [...this.streams.values()].every(({ isCaughtUp }) => isCaughtUp) ? "live" : "catching-up";
  }

  /**
   * Follows a stream: the handler gets every message once and in order, over reconnects and reloads. It starts where the session
   * stopped; for a stream that is new to the session, with the next message.
   */
  subscribe<T = unknown>(
    path: string,
    handler: (message: StreamMessage<T>) => unknown,
    options: LiveSubscribeOptions = {},
  ): LiveSubscription {
    const { user, from } = userOf(handler as (message: StreamMessage<unknown>) => unknown, options, (how) =>
      this.listeners.emit("catch-up", { stream: path, ...how }),
    );
    const followed = this.follow(path);
    const presence = options.presence ? followed.room.enter(options.state) : undefined;
    const cursor = followed.add(user, from);
    return {
      stream: path,
      get offset() {
        return cursor.processed;
      },
      unsubscribe: () => {
        presence?.leave();
        followed.remove(cursor);
      },
    };
  }

  /** Shows this session on a stream until `leave`, and tells which sessions are live there. */
  presence(path: string, { state }: PresenceOptions = {}): Presence {
    return this.follow(path).room.enter(state);
  }

  on<T extends keyof LiveEvents>(type: T, listener: (value: LiveEvents[T]) => unknown): () => void {
    return this.listeners.on(type, listener);
  }

  /** Tells the server what was processed, and ends the connection. The session itself expires by itself. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    for (const stop of this.stops) stop();
    this.heartbeats.stop();
    this.comparison.stop();
    const last = this.heartbeats.last({ bytes: Number.POSITIVE_INFINITY });
    this.save();
    this.each((followed) => followed.stop());
    this.link.close();
    this.cancelRequests();
    this.identity.close();
    this.parts.closed();
    // A failure costs nothing but messages that the next page sees again.
    if (last !== undefined) await this.parts.ask(last).catch(() => {});
  }

  private follow(path: string): Followed {
    if (this.isClosed) throw new SluiceError("closed", "the session was closed");
    const address = this.parts.addressOf(path);
    const known = this.streams.get(path);
    if (known !== undefined) return known;
    const { port, offsets, turns } = this;
    const followed: Followed = new Followed(path, address, {
      port,
      offsets,
      turns,
      changed: () => this.update(),
      over: () => {
        if (this.streams.get(path) === followed) this.streams.delete(path);
        followed.stop();
      },
    });
    this.streams.set(path, followed);
    return followed;
  }

  private each(run: (followed: Followed) => void): void {
    for (const followed of [...this.streams.values()]) run(followed);
  }

  private update(): void {
    const { status } = this;
    if (status === this.told) return;
    this.told = status;
    this.listeners.emit("status", status);
  }

  private hello(): void {
    // The network may have swallowed them, and their time limit is longer than a reader wants to wait.
    this.cancelRequests();
    this.heartbeats.start();
    this.each((followed) => followed.hello());
    void this.comparison.run();
  }

  private cancelRequests(): void {
    this.requests.abort(new SluiceError("unreachable", "the connection was replaced meanwhile", { retryable: true }));
    this.requests = new AbortController();
  }

  private lost(): void {
    this.heartbeats.stop();
    this.comparison.stop();
    this.each((followed) => followed.lost());
  }

  /** With every heartbeat. */
  private tick(): void {
    // A token that ends would end the connection. The next tick tries again.
    this.identity.ready().catch((error: SluiceError) => {
      if (!error.retryable) this.listeners.report(error);
    });
    this.comparison.removeStrays();
    if (++this.beats % COMPARE_EVERY === 0) void this.comparison.run();
  }

  /** The page is hidden, perhaps for good. If it lives on, the next heartbeat says the same again. */
  private hide(budget: LastBudget): void {
    const last = this.heartbeats.last(budget);
    if (last !== undefined) this.parts.sendLast(last);
    this.save();
  }

  /** Keeps id and offsets for the page after a reload. */
  private save(): void {
    for (const { stream, processed } of this.streams.values()) {
      if (processed !== undefined) this.offsets.keep(stream, processed);
    }
    this.identity.save(this.offsets.all());
  }
}
