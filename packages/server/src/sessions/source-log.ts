/**
 * The log of a stream as fan-out uses it: the next piece to copy, the large payloads that copies borrow, and the hold
 * on retention. A source has one; it does not decide which session gets a copy.
 */
import type { Position } from "@sluice/protocol";
import type { World } from "../core/world.ts";
import type { LoggedMessage } from "../engine/contract.ts";
import { isFollowedAs } from "../streams/following.ts";
import { PacedHold } from "../streams/paced-hold.ts";
import type { Streams } from "../streams/service.ts";
import { FANOUT_FOLLOWER, followsOf } from "../streams/state.ts";
import { Copy, type Gap, type Lent } from "./copy.ts";
import type { FanoutLimits } from "./defaults.ts";
import type { Roster } from "./roster.ts";
import { isBefore, type Registry } from "./state.ts";

export interface SourceLogParts {
  readonly streams: Streams;
  readonly world: World;
  readonly limits: FanoutLimits;
  readonly report: (what: string, fault: unknown) => void;
}

export class SourceLog {
  /** Whether the stream has retention. That is fixed when the stream is created. */
  private isCut = false;
  private readonly paced: PacedHold;
  private takenBytes = 0;

  constructor(
    private readonly parts: SourceLogParts,
    private readonly roster: Roster,
    private readonly project: string,
    private readonly stream: string,
    /** A move of the hold that came too soon is due now. */
    holdAgain: () => Promise<void>,
  ) {
    const { streams, world, report } = parts;
    this.paced = new PacedHold({
      world,
      store: (position, name) => streams.hold(project, stream, FANOUT_FOLLOWER, position, name),
      again: holdAgain,
      report: (fault) => report(`moving the hold of fan-out on ${stream} failed; the next move repeats it`, fault),
    });
  }

  /** Whether a hold is still to be moved. */
  get isHolding(): boolean {
    return this.paced.isWaiting;
  }

  stop(): void {
    this.paced.forget();
  }

  /** The messages after a position, as the copy of this fan-out. `gone`: the stream of this name no longer exists. */
  async after(at: Position, name: string, fanoutSeq: number): Promise<Copy | "nothing" | "gone"> {
    let from = at;
    let gap: Gap | undefined;
    for (;;) {
      const page = await this.parts.streams.peek(this.project, this.stream, from, this.parts.limits.roundBytes);
      switch (page.kind) {
        case "absent":
        case "gone":
        case "sharded":
          return "gone";
        case "trimmed":
          from = page.earliest;
          gap = { after: at, through: from };
          continue;
        case "lost":
          from = page.survived;
          continue;
        case "ahead":
          return "nothing";
        case "page": {
          if (!isFollowedAs(page.meta, FANOUT_FOLLOWER, name)) return "gone";
          this.isCut = page.meta.config.retention !== undefined;
          const messages = page.messages.filter(({ position }) => isBefore(at, position));
          if (messages.length === 0 && gap === undefined) return "nothing";
          for (const { payload } of messages) this.takenBytes += payload.length;
          const { contentType } = page.meta.config;
          const hasMore = !page.atTail;
          return new Copy({ stream: this.stream, contentType, prev: at, logged: messages, fanoutSeq, gap, hasMore });
        }
      }
    }
  }

  /** The same copy, with large payloads of more than one subscriber stored once in the registry's log. */
  async shared(copy: Copy, name: string): Promise<Copy> {
    const { shareBytes, sharedBytes } = this.parts.limits;
    const isLarge = ({ payload }: LoggedMessage) => payload.length > shareBytes;
    const large = copy.logged.filter(isLarge);
    if (large.length === 0 || this.roster.members.size - this.roster.lagging.size < 2) return copy;
    const messages = large.map(({ payload, at }) => ({ payload, at }));
    const first = await this.roster.lend(name, messages, sharedBytes);
    if (first === undefined) return copy;
    let { seq } = first;
    const lent: (Lent | undefined)[] = copy.logged.map((message) =>
      isLarge(message)
        ? { position: { generation: first.generation, seq: seq++ }, bytes: message.payload.length }
        : undefined,
    );
    return copy.lending(lent);
  }

  /** Keeps retention from trimming messages that are still owed to a session. */
  async hold({ name, cursor }: Registry): Promise<void> {
    if (!this.isCut) return;
    let lowest = cursor;
    for (const at of this.roster.lagging.values()) if (isBefore(at, lowest)) lowest = at;
    const bytes = this.takenBytes;
    this.takenBytes = 0;
    await this.paced.move(lowest, name, bytes);
  }

  /** Puts off a move of the hold. */
  holdLater(): void {
    this.paced.later();
  }

  /** Releases the hold because no session subscribes any more. It takes the hold again if one just subscribed. */
  async releaseHold(): Promise<void> {
    const { streams } = this.parts;
    const described = await streams.describe(this.project, this.stream);
    if (described.kind !== "live" || described.meta.config.retention === undefined) return;
    const name = followsOf(described.meta)?.[FANOUT_FOLLOWER];
    if (name === undefined) return;
    this.isCut = true;
    this.paced.forget();
    await streams.hold(this.project, this.stream, FANOUT_FOLLOWER, undefined, name);
    const registry = await this.roster.look();
    if (registry) await this.hold(registry);
  }
}
