/**
 * One open connection to a client, and all connections of a feature. A connection owns its lifetime, back-pressure, slow-reader
 * limit, heartbeats and end; followers (`follower.ts`) bring it the messages of any number of logs. Routes open one per SSE
 * response.
 *
 * Invariants: at most `slowReaderBytes` and one page wait for a client. Followers that catch up take turns: one page each, read
 * only when the client has taken everything before it. An ended connection has no follower and one deadline: the time its client
 * has to take the buffered bytes. It knows no framing: its own messages go through `Framing`.
 */
import type { Audience, Guest } from "./audience.ts";
import { Deadlined, Deadlines } from "./deadlines.ts";
import type { EndReason, Sink } from "./sink.ts";
import type { World } from "./world.ts";

export interface ConnectionLimits {
  /** The server ends the connection after this time. */
  readonly lifetimeMs: number;
  /** The most bytes that may wait for a client that does not read. */
  readonly slowReaderBytes: number;
  /** The longest silence on a connection, because proxies cut quiet connections. */
  readonly heartbeatMs: number;
  /** How long the client of an ended connection may take for the rest; the lifetime if absent. */
  readonly lingerMs?: number | undefined;
}

export const CONNECTION_LIMITS: Omit<ConnectionLimits, "lifetimeMs"> = {
  slowReaderBytes: 1024 * 1024,
  heartbeatMs: 15_000,
};

/** The connection's own messages, in the terms of its protocol. */
export interface Framing {
  /** A sign of life, for a sink without a ping. */
  beat(sink: Sink): void;
  /** The last bytes that the client gets. */
  farewell(sink: Sink, why: string): void;
  /** Whether a client that reads too slowly gets a farewell too, instead of being cut off at once. */
  readonly tellsSlow?: boolean | undefined;
}

/** A source of messages for a connection. */
export interface Paced {
  /** Reads and sends at most one page. Must not reject; asks for the next turn by itself. */
  turn(): Promise<void>;
  /** Called when the connection has ended. */
  stop(): void;
}

export interface Opening {
  readonly sink: Sink;
  readonly framing: Framing;
  /** Overrides the interval of the feature. */
  readonly heartbeatMs?: number | undefined;
  /** Runs once when the client has gone. */
  onGone(): void;
}

/** The connections of one feature, which share timers. */
export class Connections {
  private count = 0;
  private readonly lifetimes: Deadlines;
  private readonly endings: Deadlines;
  /** Keyed by interval. */
  private readonly heartbeats = new Map<number, Deadlines>();

  constructor(
    private readonly world: World,
    private readonly audience: Audience,
    private readonly limits: ConnectionLimits,
  ) {
    this.lifetimes = new Deadlines(world, limits.lifetimeMs);
    this.endings = new Deadlines(world, limits.lingerMs ?? limits.lifetimeMs);
  }

  /** Connections whose client has not gone. */
  get size(): number {
    return this.count;
  }

  /** `begin` gives the connection its followers. During a shutdown the client gets only what they send at once. */
  open(opening: Opening, begin: (connection: Connection) => void): void {
    const { sink, framing, heartbeatMs = this.limits.heartbeatMs } = opening;
    const { audience, lifetimes, endings, limits } = this;
    const heartbeats = this.heartbeatsEvery(heartbeatMs);
    const connection = new Connection(sink, framing, { audience, lifetimes, endings, heartbeats, limits });
    this.count++;
    sink.onGone(() => {
      connection.gone();
      opening.onGone();
      this.count--;
      if (this.count === 0) this.stopTimers();
    });
    begin(connection);
    if (audience.draining) connection.end("drained");
  }

  private heartbeatsEvery(ms: number): Deadlines {
    let found = this.heartbeats.get(ms);
    if (found === undefined) {
      found = new Deadlines(this.world, ms);
      this.heartbeats.set(ms, found);
    }
    return found;
  }

  /** Stops the timers, because a timer without connections would keep the process alive. */
  private stopTimers(): void {
    this.lifetimes.stop();
    this.endings.stop();
    for (const heartbeats of this.heartbeats.values()) heartbeats.stop();
    this.heartbeats.clear();
  }
}

