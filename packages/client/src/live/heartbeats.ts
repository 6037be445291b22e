/**
 * Tells the server what the tab has processed: right after `hello`, every few seconds, and when the page is hidden. The answer to
 * a heartbeat over a WebSocket is also the sign that the connection still works.
 *
 * Invariants: an offset is sent only when every handler of its stream has finished it. One heartbeat of a connection is under way
 * at a time.
 */
import type { Call } from "../connection.ts";
import type { SluiceError } from "../error.ts";
import type { LastBudget } from "../page-exit.ts";
import type { Followed } from "./followed.ts";
import { postOf } from "./identity.ts";
import type { SessionPort } from "./stored-subscription.ts";
import type { Cancel } from "./world.ts";

/** What a server takes in one heartbeat: so many entries, and so many bytes less a margin. */
const MAX_ENTRIES = 1_000;
const MAX_BYTES = 60_000;

export interface HeartbeatParts {
  readonly port: SessionPort;
  readonly everyMs: number;
  followed(): Iterable<Followed>;
  /** Sends over the open connection; undefined where it can carry nothing. */
  overLine(body: object): Promise<void> | undefined;
  /** Runs every `everyMs` while the session is connected. */
  tick(): void;
}

interface Entry {
  readonly streamId: string;
  readonly lastOffset: string;
  readonly epoch: number;
}

export class Heartbeats {
  private cancel: Cancel | undefined;
  /** The heartbeat that is under way. */
  private beating: object | undefined;

  constructor(private readonly parts: HeartbeatParts) {}

  /** The connection is open. */
  start(): void {
    this.stop();
    this.schedule();
    // One that an earlier connection has left is not waited for.
    this.beating = undefined;
    void this.beat();
  }

  stop(): void {
    this.cancel?.();
    this.cancel = undefined;
  }

  async beat(): Promise<void> {
    const sessionId = this.parts.port.sessionId();
    if (this.beating !== undefined || sessionId === undefined) return;
    const own = {};
    this.beating = own;
    try {
      for (const followed of requestsFor(this.unconfirmed())) {
        await this.tell(sessionId, followed);
        if (this.beating !== own) return;
      }
    } catch (error) {
      this.failed(sessionId, error as SluiceError);
    }
    if (this.beating === own) this.beating = undefined;
  }

  private async tell(sessionId: string, followed: readonly Followed[]): Promise<void> {
    const offsets = followed.map(entryOf);
    const body = { sessionId, offsets };
    await (this.parts.overLine(body) ?? this.parts.port.ask(postOf("heartbeat", body)));
    for (const [i, { lastOffset, epoch }] of offsets.entries()) {
      if (followed[i]!.epoch === epoch) followed[i]!.confirmed = lastOffset;
    }
  }

  /** The last heartbeat of a page, as far as it fits; undefined when the server knows everything. */
  last(budget: LastBudget): Call | undefined {
    const sessionId = this.parts.port.sessionId();
    const offsets = this.unconfirmed().slice(0, MAX_ENTRIES).map(entryOf);
    while (sessionId !== undefined && offsets.length > 0) {
      const call = postOf("heartbeat", { sessionId, offsets });
      const bytes = bytesIn(call.body as string);
      if (bytes <= Math.min(budget.bytes, MAX_BYTES)) {
        budget.bytes -= bytes;
        return call;
      }
      offsets.length >>= 1;
    }
    return undefined;
  }

  /** The jitter keeps the tabs of a restarted server apart. */
  private schedule(): void {
    const { everyMs } = this.parts;
    const { world } = this.parts.port;
    this.cancel = world.after(everyMs * (0.9 + 0.2 * world.random()), () => {
      this.schedule();
      this.parts.tick();
      void this.beat();
    });
  }

  private unconfirmed(): Followed[] {
    return [...this.parts.followed()].filter(
      ({ epoch, processed, confirmed }) => epoch !== undefined && processed !== undefined && processed !== confirmed,
    );
  }

  private failed(sessionId: string, error: SluiceError): void {
    const { port } = this.parts;
    if (error.code === "session-not-found") port.sessionLost(sessionId);
    // The end of a stream was lost. The reads of its cursors tell which one, and how much.
    else if (error.code === "offset-ahead") for (const followed of this.parts.followed()) followed.readAgain();
    else if (!error.retryable) port.report(error);
  }
}

/** The streams of each request, each request within what a server takes. One request at least, because it prolongs the session. */
function requestsFor(followed: readonly Followed[]): Followed[][] {
  let last: Followed[] = [];
  let bytes = 0;
  const requests = [last];
  for (const one of followed) {
    const size = bytesIn(JSON.stringify(entryOf(one)));
    if (last.length === MAX_ENTRIES || bytes + size > MAX_BYTES) {
      last = [];
      bytes = 0;
      requests.push(last);
    }
    last.push(one);
    bytes += size + 1;
  }
  return requests;
}

function bytesIn(text: string): number {
  return new TextEncoder().encode(text).length;
}

function entryOf({ stream, processed, epoch }: Followed): Entry {
  return { streamId: stream, lastOffset: processed!, epoch: epoch! };
}
