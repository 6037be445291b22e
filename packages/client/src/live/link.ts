/**
 * The one connection of a session: opens it, opens another one when it ends, and picks the transport. The session owns one and
 * acts on its events.
 *
 * Invariants: at most one connection is open. Reconnects back off with jitter, and wait at least as long as the server asked. A
 * connection that is silent for longer than a live server ever is, is replaced.
 */
import { type RetryPolicy, WORTHWHILE_MS } from "../backoff.ts";
import { hasCode, SluiceError } from "../error.ts";
import { Delays } from "./delays.ts";
import type { ByeEvent, PresenceEvent, StreamEvent } from "./events.ts";
import type { Identity } from "./identity.ts";
import type { Report } from "./listeners.ts";
import type { Credentials, Line, Transport } from "./transport.ts";
import type { Cancel, LiveWorld } from "./world.ts";

/** A server says `hello` within this time, or the connection is given up. */
const HELLO_MS = 10_000;
/** A server gives a sign of life every 15 s, and answers heartbeats as often. */
const SILENCE_MS = 45_000;
/** After so many WebSockets in a row that did not open, although the server answers, the network is taken to let none through. */
const BLOCKED_SOCKETS = 2;

export type LinkState = "connecting" | "open" | "offline";

export interface LinkParts {
  readonly world: LiveWorld;
  readonly policy: RetryPolicy;
  readonly identity: Identity;
  /** The first one is preferred. */
  readonly transports: readonly Transport[];
  readonly report: Report;
  /** The state has changed. */
  changed(): void;
  hello(): void;
  event(event: StreamEvent | PresenceEvent, chars: number): void;
  /** The connection has ended, after its `hello`. */
  lost(): void;
}

interface Ended {
  readonly sessionId?: string | undefined;
  readonly error?: SluiceError | undefined;
  readonly bye?: ByeEvent | undefined;
  /** Undefined if there was no `hello`. */
  readonly openForMs?: number | undefined;
}

export class Link {
  state: LinkState = "connecting";
  private line: Line | undefined;
  private hangUp: ((error?: SluiceError) => void) | undefined;
  private judgeSilence: (() => void) | undefined;
  private isClosed = false;
  private blockedSockets = 0;
  private readonly delays: Delays;

  constructor(private readonly parts: LinkParts) {
    this.delays = new Delays(parts.world, parts.policy);
  }

  start(): void {
    void this.run();
  }

  /** A request over the connection itself; undefined where it can carry none. */
  ask(type: "heartbeat", body: object): Promise<void> | undefined {
    return this.line?.ask?.(type, body);
  }

  /** Tries at once instead of waiting. Timers stand still while a machine sleeps, so the silence is judged now. */
  wake(): void {
    this.delays.hurry();
    this.judgeSilence?.();
  }

  /** Ends the connection; another one follows. */
  restart(): void {
    this.hangUp?.();
  }

  close(): void {
    this.isClosed = true;
    this.hangUp?.();
    this.delays.hurry();
    this.become("offline");
  }

  private become(state: LinkState): void {
    if (this.state === state) return;
    this.state = state;
    this.parts.changed();
  }

  private async run(): Promise<void> {
    while (!this.isClosed) {
      this.become("connecting");
      const ended = await this.attempt();
      if (this.isClosed) return;
      this.become("offline");
      await this.delays.wait(this.learnFrom(ended));
    }
  }

  private async attempt(): Promise<Ended> {
    let credentials: Credentials;
    try {
      credentials = await this.parts.identity.ready();
    } catch (error) {
      return { error: error as SluiceError };
    }
    return this.isClosed ? {} : this.hold(credentials);
  }

  /** Opens a connection and resolves when it has ended. */
  private hold(credentials: Credentials): Promise<Ended> {
    const { world } = this.parts;
    const { sessionId } = credentials;
    const transport = this.transport();
    return new Promise((resolve) => {
      let heardAtMs = world.now();
      let openAtMs: number | undefined;
      let isOver = false;
      let cancel: Cancel;
      const end = (error?: SluiceError, bye?: ByeEvent) => {
        if (isOver) return;
        isOver = true;
        cancel();
        line.close();
        this.line = undefined;
        this.hangUp = undefined;
        this.judgeSilence = undefined;
        const openForMs = openAtMs === undefined ? undefined : world.now() - openAtMs;
        if (transport.kind === "websocket") this.blockedSockets = openForMs === undefined ? this.blockedSockets + 1 : 0;
        if (openForMs !== undefined) this.parts.lost();
        resolve({ sessionId, error, bye, openForMs });
      };
      const line = transport.open(credentials, {
        heard: () => {
          heardAtMs = world.now();
        },
        event: (event, chars) => {
          if (isOver) return;
          if (event.type === "bye") end(undefined, event);
          else if (event.type !== "hello") this.parts.event(event, chars);
          else if (openAtMs === undefined) {
            openAtMs = world.now();
            this.state = "open";
            this.parts.hello();
            // After the session knows that it is behind, so that it is not called live in between.
            this.parts.changed();
          }
        },
        end,
      });
      const watch = () => {
        cancel();
        const limitMs = openAtMs === undefined ? HELLO_MS : SILENCE_MS;
        const leftMs = heardAtMs + limitMs - world.now();
        if (leftMs <= 0) end(new SluiceError("timeout", "the server is silent", { retryable: true }));
        else cancel = world.after(leftMs, watch);
      };
      cancel = world.after(HELLO_MS, watch);
      this.line = line;
      this.hangUp = end;
      this.judgeSilence = watch;
    });
  }

  private transport(): Transport {
    const [first, second = first] = this.parts.transports;
    return this.blockedSockets >= BLOCKED_SOCKETS ? second! : first!;
  }

  /** How long to wait before the next connection, and what must change for it. */
  private learnFrom({ sessionId, error, bye, openForMs }: Ended): number {
    const { identity, policy, report, world } = this.parts;
    const isUnknown = bye?.code === "session-not-found" || hasCode(error, "session-not-found");
    // Without a lock another tab may be the one that has displaced this one. Two tabs must not take turns.
    if (isUnknown || (bye?.code === "displaced" && !identity.isSole)) identity.forget(sessionId);
    if (openForMs === undefined || bye?.code === "token-expired") identity.distrust();
    const wasWorthwhile = openForMs !== undefined && openForMs >= WORTHWHILE_MS;
    if (wasWorthwhile) this.delays.reset();
    if (wasWorthwhile && bye?.reconnect) return Math.max(bye.retryMs, 0) + policy.minMs * world.random();
    const delayMs = this.delays.next(bye?.retryMs ?? error?.retryAfterMs);
    if (error === undefined || error.retryable || isUnknown) return delayMs;
    // The server refuses. It may not tomorrow, so the session keeps trying, seldom.
    report(error);
    return Math.max(delayMs, policy.maxMs);
  }
}
