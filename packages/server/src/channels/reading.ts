/**
 * A channel's log as its readers see it: pages, rendered as server-sent events. It reads committed state straight from
 * the engine, without keepers. The service reads pages; the routes open one log per connection.
 *
 * Invariants: a reader that misses messages gets a gap event before the messages that follow. No message follows END.
 */
import { comparePositions, formatOffset, type Position } from "@sluice/protocol";
import { concat, EMPTY, utf8 } from "../core/bytes.ts";
import type { Codec, Log, LogPage } from "../core/feed.ts";
import type { Engine, Entity, Head, LoggedMessage } from "../engine/contract.ts";
import { isNeverGiven } from "../engine/other-nodes.ts";
import { alive, channelEntity, META, type Meta, metaTable } from "./state.ts";
import { STOP_ATTRIBUTES, type Stop, stopText } from "./stopping.ts";

export interface ChannelPage extends LogPage {
  readonly kind: "page";
  readonly channel: string;
  readonly head: Head;
  readonly messages: readonly LoggedMessage[];
  /** END lies at or before `next`. */
  readonly isOver: boolean;
  /** The reader starts after the request to stop, and gets it first. */
  readonly stopped?: Stop | undefined;
  /** The reader's position, if messages between it and the first of these were trimmed; null for the very beginning. */
  readonly missedAfter?: Position | null | undefined;
}

export type ReadOutcome =
  | ChannelPage
  | { readonly kind: "absent" }
  | { readonly kind: "ahead"; readonly tail: Position };

/** Reads after a position; (0, 0) means from the earliest message kept. */
export async function readPage(
  engine: Engine,
  e: Entity,
  after: Position,
  maxBytes: number,
  ttlMs: number,
): Promise<ReadOutcome> {
  // An expired channel may not be swept yet. It is checked first, so that the page belongs to this channel or a later
  // one.
  if (after.generation === 0 && (await metaOf(engine, e, ttlMs)) === undefined) return { kind: "absent" };
  const { head, messages, atTail } = await engine.read(e, after, maxBytes);
  if (head.generation === 0) return { kind: "absent" };
  const last = messages.at(-1);
  if (last === undefined) {
    const { meta, head: later } = await look(engine, e, ttlMs);
    if (meta === undefined) return { kind: "absent" };
    // Messages, perhaps END, were committed between the two loads. The reader must get them before it learns of the end.
    if (comparePositions(later.last, head.last) > 0) {
      return { kind: "page", channel: e.id, head, messages, next: after, atTail: false, isOver: false };
    }
    // A reader beyond the tail waits if it may have received its position, because the next message sorts after it.
    if (isNeverGiven(engine, head, after)) return { kind: "ahead", tail: head.last };
    // A channel that began later is another channel.
    const isOver = meta.endedAt !== undefined && meta.born <= head.generation;
    return { kind: "page", channel: e.id, head, messages, next: after, atTail, isOver };
  }
  const isOver = atTail && last.attributes?.phase === "END";
  const missedAfter = missed(after, head.start);
  return { kind: "page", channel: e.id, head, messages, next: last.position, atTail, isOver, missedAfter };
}

/** What is stored of a channel; undefined if it does not exist or has expired. */
export async function metaOf(engine: Engine, e: Entity, ttlMs: number): Promise<Meta | undefined> {
  return (await look(engine, e, ttlMs)).meta;
}

async function look(engine: Engine, e: Entity, ttlMs: number): Promise<{ meta: Meta | undefined; head: Head }> {
  const { rows, head } = await engine.load(e, [META]);
  return { meta: alive(rows[0] && metaTable.decode(rows[0]), ttlMs, engine.now()), head };
}

/** A reader from the beginning missed messages if the log was trimmed; any other, if it stood before the trim. */
function missed(after: Position, start: Position): Position | null | undefined {
  if (after.generation === 0) return start.seq > 0 ? null : undefined;
  return comparePositions(after, start) < 0 ? after : undefined;
}

export interface ChannelLogParts {
  readonly engine: Engine;
  readonly project: string;
  readonly channel: string;
  readonly pageBytes: number;
  readonly ttlMs: number;
}

export class ChannelLog implements Log<ChannelPage> {
  readonly key: string;
  private readonly entity: Entity;

  constructor(private readonly parts: ChannelLogParts) {
    this.entity = channelEntity(parts.project, parts.channel);
    this.key = this.entity.key;
  }

  async read(after: Position): Promise<ChannelPage | undefined> {
    const { engine, pageBytes, ttlMs } = this.parts;
    const page = await readPage(engine, this.entity, after, pageBytes, ttlMs);
    return page.kind === "page" ? page : undefined;
  }

  watch(wake: () => void): () => void {
    return this.parts.engine.watch(this.entity, wake);
  }

  isOver({ isOver }: ChannelPage): boolean {
    return isOver;
  }
}

const END_OF_EVENT = utf8("\n\n");

export const CHANNEL_EVENTS: Codec<ChannelPage> = { encode: (page) => renderEvents(page, page.messages) };

/** For a publisher that listens while it publishes nothing: it needs none of its own messages. */
export const STOP_EVENTS: Codec<ChannelPage> = {
  encode: (page) => renderEvents({ ...page, missedAfter: undefined }, page.messages.filter(isStop)),
};

function isStop({ attributes }: LoggedMessage): boolean {
  return attributes?.phase === STOP_ATTRIBUTES.phase;
}

/** A stored message is the JSON that readers get, on one line. */
function renderEvents(
  { channel, head, missedAfter, stopped }: ChannelPage,
  messages: readonly LoggedMessage[],
): Uint8Array {
  const parts: Uint8Array[] = [];
  if (stopped !== undefined) parts.push(utf8(`event: stop\ndata: ${stopText(channel, stopped.reason)}\n\n`));
  if (missedAfter !== undefined) parts.push(renderGap(channel, missedAfter, head.start));
  for (const message of messages) {
    const event = isStop(message) ? "stop" : "stream";
    const start = `event: ${event}\nid: ${formatOffset(message.position)}\ndata: `;
    parts.push(utf8(start), message.payload, END_OF_EVENT);
  }
  return parts.length === 0 ? EMPTY : concat(parts);
}

/** The id is where the kept messages begin, so that a reader that resumes there gets no second gap event. */
function renderGap(channelId: string, after: Position | null, start: Position): Uint8Array {
  const earliest = formatOffset(start);
  const data = { channelId, after: after === null ? null : formatOffset(after), earliest };
  return utf8(`event: gap\nid: ${earliest}\ndata: ${JSON.stringify(data)}\n\n`);
}
