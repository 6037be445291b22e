import { expect, test } from "vitest";
import { newBlock } from "../leases/block-row.ts";
import { GROUP_TIMERS as TIMERS } from "./defaults.ts";
import { leaderDueMs, leaderStep } from "./leader-rules.ts";
import { type LeaderEffect, type LeaderEvent, newLeader, newStream, type QueueConfig } from "./leader-state.ts";
import type { Leased, Settlement, ToLeader } from "./messages.ts";

const at = (seq: number, generation = 1) => ({ generation, seq });

/** A leader of a queue over the stream q, and the time. */
class Story {
  now = 1_000;
  readonly leader;

  constructor(config: QueueConfig = { leaseMs: 1_000 }) {
    this.leader = newLeader(2, [], this.now, this.now, config);
    this.step({ type: "found", streams: [{ path: "q", from: at(0) }] });
  }

  step(event: LeaderEvent): readonly LeaderEffect[] {
    return leaderStep(this.leader, event, this.now, TIMERS);
  }

  told(id: string, message: ToLeader): readonly LeaderEffect[] {
    return this.step({ type: "told", from: { id, node: "n" }, message });
  }

  join(id: string, credit = 10): readonly LeaderEffect[] {
    this.told(id, { type: "leader_wanted", member: id, credit });
    return this.told(id, { type: "ping", sentMs: 7 });
  }

  read(...seqs: readonly number[]): readonly LeaderEffect[] {
    return this.step({ type: "read", path: "q", positions: seqs.map((seq) => at(seq)), isDry: true });
  }

  pass(ms: number): LeaderEffect[] {
    const untilMs = this.now + ms;
    const effects: LeaderEffect[] = [];
    for (let dueMs = leaderDueMs(this.leader); dueMs <= untilMs; dueMs = leaderDueMs(this.leader)) {
      this.now = Math.max(this.now, dueMs);
      for (const id of this.leader.members.keys()) effects.push(...this.told(id, { type: "ping", sentMs: this.now }));
      effects.push(...this.step({ type: "tick" }));
    }
    this.now = untilMs;
    return effects;
  }
}

const leasesOf = (effects: readonly LeaderEffect[]) =>
  effects.flatMap((effect) =>
    effect.kind === "send" && effect.message.type === "lease"
      ? effect.message.leases.map((leased) => ({ to: effect.to.id, ...leased }))
      : [],
  );
const settledOf = (effects: readonly LeaderEffect[]) =>
  effects.flatMap((effect) =>
    effect.kind === "send" && effect.message.type === "settled" ? effect.message.leases : [],
  );
const settle = ({ stream, position, lease }: Leased, verdict: Settlement["verdict"] = "ack", delayMs?: number) =>
  ({ type: "settle", settlements: [{ stream, position, lease, verdict, delayMs }] }) as const;

test("messages go to the member with the fewest outstanding, in turn, and within its credit", () => {
  const story = new Story();
  story.join("a", 1);
  story.join("b", 10);
  story.pass(TIMERS.reassignMs);
  const given = leasesOf(story.read(1, 2, 3, 4));
  expect(given.map(({ position }) => position.seq)).toEqual([1, 2, 3, 4]);
  expect(given.filter(({ to }) => to === "a")).toHaveLength(1);
});

test("without members nothing is read", () => {
  const story = new Story();
  expect(story.step({ type: "woken", path: "q" })).toEqual([]);
  expect(story.join("a").map(({ kind }) => kind)).toContain("read");
});

test("an acknowledgement is answered when it is durable, and so is its repetition", () => {
  const story = new Story();
  story.join("a");
  const [first] = leasesOf(story.read(1));
  expect(settledOf(story.told("a", settle(first!)))).toEqual([]);
  expect(settledOf(story.told("a", settle(first!)))).toEqual([]);
  const [store] = story.pass(TIMERS.progressMs).filter(({ kind }) => kind === "store");
  expect(store).toMatchObject({ rows: new Map([["q", { at: at(1) }]]) });
  expect(settledOf(story.step({ type: "stored" }))).toContainEqual({ lease: first!.lease, isGone: false });
});

test("a failed commit stores the same blocks again", () => {
  const story = new Story();
  story.join("a");
  const [, second] = leasesOf(story.read(1, 2));
  story.told("a", settle(second!));
  story.pass(TIMERS.progressMs);
  expect([...story.leader.storing!.get("q")!.blocks!.keys()]).toEqual([0]);
  expect(settledOf(story.step({ type: "store_failed" }))).toEqual([]);
  story.pass(TIMERS.resendMs);
  expect([...story.leader.storing!.get("q")!.blocks!.keys()]).toEqual([0]);
  expect(settledOf(story.step({ type: "stored" }))).toHaveLength(1);
});

test("a batch is sent again until it is confirmed, and a lease that runs out goes to another attempt", () => {
  const story = new Story();
  story.join("a");
  const [first] = leasesOf(story.read(1));
  const again = leasesOf(story.pass(900));
  expect(again.map(({ lease }) => lease)).toContain(first!.lease);
  story.told("a", { type: "leased", batch: 1 });
  const later = leasesOf(story.pass(300));
  expect(later).toMatchObject([{ position: at(1), attempt: 2 }]);
  expect(settledOf(story.told("a", settle(first!)))).toEqual([{ lease: first!.lease, isGone: true }]);
});

