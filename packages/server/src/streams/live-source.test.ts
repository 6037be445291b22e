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
    await turns();
  }

  async answerAll(): Promise<void> {
    while (this.pending.length > 0) await this.answer();
  }

  /** `takesAtOnce`: whether the client has taken each write when it returns; otherwise it takes all when the test says `drain`. */
  reader({ takesAtOnce } = { takesAtOnce: true }) {
    let text = "";
    let buffered = 0;
    let drained = () => {};
    const sink: Sink = {
      get buffered() {
        return buffered;
      },
      write(bytes) {
        text += new TextDecoder().decode(bytes);
        if (!takesAtOnce) buffered += bytes.length;
      },
      onDrain(task) {
        drained = task;
      },
      onGone: () => {},
      end: () => {},
      cut: () => {},
    };
    const drain = async () => {
      buffered = 0;
      drained();
      await turns();
      await this.answerAll();
    };
    const source = new StreamSource(this.streams, "p", "s", "raw", 1);
    const parts = { source, feeds: this.feeds, world, limits, trailer: controlTrailer(world, 0) };
    const seen = () => [...text.matchAll(/data:(\[.*\])/g)].flatMap(([, json]) => JSON.parse(json!) as number[]);
    return { reader: new SseReader(parts, sink), seen, drain };
  }
}

/** Lets everything run that waits for nothing but a turn. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}

it("reads the next page for a client only when the client has taken the last one", async () => {
  const log = new ByHand();
  log.append(5 * PAGE_MESSAGES);
  const { reader, seen, drain } = log.reader({ takesAtOnce: false });
  reader.begin(log.page(0));
  for (let pages = 1; pages <= 5; pages++) {
    await turns();
    await log.answerAll();
    expect(seen().length).toBe(pages * PAGE_MESSAGES);
    await drain();
  }
  expect(seen()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  reader.leave();
});

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
  await turns();
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
