import type { Position } from "@sluice/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FakeSink } from "../../../../test/support/fake-sink.ts";
import {
  goOn,
  HandCodec,
  type HandPage,
  LogByHand,
  MESSAGE_BYTES,
  seenOf,
} from "../../../../test/support/log-by-hand.ts";
import { manualWorld } from "../../../../test/support/world.ts";
import { Audience } from "./audience.ts";
import { type Connection, Connections } from "./connection.ts";
import { Feeds } from "./feed.ts";
import { Follower } from "./follower.ts";
import { SSE } from "./sse.ts";

const NAMES = ["a", "b", "c"];
const CLIENTS = 3;

type Step =
  | { readonly do: "append"; readonly log: number; readonly count: number }
  | { readonly do: "answer" | "look"; readonly log: number; readonly which: number }
  | { readonly do: "take"; readonly client: number; readonly bytes: number }
  | { readonly do: "follow"; readonly client: number; readonly log: number; readonly from: number };

const log = fc.nat(NAMES.length - 1);
const client = fc.nat(CLIENTS - 1);
const steps = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant("append" as const), log, count: fc.integer({ min: 1, max: 5 }) }),
    fc.record({ do: fc.constantFrom("answer" as const, "look" as const), log, which: fc.nat(3) }),
    fc.record({ do: fc.constant("take" as const), client, bytes: fc.nat(60) }),
    fc.record({ do: fc.constant("follow" as const), client, log, from: fc.nat(6) }),
  ),
  { minLength: 20, maxLength: 80 },
);

/** Clients of every pace that follow several logs each, while the logs grow and the store answers in any order. */
class Play {
  private readonly feeds = new Feeds<HandPage>();
  private readonly codec = new HandCodec();
  private readonly logs = NAMES.map((name) => new LogByHand(name));
  private readonly lengths = NAMES.map(() => 0);
  private readonly clients: { readonly sink: FakeSink; readonly connection: Connection }[];
  private readonly followed = new Map<string, number>();

  constructor(slowReaderBytes: number) {
    const limits = { lifetimeMs: 60_000, heartbeatMs: 15_000, slowReaderBytes };
    const connections = new Connections(manualWorld(1), new Audience(100), limits);
    this.clients = Array.from({ length: CLIENTS }, () => {
      const sink = new FakeSink(false);
      let opened!: Connection;
      connections.open({ sink, framing: SSE, onGone: () => {} }, (connection) => {
        opened = connection;
      });
      return { sink, connection: opened };
    });
  }

  async step(step: Step): Promise<void> {
    switch (step.do) {
      case "append":
        this.lengths[step.log]! += step.count;
        this.logs[step.log]!.append(step.count);
        break;
      case "look":
      case "answer": {
        const at = this.logs[step.log]!;
        if (at.waiting > 0) await at[step.do](step.which % at.waiting);
        break;
      }
      case "take":
        this.clients[step.client]!.sink.take(step.bytes);
        break;
      case "follow":
        this.follow(step.client, step.log, Math.min(step.from, this.lengths[step.log]!));
    }
    await goOn();
  }

  private follow(client: number, log: number, from: number): void {
    const key = `${client} ${log}`;
    if (this.followed.has(key)) return;
    this.followed.set(key, from);
    const { feeds, codec } = this;
    const { connection } = this.clients[client]!;
    const onEnd = (why: string) => expect.fail(`a log that lasts has ended: ${why}`);
    const follower = new Follower({ log: this.logs[log]!, feeds, connection, codec, onEnd });
    const position: Position = { generation: 1, seq: from };
    // A first page on a connection that has others must be small; that is for the one who begins with it to see to.
    if (from === this.lengths[log]) follower.begin(this.logs[log]!.pageAfter(position));
    else follower.resume(position);
  }

  /** Everything is answered and taken, until nothing moves any more. */
  async finish(): Promise<void> {
    for (let quiet = 0; quiet < 3; quiet++) {
      for (const at of this.logs) {
        if (at.waiting > 0) quiet = 0;
        await at.answerAll();
      }
      for (const { sink } of this.clients) {
        if (sink.buffered > 0) quiet = 0;
        sink.take();
      }
      await goOn();
    }
  }

  check(mayCut: boolean): void {
    for (const [key, from] of this.followed) {
      const [client, log] = key.split(" ").map(Number) as [number, number];
      const { sink } = this.clients[client]!;
      const expected = Array.from({ length: this.lengths[log]! - from }, (_, i) => from + i + 1);
      const seen = seenOf(sink.text, NAMES[log]!);
      // What a client got before it was cut is the beginning of what it was owed.
      expect(seen, key).toEqual(sink.cutBy === undefined ? expected : expected.slice(0, seen.length));
      if (!mayCut) expect(sink.cutBy).toBeUndefined();
    }
  }

  leave(): void {
    for (const { sink } of this.clients) sink.leave();
    expect([this.feeds.size, ...this.logs.map(({ watchers }) => watchers)]).toEqual([0, 0, 0, 0]);
  }
}

test.each([
  ["with room for everything", 1_000_000, false],
  ["with room for a few messages", 4 * MESSAGE_BYTES, true],
])("every follower sees each message once and in order, whatever comes when, %s", async (_, limitBytes, mayCut) => {
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const play = new Play(limitBytes);
      for (const step of all) await play.step(step);
      await play.finish();
      play.check(mayCut);
      play.leave();
    }),
    { numRuns: 150 },
  );
});