interface Surroundings {
  readonly audience: Audience;
  readonly lifetimes: Deadlines;
  /** Ended connections whose clients have not taken the rest yet. */
  readonly endings: Deadlines;
  readonly heartbeats: Deadlines;
  readonly limits: ConnectionLimits;
}

/** Its deadline is the end of its lifetime, or, once it has ended, the time its client has to take the rest. */
export class Connection extends Deadlined implements Guest {
  private readonly followers = new Set<Paced>();
  /** Followers that catch up and wait for their turn, in order. */
  private waiting: Set<Paced> | undefined = undefined;
  private isInTurn = false;
  private awaitsDrain = false;
  private isOver = false;
  private readonly heartbeat = new Heartbeat(this);

  /** Only `Connections` makes one. */
  constructor(
    private readonly sink: Sink,
    private readonly framing: Framing,
    private readonly around: Surroundings,
  ) {
    super();
    around.audience.stay(this);
    around.lifetimes.add(this);
    around.heartbeats.add(this.heartbeat);
  }

  get hasEnded(): boolean {
    return this.isOver;
  }

  /** Whether the buffer is so full that one more frame might exceed the limit, even for a client that reads as fast as it can. */
  get isLoaded(): boolean {
    return this.sink.buffered > this.around.limits.slowReaderBytes / 2;
  }

  /** Whether a follower catches up, so that some of the buffered bytes are its pages. */
  get isPacing(): boolean {
    return this.isInTurn || (this.waiting !== undefined && this.waiting.size > 0);
  }

  add(follower: Paced): void {
    this.followers.add(follower);
  }

  remove(follower: Paced): void {
    this.followers.delete(follower);
    this.waiting?.delete(follower);
  }

  /**
   * Cuts the connection if its client has not taken the bytes sent before. These bytes alone may exceed the limit. `isShared`:
   * other connections send the same bytes.
   */
  send(bytes: Uint8Array, isShared = false): void {
    if (this.isOver || bytes.length === 0) return;
    if (this.sink.buffered <= this.around.limits.slowReaderBytes) this.sink.write(bytes, isShared);
    else if (this.framing.tellsSlow) this.end("slow-reader");
    else {
      this.close();
      this.sink.cut("slow-reader");
    }
  }

  /** Gives the follower a turn after all earlier ones, when the client has taken everything. */
  queue(follower: Paced): void {
    if (this.isOver) return;
    this.waiting ??= new Set();
    this.waiting.add(follower);
    this.giveTurn();
  }

  private giveTurn(): void {
    if (this.isInTurn || this.awaitsDrain || this.waiting === undefined) return;
    const [next] = this.waiting;
    if (next === undefined) return;
    if (this.sink.buffered > 0) {
      this.awaitsDrain = true;
      this.sink.onDrain(() => {
        this.awaitsDrain = false;
        this.giveTurn();
      });
      return;
    }
    this.waiting.delete(next);
    this.isInTurn = true;
    void next.turn().then(() => {
      this.isInTurn = false;
      this.giveTurn();
    });
  }

  /** `told` is the reason for the client, if it is more precise than the counted one. */
  end(why: EndReason, told: string = why): void {
    if (this.isOver) return;
    this.close();
    this.framing.farewell(this.sink, told);
    this.sink.end(why);
    this.around.endings.add(this);
  }

  sendHome(): void {
    this.end("drained");
  }

  override expire(): void {
    if (this.isOver) this.sink.cut("slow-reader");
    else this.end("time");
  }

  beat(): void {
    if (this.sink.ping !== undefined) this.sink.ping();
    // Bytes on their way are a sign of life too.
    else if (this.sink.buffered === 0) this.framing.beat(this.sink);
    this.around.heartbeats.add(this.heartbeat);
  }

  /** The client has gone. */
  gone(): void {
    if (this.isOver) this.around.endings.remove(this);
    else this.close();
  }

  private close(): void {
    if (this.isOver) return;
    this.isOver = true;
    const { audience, lifetimes, heartbeats } = this.around;
    audience.go(this);
    lifetimes.remove(this);
    heartbeats.remove(this.heartbeat);
    this.waiting = undefined;
    for (const follower of this.followers) follower.stop();
  }
}

class Heartbeat extends Deadlined {
  constructor(private readonly connection: Connection) {
    super();
  }

  override expire(): void {
    this.connection.beat();
  }
}
