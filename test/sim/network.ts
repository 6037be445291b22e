/**
 * The simulated network between clients and the server: requests and replies are delayed, reordered across connections, and
 * lost; clients give up, leave, or read slowly. exchange.ts is the server side of a connection. Scenarios send through it.
 *
 * Invariants: a request reaches the server at most once, unless its client sends it again. A client gets only what the
 * server sent. A request can reach the server long after its client has given up.
 */
import { Exchange } from "./exchange.ts";
import type { Random } from "./random.ts";
import type { SimWorld } from "./world.ts";

export interface Spec {
  readonly method: string;
  readonly path: string;
  readonly search?: string | undefined;
  /** By lower-case names. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Uint8Array | undefined;
}

export interface ReplyHead {
  readonly status: number;
  header(name: string): string | undefined;
}

/** `refused`: the server was never reached. `lost`: it may have been, and its outcome is unknown. */
export type Answer =
  | { readonly kind: "reply"; readonly head: ReplyHead; readonly body: Uint8Array }
  | { readonly kind: "refused" }
  | { readonly kind: "lost"; readonly why: string };

/** A client's end of a connection. Every method is called in an event of its own. */
export interface Listener {
  /** The reply begins; the body follows in chunks. */
  head(head: ReplyHead): void;
  chunk(bytes: Uint8Array): void;
  end(): void;
  refused(): void;
  lost(why: string): void;
}

/** How the network behaves during one run, drawn once. */
export interface Weather {
  readonly maxMs: number;
  readonly stalls: number;
  readonly stallMs: number;
  readonly lostRequests: number;
  readonly lostReplies: number;
  /** The share of bodies that arrive later than their headers. */
  readonly lateBodies: number;
}

const CALM: Weather = { maxMs: 1, stalls: 0, stallMs: 0, lostRequests: 0, lostReplies: 0, lateBodies: 0 };

export function drawWeather(random: Random): Weather {
  return {
    maxMs: random.pick([0, 3, 30]),
    stalls: random.pick([0, 0, 0.02, 0.1]),
    stallMs: random.pick([100, 4_000]),
    lostRequests: random.pick([0, 0, 0.02, 0.1]),
    lostReplies: random.pick([0, 0, 0.02, 0.15]),
    lateBodies: random.pick([0, 0.3]),
  };
}

/** The server at the address; `host.ts` is one. */
export interface Door {
  /** False when no server listens. */
  accept(exchange: Exchange): boolean;
}

export class Network {
  private weather: Weather;

  constructor(
    readonly world: SimWorld,
    readonly random: Random,
    private readonly door: Door,
  ) {
    this.weather = drawWeather(random);
  }

  calm(): void {
    this.weather = CALM;
  }

  get lateBodies(): boolean {
    return this.random.chance(this.weather.lateBodies);
  }

  get losesReply(): boolean {
    return this.random.chance(this.weather.lostReplies);
  }

  delayMs(): number {
    const { maxMs, stalls, stallMs } = this.weather;
    return this.world.expect(this.random.between(0, this.random.chance(stalls) ? stallMs : maxMs));
  }

  /** Sends a request. `readMs` is how long, at most, the client leaves bytes of a live reply unread. */
  open(spec: Spec, listener: Listener, readMs = 1): Exchange {
    const exchange = new Exchange(this, spec, listener, readMs);
    if (this.random.chance(this.weather.lostRequests)) return exchange;
    this.world.schedule(`arrives ${spec.method} ${spec.path}`, this.delayMs(), () => {
      if (this.door.accept(exchange)) return;
      this.world.schedule("refused", this.delayMs(), () => exchange.toClient((client) => client.refused()));
    });
    return exchange;
  }

  /** Sends a request and waits for the whole reply, or until the client's timeout. */
  request(spec: Spec, timeoutMs: number): Promise<Answer> {
    return new Promise((resolve) => {
      let head: ReplyHead | undefined;
      const chunks: Uint8Array[] = [];
      const finish = (answer: Answer) => {
        cancel();
        exchange.leave();
        resolve(answer);
      };
      const exchange = this.open(spec, {
        head(given) {
          head = given;
        },
        chunk: (bytes) => void chunks.push(bytes),
        end: () => finish({ kind: "reply", head: head!, body: Buffer.concat(chunks) }),
        refused: () => finish({ kind: "refused" }),
        lost: (why) => finish({ kind: "lost", why }),
      });
      const cancel = this.world.schedule("timeout", timeoutMs, () => finish({ kind: "lost", why: "timeout" }));
    });
  }
}
