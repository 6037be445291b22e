/**
 * The log of a stream as fan-out sees it: what is to be copied next, where large payloads are put so that copies can borrow them,
 * and what retention must leave alone. A source has one; it does not decide which session gets what.
 */
import type { Position } from "@sluice/protocol";
import type { LoggedMessage } from "../engine/contract.ts";
import { FANOUT_HOLD } from "../streams/following.ts";
import type { Streams } from "../streams/service.ts";
import { Copy, type Gap, type Lent } from "./copy.ts";
import type { FanoutLimits } from "./limits.ts";
import type { Roster } from "./roster.ts";
import { isBefore, type Registry } from "./state.ts";

export class SourceLog {
  /** Whether retention cuts the stream; it is asked for when the stream is created and stays as it is. */
  private isCut = false;

  constructor(
    private readonly streams: Streams,
    private readonly roster: Roster,
    private readonly limits: FanoutLimits,
    private readonly project: string,
    private readonly stream: string,
  ) {}

  /** What comes after a position, as the copy of this fan-out. `gone` when the stream of this name does not exist any more. */
  async after(at: Position, name: string, fanoutSeq: number): Promise<Copy | "nothing" | "gone"> {
    let from = at;
    let gap: Gap | undefined;
    for (;;) {
      const page = await this.streams.peek(this.project, this.stream, from, this.limits.roundBytes);
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
          if (page.meta.follow !== name) return "gone";
          this.isCut = page.meta.config.retention !== undefined;
          const messages = page.messages.filter(({ position }) => isBefore(at, position));
          if (messages.length === 0 && gap === undefined) return "nothing";
          const { contentType } = page.meta.config;
          const hasMore = !page.atTail;
          return new Copy({ stream: this.stream, contentType, prev: at, logged: messages, fanoutSeq, gap, hasMore });
        }
      }
    }
  }

  /** The same copy, with payloads that are large and would be written many times put where all can borrow them. */
  async shared(copy: Copy, name: string): Promise<Copy> {
    const { shareBytes, sharedBytes } = this.limits;
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

  /** Retention must not take what is still owed to a session. */
  async hold({ name, cursor }: Registry): Promise<void> {
    if (!this.isCut) return;
    let lowest = cursor;
    for (const at of this.roster.lagging.values()) if (isBefore(at, lowest)) lowest = at;
    await this.streams.hold(this.project, this.stream, FANOUT_HOLD, lowest, name);
  }

  /** Releases the hold, because no session subscribes any more; takes it again for one that has just come. */
  async releaseHold(): Promise<void> {
    const described = await this.streams.describe(this.project, this.stream);
    if (described.kind !== "live" || described.meta.config.retention === undefined) return;
    const { follow } = described.meta;
    if (follow === undefined) return;
    this.isCut = true;
    await this.streams.hold(this.project, this.stream, FANOUT_HOLD, undefined, follow);
    const registry = await this.roster.look();
    if (registry) await this.hold(registry);
  }
}
