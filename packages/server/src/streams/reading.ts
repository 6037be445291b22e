/**
 * Reading a stream's log as its readers see it: a fork's ancestors first, then its own messages. Everything here is
 * committed state straight from the engine; keepers are not involved. Called by the service only.
 */
import { comparePositions, type Position, ZERO } from "@sluice/protocol";
import type { Engine, Entity, Head, LoggedMessage } from "../engine/contract.ts";
import { isNeverGiven } from "../engine/other-nodes.ts";
import { lifeOf, META, type Meta, metaTable, streamEntity } from "./state.ts";

export type Described = { readonly kind: "live"; readonly meta: Meta; readonly head: Head } | Missing;

/** `over`: by time only; whoever needs to be sure asks the keeper, where a use may be on its way that prolongs it. */
export interface Missing {
  readonly kind: "absent" | "gone";
  readonly over: boolean;
}

export interface StreamPage {
  readonly kind: "page";
  readonly meta: Meta;
  readonly head: Head;
  readonly messages: readonly LoggedMessage[];
  /** Where the reader stands after these messages. */
  readonly next: Position;
  /** Nothing committed lies after `next`. */
  readonly atTail: boolean;
}

export type ReadOutcome =
  | StreamPage
  | Missing
  /** Retention has taken messages between `after` and `earliest`. */
  | { readonly kind: "trimmed"; readonly earliest: Position }
  | { readonly kind: "ahead"; readonly tail: Position }
  /** A topic: its shards are read, each by itself. */
  | { readonly kind: "sharded"; readonly shards: number }
  /** A failover has taken what the reader saw after `survived`; what came since is there. */
  | { readonly kind: "lost"; readonly survived: Position };

export async function describe(engine: Engine, project: string, path: string): Promise<Described> {
  const { head, rows } = await engine.load(streamEntity(project, path), [META]);
  const meta = rows[0] && metaTable.decode(rows[0]);
  const life = lifeOf(meta, head, engine.now());
  if (meta === undefined) return { kind: "absent", over: false };
  if (life !== "live") return { kind: life, over: !meta.deleted };
  if (meta.inbox === "none") return { kind: "absent", over: false };
  return { kind: "live", meta, head };
}

/** `after` undefined starts at the earliest message kept. */
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

/** Undefined when the stream was cut or replaced between the looks that a page takes; then the page proves nothing. */
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
    return readAhead(engine, streamEntity(project, path), meta, after);
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
  const [first] = page.messages;
  // Numbers have no holes. One that starts again lower is the end of a history that was lost and went on from further back.
  if (after !== undefined && first !== undefined && first.position.seq <= after.seq && mayHaveSeen(meta, head, after)) {
    return { kind: "lost", survived: { generation: after.generation, seq: first.position.seq - 1 } };
  }
  const hasGrown = page.atTail && comparePositions(page.head.last, head.last) > 0;
  return hasGrown ? withNewerMeta(engine, project, path, page) : page;
}

/**
 * A message that came between the two looks may have closed the stream. Then the reader that is told of the message is told of the
 * end too. If still more has come since, the message closed nothing.
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
 * A reader that stands beyond the end, where a failover can lose the end of a history. The log knows whether that has happened;
 * if not, the reader waits for what comes next, which will sort after it.
 */
async function readAhead(engine: Engine, e: Entity, meta: Meta, after: Position): Promise<ReadOutcome | undefined> {
  const { head, messages } = await engine.read(e, after, 1);
  if (messages.length > 0) return undefined;
  const isLost = after.generation < head.generation && mayHaveSeen(meta, head, after);
  if (isLost) return { kind: "lost", survived: head.last };
  return { kind: "page", meta, head, messages: [], next: after, atTail: true };
}

/**
 * Whether a position can be of the part of this history that was lost: not of a stream of the same name before it, nor of what a
 * fork came from.
 */
function mayHaveSeen({ origin }: Meta, { start, survived }: Head, { generation }: Position): boolean {
  if (survived === undefined) return false;
  return origin === undefined ? generation >= start.generation : generation > start.generation;
}

/** Where reading from the beginning starts: after the last cut, in the stream itself or in the ancestor nearest to it. */
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
  // The head is the one that the page was read under, so that "at the tail" and "closed" are told of the same moment.
  if (!reachedOwn) return { kind: "page", meta, head: own.head, messages, next: from, atTail: false };
  // One by one: a page of tiny messages has more of them than a call may have arguments.
  for (const message of own.messages) messages.push(message);
  const next = own.atTail ? own.head.last : (messages.at(-1)?.position ?? after);
  return { kind: "page", meta, head: own.head, messages, next, atTail: own.atTail };
}

function takeThrough(messages: readonly LoggedMessage[], through: Position): readonly LoggedMessage[] {
  const last = messages.at(-1);
  if (last === undefined || comparePositions(last.position, through) <= 0) return messages;
  return messages.filter((message) => comparePositions(message.position, through) <= 0);
}
