/**
 * Reads a stream's log as its readers see it: a fork's ancestors first, then its own messages. Called by `Streams`,
 * fork-point.ts and positions.ts.
 *
 * Invariants: reads go straight to the engine and see committed state only. A page is consistent with the head that it
 * carries.
 */
import { comparePositions, type Position, ZERO } from "@sluice/protocol";
import { type Awaitable, andThen } from "../core/awaitable.ts";
import { memo } from "../core/memo.ts";
import type { Engine, Head, LoggedMessage, Snapshot } from "../engine/contract.ts";
import { isNeverGiven } from "../engine/other-nodes.ts";
import { lifeOf, META, type Meta, metaTable, streamEntity } from "./state.ts";

export interface Live {
  readonly kind: "live";
  readonly meta: Meta;
  readonly head: Head;
}

export type Described = Live | Missing;

/**
 * `over`: expired by time only. The keeper may know of a use that prolongs the stream, so `Streams` asks it to confirm.
 */
export interface Missing {
  readonly kind: "absent" | "gone";
  readonly over: boolean;
}

export interface StreamPage {
  readonly kind: "page";
  readonly path: string;
  readonly meta: Meta;
  readonly head: Head;
  /** The position that the page begins after: the reader's, or the earliest kept. */
  readonly from: Position;
  readonly messages: readonly LoggedMessage[];
  /** The reader's position after these messages. */
  readonly next: Position;
  /** No committed message lies after `next`. */
  readonly atTail: boolean;
}

export type ReadOutcome =
  | StreamPage
  | Missing
  /** Retention has trimmed messages between `after` and `earliest`. */
  | { readonly kind: "trimmed"; readonly earliest: Position }
  | { readonly kind: "ahead"; readonly tail: Position }
  /** A sharded topic: readers read each shard separately. */
  | { readonly kind: "sharded"; readonly shards: number }
  | Lost;

/** A failover lost the messages that the reader saw, up to `survived` or from there on. Later messages follow it. */
interface Lost {
  readonly kind: "lost";
  readonly survived: Position;
}

/** An engine may return the same bytes again, and reading them costs more than finding them. */
const decodeMeta = memo((bytes: Uint8Array) => bytes, metaTable.decode);

const META_ALONE = [META];

export function describe(engine: Engine, project: string, path: string): Awaitable<Described> {
  return andThen(engine.load(streamEntity(project, path), META_ALONE), (snapshot) => described(engine, snapshot));
}

function described(engine: Engine, { head, rows }: Snapshot): Described {
  const meta = rows[0] && decodeMeta(rows[0]);
  const life = lifeOf(meta, head, engine.now());
  if (meta === undefined) return { kind: "absent", over: false };
  if (life !== "live") return { kind: life, over: !meta.deleted };
  if (meta.inbox === "none") return { kind: "absent", over: false };
  return { kind: "live", meta, head };
}

/** Reads from the earliest message kept when `after` is undefined. */
export async function readPage(
  engine: Engine,
  project: string,
  path: string,
  after: Position | undefined,
  maxBytes: number,
): Promise<ReadOutcome> {
  for (;;) {
    const page = await tryPage(engine, project, path, after, maxBytes);
    if (page !== undefined) return page;
  }
}

/**
 * Undefined if the stream was trimmed or replaced between two loads of one page, because the page then proves nothing.
 */
async function tryPage(
  engine: Engine,
  project: string,
  path: string,
  after: Position | undefined,
  maxBytes: number,
): Promise<ReadOutcome | undefined> {
  const described = await describe(engine, project, path);
  if (described.kind !== "live") return described;
  const { meta, head } = described;
  if (meta.config.shards !== undefined) return { kind: "sharded", shards: meta.config.shards };
  if (after !== undefined && comparePositions(after, head.last) > 0) {
    if (isNeverGiven(engine, head, after)) return { kind: "ahead", tail: head.last };
    return readAhead(engine, project, path, meta, after);
  }
  const earliest = await earliestOf(engine, project, meta, head);
  if (after !== undefined && comparePositions(after, earliest) < 0) {
    return { kind: "trimmed", earliest };
  }
  const from = after ?? earliest;
  const page = await collect(engine, project, path, meta, from, maxBytes);
  const { generation, start } = page.head;
  const isCut = comparePositions(start, head.start) > 0 && comparePositions(start, from) > 0;
  if (generation !== head.generation || isCut) return undefined;
  // Sequence numbers have no gaps, so any other next number needs a reason.
  if (after !== undefined && nextSeq(page) !== after.seq + 1) {
    const loss = await lossAfter(engine, project, page, after);
    if (loss !== "none") return loss;
  }
  const hasGrown = page.atTail && comparePositions(page.head.last, head.last) > 0;
  return hasGrown ? withNewerMeta(engine, project, path, page) : page;
}

/** The number of the first message of a page, or of the message that will follow an empty one. */
function nextSeq({ messages, next }: StreamPage): number {
  return messages[0]?.position.seq ?? next.seq + 1;
}

/**
 * Whether a failover lost messages that a reader at this position saw. A lower number follows if the stream lost its end
 * and numbered on; a higher one, if an ancestor lost messages that this fork inherited. Undefined if the ancestor was
 * trimmed meanwhile.
 */
