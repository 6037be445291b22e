/**
 * Finds positions in a stream by time and by count, with a binary search over reads of single messages. That works
 * because sequence numbers have no gaps and publish times never fall. `Streams` calls it for `?since=` and `?last=`,
 * and for features that seek by time.
 *
 * Invariants: sequence numbers continue across generations (a failover raises the generation) and from a fork's
 * ancestors into its own log. Only the end of an inherited piece may be missing, if a failover lost it. Every read is of
 * committed state. A trim during the search restarts it.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Engine, Entity, Head, LoggedMessage } from "../engine/contract.ts";
import { describe, earliestOf, type Missing } from "./reading.ts";
import { type Meta, streamEntity } from "./state.ts";

export type Located =
  | { readonly kind: "position"; readonly position: Position }
  | Missing
  | { readonly kind: "sharded"; readonly shards: number };

/** The position from which a reader gets every message published at or after `timeMs`; the tail if there is none. */
export function positionAt(engine: Engine, project: string, path: string, timeMs: number): Promise<Located> {
  return search(engine, project, path, async (span) => {
    let before = span.earliest;
    let low = span.earliest.seq + 1;
    let high = span.last.seq + 1;
    // Every message below `low` is older than the time; every message at or above `high` is not.
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const place = await span.place(middle);
      if (place === undefined) return undefined;
      if (place.at >= timeMs) high = middle;
      else {
        low = place.position.seq + 1;
        before = place.position;
      }
    }
    return before;
  });
}

/** The position from which a reader gets the last `count` messages, or all that are kept if they are fewer. */
export function positionBack(engine: Engine, project: string, path: string, count: number): Promise<Located> {
  return search(engine, project, path, async (span) => {
    if (count === 0) return span.last;
    const seq = span.last.seq - count;
    return seq <= span.earliest.seq ? span.earliest : (await span.place(seq))?.position;
  });
}

/** `find` returns undefined when a message was trimmed after the search began. */
async function search(
  engine: Engine,
  project: string,
  path: string,
  find: (span: Span) => Promise<Position | undefined>,
): Promise<Located> {
  for (;;) {
    const described = await describe(engine, project, path);
    if (described.kind !== "live") return described;
    const { meta, head } = described;
    if (meta.config.shards !== undefined) return { kind: "sharded", shards: meta.config.shards };
    const earliest = await earliestOf(engine, project, meta, head);
    const position = await find(new Span(engine, pieces(project, path, meta, head), earliest, head.last));
    if (position !== undefined) return { kind: "position", position };
  }
}

/** A log that the stream reads, up to and including a position. */
interface Piece {
  readonly entity: Entity;
  readonly through: Position;
}

function pieces(project: string, path: string, { origin }: Meta, { last }: Head): readonly Piece[] {
  const inherited = (origin?.lineage ?? []).map(({ path: ancestor, through }) => ({
    entity: streamEntity(project, ancestor),
    through,
  }));
  return [...inherited, { entity: streamEntity(project, path), through: last }];
}

/** Where a reader of a message stands, and when the message was published. */
type Place = Pick<LoggedMessage, "position" | "at">;

/** The messages of a stream that are kept, by sequence number. */
class Span {
  constructor(
    private readonly engine: Engine,
    private readonly pieces: readonly Piece[],
    readonly earliest: Position,
    readonly last: Position,
  ) {}

  /**
   * The place of the message with this number; undefined if it was trimmed. If an ancestor lost the message in a
   * failover: the end of what is inherited, with the time of the message after it.
   */
  async place(seq: number): Promise<Place | undefined> {
    const piece = this.pieces.find(({ through }) => seq <= through.seq)!;
    const found = await this.within(piece, seq);
    if (found !== "lost" || piece === this.pieces.at(-1)) return found === "lost" ? undefined : found;
    const { through } = piece;
    if (through.seq === this.last.seq) return { position: through, at: Number.POSITIVE_INFINITY };
    const following = await this.place(through.seq + 1);
    return following && { position: through, at: following.at };
  }

  private async within({ entity, through }: Piece, seq: number): Promise<Place | "lost" | undefined> {
    // A number belongs to the highest generation in which a message at or before it follows its predecessor.
    let low = 0;
    let high = through.generation;
    for (let generation = high; low <= high; generation = Math.floor((low + high) / 2)) {
      const { messages, head } = await this.engine.read(entity, { generation, seq: seq - 1 }, 1);
      if (head.start.seq >= seq) return undefined;
      const [message] = messages;
      if (message?.position.seq === seq && comparePositions(message.position, through) <= 0) return message;
      if (message === undefined || message.position.seq > seq) high = generation - 1;
      else low = generation + 1;
    }
    return "lost";
  }
}
