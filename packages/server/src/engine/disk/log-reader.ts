/**
 * Reads pages of a log: from the tail cache if it reaches back far enough, otherwise from the store's chunks first. The engine
 * calls it.
 *
 * Invariants: messages come in order and without a hole. A hole is damage and is reported, never skipped.
 */
import type { Position } from "@sluice/protocol";
import { EngineError, type Entity, type Head, type LoggedMessage, type Page } from "../contract.ts";
import { chunkCount, chunkRecords } from "./chunk.ts";
import type { EntityState } from "./entity-state.ts";
import { logFirstSeq, logKey, MAX_NUMBER } from "./keys.ts";
import { readRecord, recordLength } from "./record.ts";
import { unseal } from "./sealed.ts";
import { keepForReaders } from "./slab.ts";
import type { Reading } from "./store.ts";
import type { View } from "./view.ts";

export function readPage(
  store: Reading,
  e: Entity,
  view: View,
  after: Position,
  maxBytes: number,
  maxMessages: number,
): Page {
  const { head, number } = view;
  const first = firstSeqAfter(head, after);
  if (number === 0 || first > head.last.seq) return { messages: [], head, atTail: true };
  const page = new PageBuilder(e, head, first, maxBytes, maxMessages);
  const inMemory = view.state?.blocks.at(0)?.firstSeq ?? MAX_NUMBER;
  if (first < inMemory) readChunks(store, e, number, page, inMemory);
  if (!page.full && view.state !== undefined) readBlocks(view.state, page);
  page.expectAll();
  return { messages: page.messages, head, atTail: page.next > head.last.seq };
}

/** The number of the first untrimmed message after the position. All messages are of the head's generation. */
function firstSeqAfter(head: Head, after: Position): number {
  if (head.last.generation !== head.generation || after.generation > head.generation) return MAX_NUMBER;
  return after.generation === head.generation ? Math.max(after.seq, head.start.seq) + 1 : head.start.seq + 1;
}

class PageBuilder {
  readonly messages: LoggedMessage[] = [];
  full = false;
  private bytes = 0;

  constructor(
    readonly e: Entity,
    readonly head: Head,
    /** The number of the next message. */
    public next: number,
    private readonly maxBytes: number,
    private readonly maxMessages: number,
  ) {}

  /** Takes messages from records whose first one has this number. */
  take(records: Buffer, start: number, firstSeq: number, count: number): void {
    if (firstSeq > this.next) throw this.hole(firstSeq);
    let at = start;
    for (let seq = firstSeq; seq < firstSeq + count && !this.full; seq++) {
      const length = recordLength(records, at);
      if (length === 0) throw this.hole(seq);
      if (seq >= this.next) this.add(readRecord(records, at, length, this.head.generation, seq));
      at += length;
    }
  }

  private add(message: LoggedMessage): void {
    this.bytes += message.payload.length;
    if (this.bytes > this.maxBytes && this.messages.length > 0) {
      this.full = true;
      return;
    }
    this.messages.push(message);
    this.next++;
    if (this.next > this.head.last.seq || this.messages.length >= this.maxMessages) this.full = true;
  }

  /** Checks that a page that is not full has reached the tail. */
  expectAll(): void {
    if (!this.full && this.next <= this.head.last.seq) throw this.hole(this.head.last.seq);
  }

  private hole(before: number): EngineError {
    const { generation } = this.head;
    return new EngineError(
      "data-damaged",
      `The log of ${this.e.key} is damaged: message ${generation}_${this.next} is missing before ${generation}_${before} (store.mdb).`,
    );
  }
}

function readChunks(store: Reading, e: Entity, number: number, page: PageBuilder, before: number): void {
  const { generation } = page.head;
  // The chunk with the first message starts at or before that message.
  const from = store.lastKey(logKey(number, generation, 0), logKey(number, generation, page.next + 1));
  if (from === undefined) return;
  store.scan(from, logKey(number, generation, before), (key, value) => {
    const firstSeq = logFirstSeq(key);
    const chunk = unseal(key, value, () => `messages from ${generation}_${firstSeq} on of ${e.key}`);
    page.take(chunkRecords(chunk), 0, firstSeq, chunkCount(chunk));
    return !page.full;
  });
}

function readBlocks({ blocks }: EntityState, page: PageBuilder): void {
  // The last block that starts at or before the next message.
  let low = 0;
  let high = blocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (blocks.at(middle)!.firstSeq <= page.next) low = middle;
    else high = middle - 1;
  }
  for (let i = low; i < blocks.length && !page.full; i++) {
    const { memory, from, piece, firstSeq, count, newestSeq, newestAt } = blocks.at(i)!;
    if (piece !== undefined) keepForReaders(piece);
    if (page.next >= newestSeq) page.take(memory, newestAt, newestSeq, firstSeq + count - newestSeq);
    else page.take(memory, from, firstSeq, count);
  }
}
