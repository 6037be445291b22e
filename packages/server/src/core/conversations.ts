/**
 * The WebSockets of a feature whose clients send frames and get frames: groups and pull have one each. It opens connections, tells
 * clients why the server ends theirs, and ends those whose token has ended.
 *
 * Invariants: a client that is not cut off gets `bye` before its connection ends. Clients are asked to come back spread over some
 * time, because many may lose their connection at the same moment.
 */
import type { Access } from "./action.ts";
import type { Audience } from "./audience.ts";
import { utf8 } from "./bytes.ts";
import { type Connection, type ConnectionLimits, Connections, type Framing } from "./connection.ts";
import type { EndReason } from "./sink.ts";
import { type Socket, textFrame } from "./socket.ts";
import type { Cancel, World } from "./world.ts";

export interface ConversationParts {
  readonly engine: { now(): number };
  readonly world: World;
  readonly audience: Audience;
  readonly limits: ConnectionLimits & {
    /** How often tokens are looked at. */
    readonly checkMs: number;
    /** Clients that must reconnect are asked to spread over this time. */
    readonly spreadMs: number;
  };
}

/** One connection with its client. */
export interface Conversation {
  /** A text frame of the client. Must not reject. */
  take(text: string): Promise<void>;
}

interface Open {
  readonly connection: Connection;
  readonly access: Access;
}

/** What a client is told, by the reason for which the server ends its connection. */
const CODES: Readonly<Partial<Record<EndReason, string>>> = {
  drained: "draining",
  fault: "unavailable",
  expired: "token-expired",
};

export class Conversations {
  private readonly connections: Connections;
  private readonly open = new Set<Open>();
  private timer: Cancel | undefined;

  constructor(private readonly parts: ConversationParts) {
    this.connections = new Connections(parts.world, parts.audience, parts.limits);
  }

  get size(): number {
    return this.connections.size;
  }

  /** `leave` runs once when the client has gone. */
  accept(access: Access, socket: Socket, leave: () => void, begin: (connection: Connection) => Conversation): void {
    let one: Open | undefined;
    const onGone = () => {
      if (one !== undefined) this.open.delete(one);
      leave();
    };
    this.connections.open({ sink: socket, framing: this.framing, onGone }, (connection) => {
      one = { connection, access };
      this.open.add(one);
      const conversation = begin(connection);
      socket.onText((text) => conversation.take(text));
    });
    this.timer ??= this.parts.world.after(this.parts.limits.checkMs, this.check);
  }

  private readonly framing: Framing = {
    tellsSlow: true,
    beat: () => {},
    farewell: (sink, why) => {
      const { world, limits } = this.parts;
      const code = CODES[why as EndReason] ?? why;
      const retryMs = Math.round(world.random() * limits.spreadMs);
      sink.write(textFrame([utf8(JSON.stringify({ type: "bye", code, reconnect: true, retryMs }))]));
    },
  };

  /** Ends the connections whose token has ended. */
  private readonly check = (): void => {
    const { world, engine, limits } = this.parts;
    const now = engine.now();
    for (const { access, connection } of [...this.open]) {
      if ((access.untilMs ?? Number.POSITIVE_INFINITY) <= now) connection.end("expired");
    }
    this.timer = this.open.size === 0 ? undefined : world.after(limits.checkMs, this.check);
  };
}