async function lossAfter(
  engine: Engine,
  project: string,
  page: StreamPage,
  after: Position,
): Promise<"none" | Lost | undefined> {
  const { meta, head, messages } = page;
  const seq = nextSeq(page) - 1;
  if (seq < after.seq) {
    const isLost = messages.length > 0 && mayHaveSeen(meta, head, after);
    return isLost ? { kind: "lost", survived: { generation: after.generation, seq } } : "none";
  }
  const ancestor = meta.origin?.lineage.find(({ through }) => comparePositions(after, through) < 0);
  if (ancestor === undefined || after.seq === 0) return "none";
  const before = { generation: after.generation, seq: after.seq - 1 };
  const { head: source, messages: kept } = await engine.read(streamEntity(project, ancestor.path), before, 1);
  if (source.start.seq > after.seq) return undefined;
  const isKept = kept[0] !== undefined && comparePositions(kept[0].position, after) === 0;
  // The fork's own numbers go on after the inherited ones, lost or not.
  return isKept ? "none" : { kind: "lost", survived: ancestor.through };
}

/**
 * A message that was committed between the two loads may have closed the stream. The reader must learn of the message
 * and the close together. If later messages exist, that message closed nothing.
 */
async function withNewerMeta(
  engine: Engine,
  project: string,
  path: string,
  page: StreamPage,
): Promise<StreamPage | undefined> {
  const again = await describe(engine, project, path);
  if (again.kind !== "live" || again.head.generation !== page.head.generation) return undefined;
  const isSame = comparePositions(again.head.last, page.head.last) === 0;
  return isSame ? { ...page, meta: again.meta } : page;
}

/**
 * A reader stands beyond the end, where a failover can lose the end of a history. The log tells whether that happened.
 * If not, the reader waits for the next message, which will sort after its position.
 */
async function readAhead(
  engine: Engine,
  project: string,
  path: string,
  meta: Meta,
  after: Position,
): Promise<ReadOutcome | undefined> {
  const { head, messages } = await engine.read(streamEntity(project, path), after, 1);
  if (messages.length > 0) return undefined;
  const isLost = after.generation < head.generation && mayHaveSeen(meta, head, after);
  if (isLost) return { kind: "lost", survived: head.last };
  return { kind: "page", path, meta, head, from: after, messages: [], next: after, atTail: true };
}

/**
 * Whether a position can belong to the lost part of this history: not to an earlier stream at the same path, and not to
 * an ancestor of the fork.
 */
function mayHaveSeen({ origin }: Meta, { start, survived }: Head, { generation }: Position): boolean {
  if (survived === undefined) return false;
  return origin === undefined ? generation >= start.generation : generation > start.generation;
}

/** Where reading from the beginning starts: after the last cut, in the stream itself or in its nearest ancestor. */
export async function earliestOf(engine: Engine, project: string, meta: Meta, head: Head): Promise<Position> {
  const lineage = meta.origin?.lineage ?? [];
  const base = lineage.at(-1)?.through ?? ZERO;
  if (head.start.seq > base.seq) return head.start;
  for (let i = lineage.length - 1; i >= 0; i--) {
    const { path, through } = lineage[i]!;
    const { head: ancestor } = await engine.load(streamEntity(project, path), []);
    const ancestorBase = lineage[i - 1]?.through ?? ZERO;
    if (ancestor.start.seq <= ancestorBase.seq) continue;
    return comparePositions(ancestor.start, through) < 0 ? ancestor.start : through;
  }
  return ZERO;
}

async function collect(
  engine: Engine,
  project: string,
  path: string,
  meta: Meta,
  after: Position,
  maxBytes: number,
): Promise<StreamPage> {
  const messages: LoggedMessage[] = [];
  let bytes = 0;
  for (const ancestor of meta.origin?.lineage ?? []) {
    let from = messages.at(-1)?.position ?? after;
    const source = streamEntity(project, ancestor.path);
    while (comparePositions(from, ancestor.through) < 0 && (bytes < maxBytes || messages.length === 0)) {
      const page = await engine.read(source, from, maxBytes - bytes);
      const taken = takeThrough(page.messages, ancestor.through);
      if (taken.length === 0) break;
      for (const message of taken) {
        bytes += message.payload.length;
        messages.push(message);
      }
      from = messages.at(-1)!.position;
      if (taken.length < page.messages.length) break;
    }
    if (bytes >= maxBytes) break;
  }
  const inherited = meta.origin?.lineage.at(-1)?.through;
  const from = messages.at(-1)?.position ?? after;
  const reachedOwn = inherited === undefined || comparePositions(from, inherited) >= 0 || bytes < maxBytes;
  const own = await engine.read(streamEntity(project, path), from, reachedOwn ? Math.max(1, maxBytes - bytes) : 0);
  // The head is the one that the page was read under, so that "at the tail" and "closed" describe the same moment.
  if (!reachedOwn)
    return { kind: "page", path, meta, head: own.head, from: after, messages, next: from, atTail: false };
  // One push per message, because a page of tiny messages exceeds the argument limit of a call.
  for (const message of own.messages) messages.push(message);
  const next = own.atTail ? own.head.last : (messages.at(-1)?.position ?? after);
  return { kind: "page", path, meta, head: own.head, from: after, messages, next, atTail: own.atTail };
}

function takeThrough(messages: readonly LoggedMessage[], through: Position): readonly LoggedMessage[] {
  const last = messages.at(-1);
  if (last === undefined || comparePositions(last.position, through) <= 0) return messages;
  return messages.filter((message) => comparePositions(message.position, through) <= 0);
}
