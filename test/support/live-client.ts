/**
 * The world and the server of a live session under the test's control: a clock that the test moves, a page with storage and
 * locks, and requests that the test answers. The unit tests of the client's live part use it.
 *
 * Invariants: nothing happens by itself; `turn` lets every promise that can settle do so.
 */
import type { Answer, Call } from "../../packages/client/src/connection.ts";
import { type ErrorDetails, SluiceError } from "../../packages/client/src/error.ts";
import type { Line, LineListener, Transport } from "../../packages/client/src/live/transport.ts";
import type { Hold, LivePage, LiveWorld } from "../../packages/client/src/live/world.ts";
import type { LastWords } from "../../packages/client/src/page-exit.ts";
import { manualWorld } from "./world.ts";

export const POLICY = { minMs: 100, maxMs: 10_000, giveUpMs: 30_000, onRetry: undefined, onRecover: undefined };

/** An offset of a stream's first generation, after this many messages. */
export function at(seq: number): string {
  return `0000000000000001_${String(seq).padStart(16, "0")}`;
}

export function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

export function refused(status: number, code: string, details: ErrorDetails = {}): SluiceError {
  return new SluiceError(code, code, { status, ...details });
}

export function unreachable(): SluiceError {
  return new SluiceError("unreachable", "no answer", { retryable: true });
}

export class FakePage implements LivePage {
  readonly items = new Map<string, string>();
  readonly locks = new Set<string>();
  /** Undefined: the platform has no locks. */
  hasLocks = true;
  hide: LastWords | undefined;
  wake: (() => void) | undefined;
  offline: (() => void) | undefined;

  load(key: string): string | undefined {
    return this.items.get(key);
  }

  save(key: string, value: string): void {
    this.items.set(key, value);
  }

  async hold(name: string): Promise<Hold> {
    if (!this.hasLocks) return { kind: "unknown" };
    if (this.locks.has(name)) return { kind: "taken" };
    this.locks.add(name);
    return { kind: "held", release: () => void this.locks.delete(name) };
  }

  onHide(words: LastWords): () => void {
    this.hide = words;
    return () => {
      this.hide = undefined;
    };
  }

  onOffline(task: () => void): () => void {
    this.offline = task;
    return () => {
      this.offline = undefined;
    };
  }

  onWake(task: () => void): () => void {
    this.wake = task;
    return () => {
      this.wake = undefined;
    };
  }
}

export interface FakeWorld extends LiveWorld {
  readonly page: FakePage;
  readonly reported: SluiceError[];
  /** Timers that are set. */
  readonly timers: number;
  /** Moves the clock, and lets everything settle that follows. */
  pass(ms: number): Promise<void>;
}

export function fakeWorld(page = new FakePage()): FakeWorld {
  const clock = manualWorld(1);
  const reported: SluiceError[] = [];
  const timers = new Set<object>();
  return {
    page,
    reported,
    get timers() {
      return timers.size;
    },
    now: () => clock.now(),
    random: () => 0.5,
    after: (ms, task) => {
      const timer = {};
      timers.add(timer);
      const cancel = clock.after(ms, () => {
        timers.delete(timer);
        task();
      });
      return () => {
        timers.delete(timer);
        cancel();
      };
    },
    report: (error) => void reported.push(error),
    async pass(ms) {
      clock.advance(ms);
      await turn();
    },
  };
}

interface Waiting {
  readonly call: Call;
  resolve(answer: Answer): void;
  reject(error: SluiceError): void;
}

/** Requests that wait for the test's answer, in their order. */
export class FakeServer {
  readonly waiting: Waiting[] = [];
  /** Every request so far, as `METHOD path?query body`. */
  readonly asked: string[] = [];

  readonly ask = (call: Call): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const query = Object.entries(call.query ?? {}).filter(
        ([name, value]) => value !== undefined && name !== "format",
      );
      const search = query.map(([name, value]) => `${name}=${value}`).join("&");
      this.asked.push([call.method, call.path + (search && `?${search}`), call.body].filter(Boolean).join(" "));
      const one = { call, resolve, reject };
      this.waiting.push(one);
      call.signal?.addEventListener("abort", () => {
        const i = this.waiting.indexOf(one);
        if (i >= 0) this.waiting.splice(i, 1);
        reject(call.signal!.reason);
      });
    });

  /** Answers the oldest request whose line begins so. */
  async answer(begins: string, body: unknown = "", headers: Record<string, string> = {}, status = 200): Promise<void> {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const { call, resolve } = this.take(begins);
    resolve({ at: { method: call.method, url: call.path }, status, headers: new Headers(headers), text });
    await turn();
  }

  async refuse(begins: string, error: SluiceError): Promise<void> {
    this.take(begins).reject(error);
    await turn();
  }

  /** The requests that wait, by method and path. */
  get open(): string[] {
    return this.waiting.map(({ call }) => `${call.method} ${call.path}`);
  }

  private take(begins: string): Waiting {
    const i = this.waiting.findIndex(({ call }) => `${call.method} ${call.path}`.startsWith(begins));
    if (i < 0) throw new Error(`no request ${begins} among ${this.open.join(", ")}`);
    return this.waiting.splice(i, 1)[0]!;
  }
}

/** Connections that the test opens, feeds and ends. */
export class FakeTransport implements Transport {
  readonly lines: { readonly listener: LineListener; isClosed: boolean; readonly sessionId: string }[] = [];
  /** Heartbeats over the connection. */
  readonly beats: object[] = [];

  constructor(readonly kind: "websocket" | "sse" = "sse") {}

  get last() {
    return this.lines.at(-1)!;
  }

  get listener(): LineListener {
    return this.last.listener;
  }

  open({ sessionId }: { readonly sessionId: string }, listener: LineListener): Line {
    const line = { listener, isClosed: false, sessionId };
    this.lines.push(line);
    const close = () => {
      line.isClosed = true;
    };
    if (this.kind === "sse") return { close };
    const ask = async (_: string, body: object) => void this.beats.push(body);
    return { close, ask };
  }
}
