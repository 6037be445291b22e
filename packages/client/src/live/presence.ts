/**
 * The sessions that are live on a stream, as the events of the connection tell it, and the state that this session shows there.
 * `LiveSession.presence` hands out handles; all handles of a stream share one room.
 *
 * Invariants: a new connection begins with the members that are there, so the list starts anew with every `hello`. Listeners hear
 * of the changes that come together once. A room without a handle shows nothing.
 */
import type { Member, PresenceEvent } from "./events.ts";
import { callUser, type Report } from "./listeners.ts";
import type { Cancel, LiveWorld } from "./world.ts";

/** Events that come within this time are told together. */
const TOGETHER_MS = 20;
/** As much as the server takes. */
const MAX_STATE_BYTES = 1_024;

export class Room {
  state: unknown;
  private readonly present = new Map<string, Member>();
  private readonly handles = new Set<Presence>();
  private cancel: Cancel | undefined;

  constructor(
    private readonly world: LiveWorld,
    private readonly report: Report,
    /** What the session wants to show has changed. */
    private readonly changed: () => void,
  ) {}

  get isOpen(): boolean {
    return this.handles.size > 0;
  }

  get members(): readonly Member[] {
    return [...this.present.values()];
  }

  /** Shows the session on the stream. Without a state the one that is shown stays. */
  enter(state: unknown): Presence {
    const handle = new Presence(this);
    this.handles.add(handle);
    if (state !== undefined) this.state = checkedState(state);
    this.changed();
    return handle;
  }

  show(state: unknown): void {
    const next = checkedState(state);
    if (JSON.stringify(next) === JSON.stringify(this.state)) return;
    this.state = next;
    this.changed();
  }

  leave(handle: Presence): void {
    if (!this.handles.delete(handle) || this.isOpen) return;
    this.state = undefined;
    this.clear();
    this.changed();
  }

  take({ event, member }: PresenceEvent): void {
    if (event === "leave") this.present.delete(member.sessionId);
    else this.present.set(member.sessionId, member);
    this.tellSoon();
  }

  clear(): void {
    if (this.present.size === 0) return;
    this.present.clear();
    this.tellSoon();
  }

  stop(): void {
    this.cancel?.();
    this.cancel = undefined;
  }

  private tellSoon(): void {
    this.cancel ??= this.world.after(TOGETHER_MS, () => {
      this.cancel = undefined;
      const { members } = this;
      for (const handle of [...this.handles]) {
        for (const listener of handle.listeners) {
          void callUser(this.report, "a listener of presence", () => listener(members));
        }
      }
    });
  }
}

/** This session's place among the members of a stream, until `leave`. */
export class Presence {
  readonly listeners = new Set<(members: readonly Member[]) => unknown>();

  constructor(private readonly room: Room) {}

  /** The sessions that are live on the stream, this one included. */
  get members(): readonly Member[] {
    return this.room.members;
  }

  /** Calls the listener after every change, with all members. Returns the function that stops it. */
  on(type: "change", listener: (members: readonly Member[]) => unknown): () => void {
    if (type !== "change" || typeof listener !== "function") {
      throw new TypeError('presence takes on("change", listener) with a function');
    }
    const own = (members: readonly Member[]) => listener(members);
    this.listeners.add(own);
    return () => void this.listeners.delete(own);
  }

  /** Changes what the other members see of this session. */
  setState(state: unknown): void {
    this.room.show(state);
  }

  leave(): void {
    this.listeners.clear();
    this.room.leave(this);
  }
}

function checkedState(state: unknown): unknown {
  const bytes = new TextEncoder().encode(JSON.stringify(state) ?? "").length;
  if (bytes === 0 || bytes > MAX_STATE_BYTES) {
    throw new TypeError(`the state of presence must be JSON of at most ${MAX_STATE_BYTES} bytes; got ${bytes} bytes`);
  }
  // A copy, because the caller may change the object before it is sent.
  return JSON.parse(JSON.stringify(state));
}