test("a message that failed too often is put aside once, and acknowledged after that", () => {
  const story = new Story({ leaseMs: 1_000, maxAttempts: 1 });
  story.join("a");
  const [first, second] = leasesOf(story.read(1, 2));
  const effects = story.told("a", settle(first!, "nack"));
  expect(effects).toContainEqual({ kind: "bury", path: "q", position: at(1), attempts: 1, why: "nack" });
  expect(story.told("a", settle(second!)).some(({ kind }) => kind === "bury")).toBe(false);
  story.step({ type: "buried", path: "q", position: at(1) });
  expect(story.leader.streams.get("q")!.queued!.core.floor).toBe(2);
});

test("a message that is put aside after a failover lost it does not acknowledge the one that took its number", () => {
  const story = new Story({ leaseMs: 1_000, maxAttempts: 1 });
  story.join("a");
  const [first] = leasesOf(story.read(1));
  story.told("a", settle(first!, "nack"));
  story.step({ type: "read", path: "q", positions: [at(1, 2)], isDry: true });
  story.step({ type: "buried", path: "q", position: at(1) });
  expect(story.leader.streams.get("q")!.queued!.core.floor).toBe(0);
});

test("the messages of a member that disconnects are free at once", () => {
  const story = new Story();
  story.join("a");
  leasesOf(story.read(1, 2));
  story.join("b");
  const effects = story.told("a", { type: "disconnect", progress: [] });
  expect(leasesOf(effects)).toMatchObject([
    { to: "b", position: at(1), attempt: 2 },
    { to: "b", position: at(2), attempt: 2 },
  ]);
});

test("a stream that lost its end delivers what was appended in its place", () => {
  const story = new Story();
  story.join("a");
  const [first, second] = leasesOf(story.read(1, 2));
  for (const one of [first, second]) story.told("a", settle(one!));
  const effects = story.step({ type: "read", path: "q", positions: [at(2, 5), at(3, 5)], isDry: true });
  expect(leasesOf(effects).map(({ position }) => position)).toEqual([at(2, 5), at(3, 5)]);
});

test("what retention took is passed over, and every member is told", () => {
  const story = new Story();
  for (const id of ["a", "b"]) story.join(id);
  const told = story.step({ type: "trimmed", path: "q", through: at(5) }).filter(({ kind }) => kind === "send");
  const message = { type: "gap", stream: "q", after: at(0), through: at(5) };
  expect(told).toMatchObject([
    { to: { id: "a" }, message },
    { to: { id: "b" }, message },
  ]);
  expect(leasesOf(story.read(6)).map(({ position }) => position)).toEqual([at(6)]);
  story.pass(TIMERS.progressMs);
  expect(story.leader.storing?.get("q")?.at).toEqual(at(5));
});

test("what failed under an earlier leader is leased or put aside once it is read, under its own position", () => {
  const story = new Story({ leaseMs: 1_000, maxAttempts: 2 });
  const block = {
    ...newBlock(),
    attempts: new Map([
      [1, 1],
      [2, 2],
    ]),
  };
  story.leader.streams.set("r", newStream("r", { at: at(0, 0), marked: at(3) }));
  story.step({ type: "found", streams: [{ path: "r", from: at(0, 0), blocks: [[0, block]] }] });
  const before = story.join("a");
  expect(leasesOf(before)).toEqual([]);
  expect(before.filter(({ kind }) => kind === "bury")).toEqual([]);
  const after = story.step({ type: "read", path: "r", positions: [at(1), at(2), at(3)], isDry: true });
  expect(leasesOf(after)).toMatchObject([
    { position: at(1), attempt: 2 },
    { position: at(3), attempt: 1 },
  ]);
  expect(after).toContainEqual({ kind: "bury", path: "r", position: at(2), attempts: 2, why: "holder-lost" });
});

test.each([
  ["created anew", at(0), 2],
  ["cut by a failover", at(1), 2],
])("acknowledgements of a stream that was %s since do not count for what came after", (_, from, second) => {
  const story = new Story();
  const block = newBlock();
  for (const seq of [3, 5, 7]) block.acked[0]! |= 1 << seq;
  // The last message that the earlier leader has read is the sixth; the seventh is of a still earlier stream.
  story.leader.streams.set("r", newStream("r", { at: from, marked: at(6) }));
  story.step({ type: "found", streams: [{ path: "r", from, blocks: [[0, block]] }] });
  story.join("a");
  const seqs = [1, 2, 3, 4, 5, 6, 7, 8].filter((seq) => seq > from.seq);
  const positions = seqs.map((seq) => at(seq, second));
  const effects = story.step({ type: "read", path: "r", positions, isDry: true });
  expect(leasesOf(effects).map(({ position }) => position)).toEqual(positions);
});

test("acknowledgements above the floor count for the next leader of the same stream, and no mark beyond what was read", () => {
  const story = new Story();
  const block = newBlock();
  for (const seq of [3, 7]) block.acked[0]! |= 1 << seq;
  story.leader.streams.set("r", newStream("r", { at: at(1), marked: at(6) }));
  story.step({ type: "found", streams: [{ path: "r", from: at(1), blocks: [[0, block]] }] });
  story.join("a");
  const positions = [2, 3, 4, 5, 6, 7].map((seq) => at(seq));
  const effects = story.step({ type: "read", path: "r", positions, isDry: true });
  expect(leasesOf(effects).map(({ position }) => position.seq)).toEqual([2, 4, 5, 6, 7]);
});
