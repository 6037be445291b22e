/**
 * One master, as the engine talks to it: calls of one turn leave in one write, and a call that is not answered in time ends the
 * connection. A reply costs no promise of its own. `topology.ts` opens one per master; `operation.ts` calls through it and retries.
 *
 * Invariants: it never repeats a call by itself. It does not know whether a failed call was carried out, so callers must make a
 * repetition harmless. Every call is answered exactly once.
 */
import { connect as connectPlain, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Cancel, World } from "../../core/world.ts";
import { EngineError } from "../contract.ts";
import type { RedisLimits } from "./options.ts";
import { type Argument, Decoder, encode, type Receiver, RedisRefusal } from "./resp.ts";

/** The receiver of the reply to one call. Its methods must not throw. */
export interface Answer {
  /** Whether the reply is wanted as text (ASCII only), which costs less than bytes. */
  readonly isText: boolean;
  /** Whether the operation has ended; an unsent call of an ended operation is never sent. */
  readonly isOver: boolean;
  done(reply: unknown): void;
  fail(error: Error): void;
}

export interface Access {
  readonly host: string;
  readonly port: number;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly tls: boolean;
}

interface Call {
  readonly args: readonly Argument[];
  readonly bytes: number;
  /** Set for a slot that is migrating to this node. */
  readonly asking: boolean;
  readonly answer: Answer;
  sentMs: number;
}

type NodeLimits = Pick<RedisLimits, "commandMs" | "connectMs" | "flyingBytes" | "waitingBytes">;

/** The number of answered calls at which the list is compacted. */
const MAX_ANSWERED = 1_000;
const NO_RECEIVER: Answer = { isText: true, isOver: false, done() {}, fail() {} };

export class RedisNode implements Receiver {
  private readonly socket: Socket;
  private readonly decoder = new Decoder(this);
  private waiting: Call[] = [];
  private waitingBytes = 0;
  /** Calls that were sent, oldest first; calls before `answered` have their reply. */
  private flying: Call[] = [];
  private answered = 0;
  private flyingBytes = 0;
  private isReady = false;
  private isOver = false;
  private timer: Cancel | undefined;

  constructor(
    readonly name: string,
    private readonly world: World,
    private readonly limits: NodeLimits,
    access: Access,
    /** Called when the connection is lost or given up. */
    private readonly lost: () => void,
  ) {
    const { host, port, tls } = access;
    this.socket = tls ? connectTls({ host, port, ...nameOf(host) }) : connectPlain({ host, port });
    this.socket.setNoDelay(true);
    this.timer = this.timeout(limits.connectMs, () => {
      this.giveUp(new Error(`${name} cannot be reached within ${limits.connectMs} ms`));
    });
    this.socket.once(tls ? "secureConnect" : "connect", () => this.introduce(access));
    this.socket.on("data", (piece: Buffer) => this.arrived(piece));
    this.socket.on("error", (error) => this.giveUp(error));
    this.socket.on("close", () => this.giveUp(new Error(`the connection to ${name} was lost`)));
  }

  /** Whether this connection is unusable, so that another one must be opened. */
  get over(): boolean {
    return this.isOver;
  }

  call(args: readonly Argument[], asking: boolean, answer: Answer): void {
    if (this.isOver) {
      answer.fail(new Error(`the connection to ${this.name} was lost`));
      return;
    }
    let bytes = 0;
    for (const arg of args) bytes += arg.length;
    if (this.waitingBytes + bytes > this.limits.waitingBytes && this.waiting.length > 0) {
      answer.fail(new EngineError("overloaded", "too many bytes wait to be sent to Redis; retry later"));
      return;
    }
    this.waiting.push({ args, bytes, asking, answer, sentMs: 0 });
    this.waitingBytes += bytes;
    if (this.waiting.length === 1 && this.isReady) queueMicrotask(() => this.flush());
  }

  ask(args: readonly Argument[]): Promise<unknown> {
    return new Promise((done, fail) => this.call(args, false, { isText: false, isOver: false, done, fail }));
  }

  close(): void {
    this.giveUp(new Error(`the connection to ${this.name} was given up`));
  }

