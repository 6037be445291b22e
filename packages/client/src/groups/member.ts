/**
 * A member of a group: keeps it connected, hands out its messages, and leaves in good order. The iterator and the runner
 * of a group make one each time.
 *
 * Invariants: at most one connection is open. Reconnects back off with jitter, and wait at least as long as the server asked. A
 * message of a lost connection or of a revoked stream is not handed out. After `close` nothing is.
 */
import { reasonFor, socketTo } from "../authorized-socket.ts";
import { Backoff, sleep, WORTHWHILE_MS } from "../backoff.ts";
import type { Connection } from "../connection.ts";
import { SluiceError } from "../error.ts";
import type { GroupEvent, GroupSettings } from "../group-options.ts";
import { numberOption } from "../options.ts";
import type { SocketLike } from "../text-socket.ts";
import type { Delivery } from "./delivery.ts";
import { Line, type LineListener } from "./line.ts";
import { Ready } from "./ready.ts";

export interface CloseGroupOptions {
  /** How long the messages that were handed out may take; 10,000 by default. What is not settled then is delivered again. */
  readonly drainMs?: number | undefined;
}

const DRAIN_MS = 10_000;

interface Asker<T> {
  readonly busy: Set<string> | undefined;
  resolve(delivery: Delivery<T> | undefined): void;
  reject(error: unknown): void;
}

export class Member<T> {
  private readonly ready = new Ready<Delivery<T>>();
  private readonly askers: Asker<T>[] = [];
  private readonly closing = new AbortController();
  private line: Line<T> | undefined;
  private failure: { readonly error: unknown } | undefined;
  private closed: Promise<void> | undefined;
  /** Looks whether the member may leave. */
  private drained: (() => void) | undefined;
  private settlesMore = true;
  private subscribedMs = 0;

  constructor(
    private readonly connection: Connection,
    private readonly settings: GroupSettings,
  ) {
    void this.keepConnected();
  }

  get isQueue(): boolean {
    return this.settings.mode === "queue";
  }

  /**
   * The next message, of a stream that is not busy, which is busy from then on; undefined after `close`. Rejects when the member cannot
   * go on.
   */
  next(busy?: Set<string>): Promise<Delivery<T> | undefined> {
    return new Promise((resolve, reject) => {
      this.askers.push({ busy, resolve, reject });
      this.handOut();
    });
  }

  /** Hands out what can be: a message has come, or a stream is not busy any more. */
  handOut(): void {
    const isOver = this.closing.signal.aborted;
    for (let i = 0; i < this.askers.length; ) {
      const { busy, resolve, reject } = this.askers[i]!;
      const delivery = isOver || this.failure ? undefined : this.ready.take(busy);
      if (delivery === undefined && !isOver && this.failure === undefined) {
        i++;
        continue;
      }
      this.askers.splice(i, 1);
      if (delivery !== undefined) {
        // At once, because the next asker must not get the same stream.
        busy?.add(delivery.stream);
        this.line!.handOut(delivery);
      }
      if (this.failure === undefined || isOver) resolve(delivery);
      else reject(this.failure.error);
    }
  }

  /** Hands out no more. */
  stop(): void {
    this.closing.abort(new SluiceError("closed", "the member was closed"));
    this.ready.clear();
    this.handOut();
  }

  /** Waits until what was handed out is settled, and its acknowledgements are durable. Then leaves the group. */
  close({ drainMs }: CloseGroupOptions = {}): Promise<void> {
    const waitMs = numberOption("drainMs", drainMs, DRAIN_MS);
    this.stop();
    this.closed ??= this.drain(waitMs);
    return this.closed;
  }

  /** The same for a program that settles nothing more: only its acknowledgements under way are waited for. */
  leave(): Promise<void> {
    this.settlesMore = false;
    this.drained?.();
    return this.close();
  }

  private async drain(waitMs: number): Promise<void> {
    const isOver = () =>
      this.line === undefined || (this.settlesMore ? this.line.isDrained : !this.line.hasUnconfirmed);
    if (!isOver() && waitMs > 0) {
      const timeUp = new AbortController();
      const settled = new Promise<void>((resolve) => {
        this.drained = () => isOver() && resolve();
      });
      await Promise.race([settled, sleep(waitMs, timeUp.signal).catch(() => {})]);
      timeUp.abort();
    }
    this.line?.leave();
  }

  private async keepConnected(): Promise<void> {
    const { connection, settings, closing } = this;
    const { signal } = closing;
    const backoff = new Backoff(connection.retries, signal, settings.giveUpMs ?? Number.POSITIVE_INFINITY);
    try {
      while (!signal.aborted) {
        const error = await this.connect(backoff);
        if (this.subscribedMs > 0 && !signal.aborted) {
          if (Date.now() - this.subscribedMs >= WORTHWHILE_MS) backoff.progress();
          this.tell({ type: "disconnected", error });
        }
        await backoff.wait(error);
      }
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.failure ??= { error };
    this.line?.end(new SluiceError("closed", "the member was closed", { cause: error }));
    this.handOut();
  }

  /** Resolves when a connection has ended, with the reason. */
  private async connect(backoff: Backoff): Promise<SluiceError> {
    this.subscribedMs = 0;
    const { signal } = this.closing;
    const { member, Socket } = this.settings;
    const place = { path: "consume", query: { member } };
    let connect: () => SocketLike;
    try {
      connect = await socketTo(this.connection, { ...place, Socket }, signal);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      return error as SluiceError;
    }
    // It may have been left while the address was asked for.
    signal.throwIfAborted();
    const ended = await this.hold(connect, backoff);
    return this.subscribedMs > 0 ? ended : reasonFor(this.connection, place, ended, signal);
  }

  private hold(connect: () => SocketLike, backoff: Backoff): Promise<SluiceError> {
    const { name, filter, mode = "share", from, credit } = this.settings;
    const subscription = { topic: `$${mode}/${name}/${filter}`, from, credit, isQueue: this.isQueue };
    return new Promise((resolve) => {
      const listener: LineListener<T> = {
        subscribed: () => {
          this.subscribedMs = Date.now();
          backoff.reached();
          this.tell({ type: "connected" });
        },
        messages: (deliveries) => {
          if (this.closing.signal.aborted) return;
          for (const delivery of deliveries) this.ready.add(delivery);
          this.handOut();
        },
        stream: ({ type, stream }) => {
          if (type === "revoking") this.ready.hurry(stream);
          else this.ready.drop(stream);
          this.tell({ type, stream });
        },
        gap: (stream, after, through) => this.tell({ type: "gap", stream, after, through }),
        settled: () => this.drained?.(),
        end: (error) => {
          this.line = undefined;
          this.ready.clear();
          this.drained?.();
          resolve(error);
        },
      };
      this.line = new Line<T>(connect, subscription, listener);
    });
  }

  private tell(event: GroupEvent): void {
    try {
      this.settings.onEvent?.(event);
    } catch (cause) {
      this.fail(new SluiceError("handler-failed", "onEvent threw an error", { cause }));
    }
  }
}
