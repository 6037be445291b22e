/**
 * `fetch` over the simulated network, for the client of one page. A page that dies takes its requests with it: no promise of
 * theirs ever settles.
 *
 * Invariants: a request without an answer may still reach the server later. An answer's body arrives in the pieces in which the
 * network delivers it.
 */
import type { Stage } from "../../scenario.ts";

/** How long a client waits for the whole answer; a live connection has no such limit once it is open. */
const PATIENCE_MS = 3_000;

export interface Asked {
  readonly method: string;
  /** After `/v1/default/`. */
  readonly path: string;
  readonly search: string;
  readonly body: string;
}

export interface Ears {
  say(line: string): void;
  /** A request is sent. */
  sent(asked: Asked): void;
  /** A whole answer has come, before the client sees it. */
  heard(asked: Asked, status: number, text: string, isClosed: boolean): void;
  /** A piece of a live connection has come, before the client sees it. */
  pushed(piece: Uint8Array): void;
  /** A live connection has opened. */
  connected(): void;
}

type Outcome = { readonly response: Response } | { readonly error: unknown };

export class SimFetch {
  isDead = false;
  /** Whether the page has a network at all. */
  isOnline = true;
  private readonly open = new Set<() => void>();
  private hangUp: (() => void) | undefined;

  constructor(
    private readonly stage: Stage,
    private readonly ears: Ears,
  ) {}

  /** The network loses the live connection. */
  cut(): void {
    this.hangUp?.();
  }

  kill(): void {
    this.isDead = true;
    for (const end of [...this.open]) end();
  }

  /** The page loses its network, with everything that is under way. */
  goOffline(): void {
    this.isOnline = false;
    for (const end of [...this.open]) end();
  }

  readonly fetch = (input: string, init: RequestInit = {}): Promise<Response> =>
    new Promise((resolve, reject) => {
      const { pathname, search } = new URL(input);
      const asked = {
        method: init.method ?? "GET",
        path: decodeURIComponent(pathname.replace("/v1/default/", "")),
        search: search.slice(1),
        body: (init.body as string | undefined) ?? "",
      };
      if (!this.isOnline) {
        this.stage.world.schedule("offline", 1, () => reject(new TypeError("offline")));
        return;
      }
      this.ears.sent(asked);
      this.exchange(asked, pathname, init.signal ?? undefined, (outcome) => {
        if (this.isDead) return;
        if ("response" in outcome) resolve(outcome.response);
        else reject(outcome.error);
      });
    });

  private exchange(
    asked: Asked,
    path: string,
    signal: AbortSignal | undefined,
    settle: (outcome: Outcome) => void,
  ): void {
    const { network, random, world } = this.stage;
    const isLive = asked.path.startsWith("live/");
    const text: string[] = [];
    let body!: ReadableStreamDefaultController<Uint8Array>;
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        body = controller;
      },
    });
    let status = 0;
    let isClosed = false;
    let isOver = false;
    const finish = (how: string, end: () => void) => {
      if (isOver) return;
      isOver = true;
      cancel();
      exchange.leave();
      this.open.delete(lose);
      if (this.hangUp === lose) this.hangUp = undefined;
      if (this.isDead) return;
      this.ears.say(
        `${asked.method} ${asked.path} ${asked.search} ${asked.body} -> ${status || how} ${text.join("").slice(0, 160)}`,
      );
      end();
    };
    const fail = (why: unknown) => () => {
      settle({ error: why });
      if (status !== 0) body.error(why);
    };
    const lost = (why: string) => finish(why, fail(new TypeError(why)));
    const lose = () => lost("cut");
    const exchange = network.open(
      { method: asked.method, path, search: asked.search, body: asked.body ? Buffer.from(asked.body) : undefined },
      {
        head: (head) => {
          status = head.status;
          isClosed = head.header("stream-closed") !== undefined;
          if (isLive && status === 200) {
            cancel();
            this.ears.connected();
          }
          settle({ response: responseOf(status, (name) => head.header(name), stream) });
        },
        chunk: (bytes) => {
          if (isOver) return;
          if (isLive) this.ears.pushed(bytes);
          else text.push(Buffer.from(bytes).toString());
          body.enqueue(bytes);
        },
        end: () =>
          finish("", () => {
            this.ears.heard(asked, status, text.join(""), isClosed);
            body.close();
          }),
        refused: () => lost("refused"),
        lost,
      },
      random.pick([1, 1, 50, 1_000]),
    );
    const cancel = world.schedule("timeout", PATIENCE_MS, () => lost("timeout"));
    this.open.add(lose);
    if (isLive) this.hangUp = lose;
    signal?.addEventListener("abort", () => finish("aborted", fail(signal.reason)));
  }
}

/** As much of a Response as the client uses. */
function responseOf(status: number, header: (name: string) => string | undefined, body: ReadableStream): Response {
  const headers = {
    get: (name: string) => header(name.toLowerCase()) ?? null,
    has: (name: string) => header(name.toLowerCase()) !== undefined,
  };
  return { status, ok: status < 300, headers, body } as unknown as Response;
}
