/**
 * One life of a browser page in the simulated world: the ports of the real client's live session. A reload ends a page and makes
 * another one, which finds the storage of the first.
 *
 * Invariants: nothing of a page runs after its death. A page that was closed leaves no timer.
 */
import { Connection } from "../../../../packages/client/src/connection.ts";
import type { SluiceError } from "../../../../packages/client/src/error.ts";
import { LiveSession } from "../../../../packages/client/src/live/live-session.ts";
import { SseTransport } from "../../../../packages/client/src/live/sse-transport.ts";
import type { Hold, LiveWorld } from "../../../../packages/client/src/live/world.ts";
import { LAST_BYTES, type LastWords } from "../../../../packages/client/src/page-exit.ts";
import type { Random } from "../../random.ts";
import type { Stage } from "../../scenario.ts";
import { type Ears, SimFetch } from "./sim-fetch.ts";

/** What outlives a page of a tab. */
export interface TabStore {
  readonly items: Map<string, string>;
  /** Locks that pages of the browser hold. */
  readonly locks: Map<string, Page>;
}

export interface PageEars extends Ears {
  error(error: SluiceError): void;
}

const RETRIES = { minMs: 5, maxMs: 500, giveUpMs: Number.POSITIVE_INFINITY, onRetry: undefined, onRecover: undefined };

export class Page {
  session: LiveSession | undefined;
  private readonly network: SimFetch;
  private readonly random: Random;
  private readonly timers = new Set<object>();
  private words: LastWords | undefined;
  private isDead = false;

  constructor(
    private readonly stage: Stage,
    private readonly store: TabStore,
    private readonly ears: PageEars,
  ) {
    this.random = stage.random.branch();
    this.network = new SimFetch(stage, ears);
  }

  async open(): Promise<LiveSession> {
    const connection = new Connection({
      url: "http://sim",
      project: "default",
      token: undefined,
      headers: undefined,
      query: undefined,
      fetch: this.network.fetch as typeof fetch,
      timeoutMs: Number.POSITIVE_INFINITY,
      retries: RETRIES,
    });
    this.session = await LiveSession.open({
      world: this.world,
      policy: RETRIES,
      heartbeatMs: this.random.pick([300, 2_000, 15_000]),
      transports: [new SseTransport(connection)],
      ask: (call) => connection.once(call),
      sendLast: (call) => connection.sendLast(call),
      key: "session",
      addressOf: (path) => `stream/${path}`,
      closed: () => {},
    });
    return this.session;
  }

  cut(): void {
    this.network.cut();
  }

  goOffline(): void {
    this.network.goOffline();
  }

  goOnline(): void {
    this.network.isOnline = true;
  }

  /** The user looks at another page. */
  hide(): void {
    this.words?.({ bytes: LAST_BYTES });
  }

  /** The browser ends the page, whatever it is doing. */
  kill(): void {
    this.isDead = true;
    this.network.kill();
    for (const [name, holder] of this.store.locks) if (holder === this) this.store.locks.delete(name);
  }

  async close(): Promise<void> {
    await this.session?.close();
    this.kill();
  }

  /** For the page's own script: never resolves once the page is dead. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.stage.world.schedule("page sleep", ms, () => {
        if (!this.isDead) resolve();
      });
    });
  }

  get timersLeft(): number {
    return this.timers.size;
  }

  private readonly world: LiveWorld = {
    now: () => this.stage.world.now(),
    random: () => this.random.next(),
    after: (ms, task) => {
      const timer = {};
      this.timers.add(timer);
      const cancel = this.stage.world.schedule("page timer", ms, () => {
        if (!this.timers.delete(timer) || this.isDead) return;
        task();
      });
      return () => {
        this.timers.delete(timer);
        cancel();
      };
    },
    report: (error) => this.ears.error(error),
    page: {
      load: (key) => this.store.items.get(key),
      save: (key, value) => void this.store.items.set(key, value),
      hold: async (name): Promise<Hold> => {
        const { locks } = this.store;
        if (locks.has(name)) return { kind: "taken" };
        locks.set(name, this);
        return { kind: "held", release: () => void locks.delete(name) };
      },
      onHide: (words) => {
        this.words = words;
        return () => {
          this.words = undefined;
        };
      },
      onWake: () => () => {},
      onOffline: () => () => {},
    },
  };
}
