/**
 * One request and its reply, seen from the server: the request and the sink that routes work with, as an HTTP adapter would
 * give them. The network makes it and hands it to the host's door.
 *
 * Invariants: after the client has left nothing reaches it, and the server learns of it once, some time later. After the
 * server has died nothing of this exchange runs in it.
 */
import type { Body, HttpRequest, Reply } from "../../packages/server/src/core/http.ts";
import type { Sink } from "../../packages/server/src/core/sink.ts";
import type { Listener, Network, ReplyHead, Spec } from "./network.ts";
import type { Process } from "./world.ts";

export class Exchange implements HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  readonly origin = "http://sim";
  private process: Process | undefined;
  private clientLeft = false;
  /** The connection is closed for the server: the client left, or the reply is complete. */
  private closed = false;
  private replied = false;
  private goneTasks: (() => void)[] = [];
  private closeTasks: (() => void)[] = [];

  constructor(
    private readonly network: Network,
    private readonly spec: Spec,
    private readonly listener: Listener,
    readonly readMs: number,
  ) {
    this.method = spec.method;
    this.path = spec.path;
    this.search = spec.search ?? "";
  }

  /** The server's process takes the request. */
  arrive(process: Process, onClose: () => void): void {
    this.process = process;
    this.closeTasks.push(onClose);
    if (this.clientLeft) this.tellGone();
  }

  get isClosed(): boolean {
    return this.closed;
  }

  /** The client no longer waits for the reply, whether or not the server knows. */
  get isAbandoned(): boolean {
    return this.clientLeft;
  }

  header(name: string): string | undefined {
    return this.spec.headers?.[name];
  }

  body(maxBytes: number): Promise<Body> {
    const bytes = this.spec.body ?? new Uint8Array();
    const body: Body = bytes.length > maxBytes ? { kind: "too-large" } : { kind: "body", bytes: bytes.slice() };
    if (bytes.length === 0 || !this.network.lateBodies) return Promise.resolve(body);
    return new Promise((resolve, reject) => {
      this.process!.schedule("body", this.network.delayMs(), () => {
        if (this.clientLeft) reject(new Error("the client went away while it sent the body"));
        else resolve(body);
      });
    });
  }

  /** Runs the task also when the client has already left. */
  onGone(task: () => void): void {
    if (!this.closed) this.goneTasks.push(task);
    else if (!this.replied) this.process!.schedule("gone", 0, task);
  }

  onClose(task: () => void): void {
    if (this.closed) this.process!.schedule("closed", 0, task);
    else this.closeTasks.push(task);
  }

  /** Sends the server's answer. */
  send(reply: Reply): void {
    if (this.closed) return;
    const head = headOf(reply);
    if (reply.live) this.sendLive(head, reply.live);
    else this.sendWhole(head, reply);
  }

  private sendWhole(head: ReplyHead, { status, body }: Reply): void {
    const bytes = typeof body === "string" ? Buffer.from(body) : (body ?? new Uint8Array());
    this.replied = true;
    this.close();
    if (this.network.losesReply) return;
    this.network.world.schedule(`reply ${status}`, this.network.delayMs(), () => {
      this.toClient((client) => {
        client.head(head);
        if (bytes.length > 0 && this.method !== "HEAD") client.chunk(bytes.slice());
        client.end();
      });
    });
  }

  private sendLive(head: ReplyHead, live: (sink: Sink) => void): void {
    const sink = new SimSink(this.network, this, this.process!);
    sink.open(head);
    live(sink);
  }

  toClient(tell: (client: Listener) => void): void {
    if (!this.clientLeft) tell(this.listener);
  }

  /** The client has its answer, or no longer wants it; in the latter case the server learns of it later. */
  leave(): void {
    if (this.clientLeft) return;
    this.clientLeft = true;
    if (this.process?.alive && !this.closed) this.tellGone();
  }

  private tellGone(): void {
    this.process!.schedule("client gone", this.network.delayMs(), () => this.close());
  }

  /** The server drops the connection; the client learns of it, or times out. */
  reset(why: string): void {
    if (this.closed) return;
    this.closed = true;
    if (this.process!.alive) this.runClosed();
    if (this.network.losesReply) return;
    this.network.world.schedule(why, this.network.delayMs(), () => this.toClient((client) => client.lost(why)));
  }

  /** Ends a streamed reply. */
  finish(): void {
    this.replied = true;
    this.close();
  }

  private close(): void {
    if (this.closed) return;
    this.closed = true;
    this.runClosed();
  }

  private runClosed(): void {
    const tasks = this.replied ? this.closeTasks : [...this.goneTasks, ...this.closeTasks];
    this.goneTasks = [];
    this.closeTasks = [];
    for (const task of tasks) task();
  }
}

/** A live reply: a buffer that the network empties at the client's pace, in pieces that ignore event boundaries. */
class SimSink implements Sink {
  private pending: Uint8Array = new Uint8Array();
  private drains: (() => void)[] = [];
  private taking = false;
  private ending = false;

  constructor(
    private readonly network: Network,
    private readonly exchange: Exchange,
    private readonly process: Process,
  ) {}

  open(head: ReplyHead): void {
    this.taking = true;
    this.network.world.schedule("reply begins", this.network.delayMs(), () => {
      this.taking = false;
      this.exchange.toClient((client) => client.head(head));
      this.takeLater();
    });
  }

  get buffered(): number {
    return this.pending.length;
  }

  write(bytes: Uint8Array): void {
    if (this.exchange.isClosed || this.ending) return;
    this.pending = Buffer.concat([this.pending, bytes]);
    this.takeLater();
  }

  onDrain(task: () => void): void {
    if (this.pending.length === 0) queueMicrotask(task);
    else this.drains.push(task);
  }

  onGone(task: () => void): void {
    this.exchange.onClose(task);
  }

  end(): void {
    this.ending = true;
    this.takeLater();
  }

  cut(): void {
    this.pending = new Uint8Array();
    // A socket emits `close` in a later turn.
    this.process.schedule("cut", 0, () => this.exchange.reset("cut"));
  }

  /** Sends part of the buffered bytes to the client; the buffer of a dead server is lost with it. */
  private takeLater(): void {
    if (this.taking || (this.pending.length === 0 && !this.ending)) return;
    this.taking = true;
    const delayMs = this.network.random.between(0, this.exchange.readMs);
    this.process.schedule("take", delayMs, () => {
      this.taking = false;
      if (this.exchange.isClosed) return;
      const whole = this.network.random.chance(0.7);
      const count = whole ? this.pending.length : this.network.random.between(0, this.pending.length);
      const taken = this.pending.slice(0, count);
      this.pending = this.pending.slice(count);
      if (taken.length > 0) this.exchange.toClient((client) => client.chunk(taken));
      if (this.pending.length > 0) return this.takeLater();
      for (const task of this.drains.splice(0)) task();
      if (this.ending) this.finish();
    });
  }

  private finish(): void {
    this.exchange.finish();
    this.network.world.schedule("end", 0, () => this.exchange.toClient((client) => client.end()));
  }
}

function headOf({ status, headers }: Reply): ReplyHead {
  const byName = new Map<string, string>();
  for (let i = 0; i < headers.length; i += 2) byName.set(headers[i]!.toLowerCase(), headers[i + 1]!);
  return { status, header: (name) => byName.get(name) };
}
