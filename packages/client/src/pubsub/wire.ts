/**
 * A connection to `/pull` that is there when it is needed: it opens with the first question, and again after it was lost. The port
 * of a `PubSub` has one for calls, and one for each subscriber.
 *
 * Invariants: one socket is open at a time. A question is repeated with backoff until it is answered, refused for good, or the
 * policy gives up; one that must not be repeated fails when its answer is lost. After `close` nothing is sent.
 */
import type { FlowLimits, PullStream, StreamEvents, StreamOptions } from "@sluice/protocol/pull";
import { onAbort } from "../abort.ts";
import { reasonFor, socketTo } from "../authorized-socket.ts";
import { Backoff, sleep } from "../backoff.ts";
import type { Connection } from "../connection.ts";
import { SluiceError } from "../error.ts";
import type { SocketClass } from "../text-socket.ts";
import { type Answer, WireLine } from "./wire-line.ts";

const PATH = "pull";

export class Wire {
  private readonly closing = new AbortController();
  private line: WireLine | undefined;
  private connecting: Promise<WireLine> | undefined;
  private streams = 0;

  constructor(
    private readonly connection: Connection,
    private readonly Socket: SocketClass,
    /** The server asked its clients to stay away until then. All wires of a port share it. */
    private readonly rest: { untilMs: number },
  ) {}

  /** For a question whose repetition does no harm. */
  async ask(type: string, members: object = {}): Promise<Answer> {
    const backoff = new Backoff(this.connection.retries, this.closing.signal);
    for (;;) {
      try {
        const answer = await this.once(type, members);
        backoff.progress();
        return answer;
      } catch (error) {
        await backoff.wait(error);
      }
    }
  }

  async once(type: string, members: object = {}): Promise<Answer> {
    return (await this.connected()).ask(type, members);
  }

  /** Opens a stream. When the connection is lost, the stream ends as `moved`. */
  async open(subscription: string, asked: StreamOptions, to: StreamEvents): Promise<PullStream> {
    const line = await this.connected();
    const id = String(++this.streams);
    const { isSequential, shareOf } = asked;
    let settings = { ...limitsOf(asked), ackDeadlineMs: asked.ackDeadlineMs };
    line.addStream(id, to);
    try {
      await line.ask("open", { stream: id, subscription, isSequential, shareOf, ...settings });
    } catch (error) {
      line.removeStream(id);
      throw error;
    }
    const tell = (type: string, members = {}) => line.send({ type, stream: id, ...members });
    const set = (change: Partial<typeof settings>) => {
      settings = { ...settings, ...change };
      tell("limits", settings);
    };
    return {
      pause: () => tell("pause"),
      resume: () => tell("resume"),
      setAckDeadline: (ackDeadlineMs) => set({ ackDeadlineMs }),
      setLimits: (limits) => set(limitsOf(limits)),
      close: () => {
        line.removeStream(id);
        tell("close");
      },
    };
  }

  close(): void {
    this.closing.abort(new SluiceError("closed", "the PubSub was closed"));
  }

  private connected(): Promise<WireLine> {
    if (this.line !== undefined) return Promise.resolve(this.line);
    this.connecting ??= this.connect().finally(() => {
      this.connecting = undefined;
    });
    return this.connecting;
  }

  private async connect(): Promise<WireLine> {
    const { connection, Socket } = this;
    const { signal } = this.closing;
    signal.throwIfAborted();
    const restMs = this.rest.untilMs - performance.now();
    if (restMs > 0) await sleep(restMs, signal);
    const open = await socketTo(connection, { path: PATH, Socket }, signal);
    try {
      return await new Promise<WireLine>((resolve, reject) => {
        const line: WireLine = new WireLine(open, {
          opened: () => {
            this.line = line;
            resolve(line);
          },
          ended: (error) => {
            stop();
            if (this.line === line) this.line = undefined;
            if (error.retryAfterMs !== undefined) this.rest.untilMs = performance.now() + error.retryAfterMs;
            reject(error);
          },
        });
        const stop = onAbort(signal, () => line.end(signal.reason));
        if (signal.aborted) line.end(signal.reason);
      });
    } catch (error) {
      throw await reasonFor(connection, { path: PATH }, error as SluiceError, signal);
    }
  }
}

/** JSON has no `Infinity`; on the wire 0 is no limit. */
function limitsOf({ maxMessages, maxBytes, allowsExcess }: FlowLimits): FlowLimits {
  return { maxMessages: countOf(maxMessages), maxBytes: countOf(maxBytes), allowsExcess };
}

function countOf(limit: number | undefined): number | undefined {
  return limit === Number.POSITIVE_INFINITY ? 0 : limit;
}
