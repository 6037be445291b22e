/**
 * A log for followers whose every read the test answers, in the order that it chooses. The tests of followers use it.
 *
 * Invariants: messages are numbers, a page holds a few of them, and a codec writes them as text, so that a test can read
 * back what a client saw.
 */
import { type Position, ZERO } from "@sluice/protocol";
import { utf8 } from "../../packages/server/src/core/bytes.ts";
import type { Codec, Log, LogPage } from "../../packages/server/src/core/feed.ts";

export interface HandPage extends LogPage {
  readonly name: string;
  readonly messages: readonly number[];
  readonly isOver: boolean;
}

/** The length of a message, so that a page has a size. */
export const MESSAGE_BYTES = 10;

/** Encodes pages as `name:1,2;`, padded, and counts the encodings. */
export class HandCodec implements Codec<HandPage> {
  encoded = 0;

  constructor(private readonly format = "") {}

  encode({ name, messages }: HandPage): Uint8Array {
    this.encoded++;
    return utf8(messages.map((message) => `${`${this.format}${name}:${message};`.padStart(MESSAGE_BYTES)}`).join(""));
  }
}

/** The messages of a log in the text that a client was sent. */
export function seenOf(text: string, name: string): number[] {
  return [...text.matchAll(/([a-z]+):(\d+);/g)].filter(([, log]) => log === name).map(([, , number]) => Number(number));
}

interface Pending {
  readonly after: Position;
  /** The store's result, if it has looked already. */
  found?: { readonly page: HandPage | undefined };
  resolve(page: HandPage | undefined): void;
  reject(fault: Error): void;
}

export class LogByHand implements Log<HandPage> {
  readonly key: string;
  reads = 0;
  private generation = 1;
  private born = 1;
  private survived: Position | undefined;
  private last = 0;
  private isGone = false;
  private isClosed = false;
  private readonly wakes = new Set<() => void>();
  private readonly pending: Pending[] = [];

  constructor(
    private readonly name: string,
    private readonly pageMessages = 2,
  ) {
    this.key = name;
  }

  get watchers(): number {
    return this.wakes.size;
  }

  get waiting(): number {
    return this.pending.length;
  }

  read(after: Position): Promise<HandPage | undefined> {
    this.reads++;
    return new Promise((resolve, reject) => this.pending.push({ after, resolve, reject }));
  }

  watch(wake: () => void): () => void {
    this.wakes.add(wake);
    return () => void this.wakes.delete(wake);
  }

  isOver({ isOver }: HandPage): boolean {
    return isOver;
  }

  append(count: number): void {
    this.last += count;
    this.wake();
  }

  close(): void {
    this.isClosed = true;
    this.wake();
  }

  delete(): void {
    this.isGone = true;
    this.wake();
  }

  /** Starts another incarnation, in which numbers start again. */
  createAnew(messages: number): void {
    this.isGone = false;
    this.born = ++this.generation;
    this.survived = undefined;
    this.last = messages;
    this.wake();
  }

  /** Goes on in another generation, after losing this many messages at the end. */
  failOver(lost = 0): void {
    this.last -= lost;
    this.survived = { generation: this.generation, seq: this.last };
    this.generation++;
    this.wake();
  }

  private wake(): void {
    for (const wake of [...this.wakes]) wake();
  }

  pageAfter(after: Position): HandPage {
    const from = after.generation >= this.born ? Math.min(after.seq, this.last) : 0;
    const to = Math.min(from + this.pageMessages, this.last);
    const messages = Array.from({ length: to - from }, (_, i) => from + i + 1);
    const next = messages.length === 0 ? after : { generation: this.generation, seq: to };
    const atTail = to === this.last;
    const { name, generation, survived, isClosed } = this;
    const head = { generation, start: { generation: this.born, seq: 0 }, survived };
    return { name, head, messages, next, atTail, isOver: atTail && isClosed };
  }

  firstPage(): HandPage {
    return this.pageAfter(ZERO);
  }

  /** Lets the store look up the answer to a read and hold it back: later appends are not in it. */
  look(which = 0): void {
    const pending = this.pending[which]!;
    pending.found ??= { page: this.isGone ? undefined : this.pageAfter(pending.after) };
  }

  /** Answers a read, by default the one that has waited longest, and lets the code continue. */
  async answer(which = 0): Promise<void> {
    this.look(which);
    const [{ found, resolve }] = this.pending.splice(which, 1) as [Pending];
    resolve(found!.page);
    await goOn();
  }

  async fail(): Promise<void> {
    this.pending.shift()!.reject(new Error("the store says no"));
    await goOn();
  }

  async answerAll(): Promise<void> {
    while (this.pending.length > 0) await this.answer();
  }
}

/** Runs every task that waits only for its turn. */
export function goOn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