  /**
   * Destroys the socket, because an end would wait for a hung master, and the system would keep sending to a cut-off one.
   */
  private giveUp(reason: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.timer?.();
    this.socket.destroy();
    this.lost();
    const calls = [...this.flying.slice(this.answered), ...this.waiting];
    this.flying = [];
    this.answered = 0;
    this.waiting = [];
    for (const { answer } of calls) answer.fail(reason);
  }

  private introduce({ username, password }: Access): void {
    this.timer?.();
    this.timer = undefined;
    if (password === undefined) {
      this.begin();
      return;
    }
    const args = ["AUTH", ...(username === undefined ? [] : [username]), password];
    const answer: Answer = {
      isText: true,
      isOver: false,
      done: () => this.begin(),
      fail: (error) => this.giveUp(error),
    };
    this.send([{ args, bytes: 0, asking: false, answer, sentMs: 0 }]);
  }

  private begin(): void {
    this.isReady = true;
    this.flush();
  }

  /** Sends waiting calls as far as there is room. Unanswered calls are sent again, so their bytes are bounded. */
  private flush(): void {
    if (this.isOver || this.waiting.length === 0) return;
    const { waiting } = this;
    const { flyingBytes: maxBytes } = this.limits;
    const calls: Call[] = [];
    let taken = 0;
    for (; taken < waiting.length; taken++) {
      const call = waiting[taken]!;
      if (!call.answer.isOver) {
        if (this.flyingBytes > 0 && this.flyingBytes + call.bytes > maxBytes) break;
        this.flyingBytes += call.bytes;
        calls.push(call);
      }
      this.waitingBytes -= call.bytes;
    }
    this.waiting = taken === waiting.length ? [] : waiting.slice(taken);
    if (calls.length > 0) this.send(calls);
  }

  private send(calls: readonly Call[]): void {
    const now = this.world.monotonicMs();
    for (const call of calls) {
      call.sentMs = now;
      if (call.asking) this.flying.push({ args: [], bytes: 0, asking: false, answer: NO_RECEIVER, sentMs: now });
      this.flying.push(call);
    }
    this.timer ??= this.watch(this.limits.commandMs);
    this.socket.write(encode(calls));
  }

  /** One timer for all calls: it looks at the oldest waiting one, and is set again for the next if that one was answered. */
  private watch(ms: number): Cancel {
    return this.timeout(ms, () => {
      this.timer = undefined;
      const oldest = this.flying[this.answered];
      if (oldest === undefined) return;
      const waitedMs = this.world.monotonicMs() - oldest.sentMs;
      const { commandMs } = this.limits;
      if (waitedMs < commandMs) this.timer = this.watch(commandMs - waitedMs);
      else this.giveUp(new Error(`${this.name} does not answer within ${commandMs} ms`));
    });
  }

  /**
   * Replies that have arrived by then count, even if this process was too busy to read them: its own pause is not the master's
   * silence.
   */
  private timeout(ms: number, task: () => void): Cancel {
    let isCancelled = false;
    const cancel = this.world.after(ms, () => {
      this.world.soon(() => {
        if (!isCancelled) task();
      });
    });
    return () => {
      isCancelled = true;
      cancel();
    };
  }

  private arrived(piece: Buffer): void {
    if (this.isOver) return;
    try {
      this.decoder.push(piece);
    } catch (fault) {
      this.giveUp(fault as Error);
    }
    if (this.answered === this.flying.length || this.answered > MAX_ANSWERED) {
      this.flying = this.flying.slice(this.answered);
      this.answered = 0;
    }
    this.flush();
  }

  isText(): boolean {
    return this.flying[this.answered]?.answer.isText ?? true;
  }

  receive(reply: unknown): void {
    const call = this.flying[this.answered];
    if (call === undefined) throw new Error(`${this.name} sent a reply without a call`);
    this.answered++;
    this.flyingBytes -= call.bytes;
    if (reply instanceof RedisRefusal) call.answer.fail(reply);
    else call.answer.done(reply);
  }
}

/** The TLS server name, by which a host with several certificates chooses one; an address is not a name. */
function nameOf(host: string): { servername?: string } {
  return isIP(host) === 0 ? { servername: host } : {};
}
