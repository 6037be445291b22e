/** A reader between its own reading and the feed, with every read answered by hand: the order of answers is the test's. */
import type { Position } from "@sluice/protocol";
import { expect, it } from "vitest";
import { Feeds } from "../core/feed.ts";
import type { Sink } from "../core/http.ts";
import { SseReader } from "../core/sse-reader.ts";
import type { World } from "../core/world.ts";
import { NO_HEAD } from "../engine/contract.ts";
import { controlTrailer, StreamSource } from "./live-source.ts";
import type { StreamPage } from "./reading.ts";
import type { Streams } from "./service.ts";

const PAGE_MESSAGES = 2;
const limits = { sseMs: 60_000, slowReaderBytes: 1_000_000 };
const world = { now: () => Date.UTC(2026, 0, 1), after: () => () => {} } as unknown as World;

class ByHand {
  last = 0;
  private wake = () => {};
  private readonly pending: { after: number; resolve: (page: StreamPage) => void }[] = [];
  readonly streams = {
    read: (_project: string, _path: string, after: Position) =>
      new Promise((resolve) => this.pending.push({ after: after.seq, resolve })),
    watch: (_project: string, _path: string, wake: () => void) => {
      this.wake = wake;
      return () => {};
    },
  } as unknown as Streams;
  readonly feeds = new Feeds<StreamPage>();

  append(count: number): void {
    this.last += count;
    this.wake();
  }

  page(after: number): StreamPage {
    const to = Math.min(after + PAGE_MESSAGES, this.last);
    const messages = Array.from({ length: to - after }, (_, i) => {
      const seq = after + i + 1;
      return { payload: new TextEncoder().encode(String(seq)), at: 0, position: { generation: 1, seq } };
    });
    const head = { ...NO_HEAD, generation: 1, last: { generation: 1, seq: this.last } };
    const meta = { config: { contentType: "application/json" }, createdAt: 0, touchedAt: 0, closed: false };
    return { kind: "page", meta, head, messages, next: { generation: 1, seq: to }, atTail: to === this.last };
  }

  /** Answers the read that has waited longest, with what is there now, and lets its reader go on. */
  async answer(): Promise<void> {
    const { after, resolve } = this.pending.shift()!;
    resolve(this.page(after));
    for (let turn = 0; turn < 10; turn++) await Promise.resolve();
  }

  async answerAll(): Promise<void> {
    while (this.pending.length > 0) await this.answer();
  }

  reader(): { reader: SseReader<StreamPage>; seen(): number[] } {
    let text = "";
    const write = (bytes: Uint8Array) => {
      text += new TextDecoder().decode(bytes);
    };
    const sink: Sink = { buffered: 0, write, onDrain: () => {}, onGone: () => {}, end: () => {}, cut: () => {} };
    const source = new StreamSource(this.streams, "p", "s", "raw", 1);
    const parts = { source, feeds: this.feeds, world, limits, trailer: controlTrailer(world, 0) };
    const seen = () => [...text.matchAll(/data:(\[.*\])/g)].flatMap(([, json]) => JSON.parse(json!) as number[]);
    return { reader: new SseReader(parts, sink), seen };
  }
}

it("gets nothing twice when the feed comes to where it is just reading on", async () => {
  const log = new ByHand();
  log.append(2);
  const stale = log.page(0);
  const first = log.reader();
  first.reader.begin(log.page(0));
  await log.answer();
  log.append(2);
  await log.answerAll();
  expect(first.seen()).toEqual([1, 2, 3, 4]);

  // What this one was given has been overtaken by the feed in the meantime, so that it must read on by itself.
  const second = log.reader();
  second.reader.begin(stale);
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
  log.append(4);
  // Its own read of 3 and 4, the feed's of 5 and 6, then its own of 5 and 6, which the feed could have given it already.
  await log.answer();
  await log.answer();
  await log.answerAll();
  expect(second.seen()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(first.seen()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);

  log.append(1);
  await log.answerAll();
  expect(second.seen().at(-1)).toBe(9);
  first.reader.leave();
  second.reader.leave();
  expect(log.feeds.size).toBe(0);
});
