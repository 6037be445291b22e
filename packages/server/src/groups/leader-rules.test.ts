import { describe, expect, test } from "vitest";
import { GROUP_TIMERS as TIMERS } from "./defaults.ts";
import { leaderDueMs, leaderStep } from "./leader-rules.ts";
import { EPOCHS_PER_TERM, type LeaderEvent, newLeader } from "./leader-state.ts";
import type { FromLeader, ToLeader } from "./messages.ts";

const at = (seq: number) => ({ generation: 1, seq });
const EPOCH = 2 * EPOCHS_PER_TERM + 1;

/** A leader of term 2 with these streams at message 5, and the time. */
class Story {
  now = 0;
  readonly leader;

  constructor(...paths: readonly string[]) {
    this.leader = newLeader(
      2,
      paths.map((path) => [path, { at: at(5) }]),
      0,
    );
  }

  /** The effects as short texts, and as they are. */
  step(event: LeaderEvent): string[] {
    return leaderStep(this.leader, event, this.now, TIMERS).map((effect) => {
      if (effect.kind === "store") return `store ${[...effect.rows.keys()]}`;
      if (effect.kind === "release") return `release ${effect.why}`;
      return effect.kind === "send" ? `${effect.to.id}: ${short(effect.message)}` : effect.kind;
    });
  }

  told(id: string, message: ToLeader): string[] {
    return this.step({ type: "told", from: { id, node: "n" }, message });
  }

  join(...ids: readonly string[]): string[] {
    const effects: string[] = [];
    for (const id of ids) {
      this.told(id, { type: "leader_wanted", member: id });
      effects.push(...this.told(id, { type: "ping", sentMs: 0 }));
    }
    return effects;
  }

  progress(id: string, seq: number, isFinal = false, epoch = EPOCH, stream = "s"): string[] {
    return this.told(id, { type: "update_progress", progress: [{ stream, epoch, position: at(seq), isFinal }] });
  }

  /** All timers that are due. */
  pass(ms: number): string[] {
    const untilMs = this.now + ms;
    const effects: string[] = [];
    while (!this.leader.isReleased && leaderDueMs(this.leader) <= untilMs) {
      this.now = Math.max(this.now, leaderDueMs(this.leader));
      effects.push(...this.step({ type: "tick" }));
    }
    this.now = untilMs;
    return effects;
  }
}

function short(message: FromLeader): string {
  return "epoch" in message ? `${message.type} ${message.stream}@${message.epoch - EPOCH}` : message.type;
}

test("a borrower gets streams once it has pinged, because its request to connect may be an old one", () => {
  const story = new Story("s");
  expect(story.told("a", { type: "leader_wanted", member: "a" })).toEqual(["a: leader_connect_response"]);
  expect(story.pass(1_000)).toEqual([]);
  expect(story.told("a", { type: "ping", sentMs: 1 })).toEqual(["a: ping_response", "a: grant s@0"]);
});

test.each([
  { type: "ping", sentMs: 0 },
  { type: "update_progress", progress: [] },
] as const)("the $type of an unknown borrower is answered with invalidate", (message) => {
  expect(new Story("s").told("x", message)).toEqual(["x: invalidate"]);
});

test("a grant is sent again until progress comes; its first progress is stored with the member's name", () => {
  const story = new Story("s");
  story.join("a");
  expect(story.pass(TIMERS.resendMs)).toEqual(["a: grant s@0"]);
  expect(story.progress("a", 5)).toEqual(["a: update_progress_response"]);
  expect(story.pass(TIMERS.resendMs)).toEqual(["store s"]);
  expect(story.leader.storing?.get("s")).toEqual({ at: at(5), home: "a" });
});

test("progress is confirmed when it is durable, and a failed commit is repeated", () => {
  const story = new Story("s");
  story.join("a");
  expect(story.progress("a", 8)).toEqual([]);
  expect(story.pass(TIMERS.progressMs)).toEqual(["store s"]);
  expect(story.progress("a", 9)).toEqual([]);
  expect(story.step({ type: "store_failed" })).toEqual([]);
  expect(story.pass(TIMERS.resendMs)).toContain("store s");
  expect(story.leader.storing?.get("s")?.at).toEqual(at(9));
  expect(story.step({ type: "stored" })).toEqual(["a: update_progress_response"]);
});

test("progress of another epoch or borrower moves nothing, and the borrower is told that the stream is not its own", () => {
  const story = new Story("s");
  story.join("a", "b");
  expect(story.progress("b", 8)).toEqual(["b: revoked s@0"]);
  expect(story.progress("a", 8, false, EPOCH - 1)).toEqual(["a: revoked s@-1"]);
  expect(story.leader.streams.get("s")?.progress).toEqual(at(5));
});

describe("a stream that is revoked", () => {
  /** Two streams of a, of which b gets one. */
  function revoking(): Story {
    const story = new Story("r", "s");
    story.join("a");
    for (const [i, stream] of ["r", "s"].entries()) story.progress("a", 5, false, EPOCH + i, stream);
    story.pass(50);
    story.step({ type: "stored" });
    story.join("b");
    expect(story.pass(TIMERS.reassignMs)).toEqual(["a: revoke s@1"]);
    return story;
  }

  test("goes through revoke, final progress, revoked and revoke_finished to the other borrower", () => {
    const story = revoking();
    expect(story.progress("a", 7, false, EPOCH + 1)).toEqual([]);
    expect(story.progress("a", 8, true, EPOCH + 1)).toEqual([]);
    expect(story.pass(TIMERS.progressMs)).toEqual(["store s"]);
    expect(story.step({ type: "stored" })).toEqual(["a: revoked s@1"]);
    expect(story.told("a", { type: "revoke_finished", stream: "s", epoch: EPOCH + 1 })).toEqual(["b: grant s@2"]);
    expect(story.leader.streams.get("s")?.progress).toEqual(at(8));
  });

  test("is told again at each step until the borrower answers", () => {
    const story = revoking();
    story.told("b", { type: "ping", sentMs: 0 });
    expect(story.pass(2 * TIMERS.resendMs)).toContain("a: revoke s@1");
    story.progress("a", 5, true, EPOCH + 1);
    expect(story.pass(2 * TIMERS.resendMs)).toContain("a: revoked s@1");
  });

  test("is taken away when the time to drain is over", () => {
    const story = revoking();
    const effects: string[] = [];
    for (let ms = 0; ms <= TIMERS.drainMs; ms += 500) {
      for (const id of ["a", "b"]) story.told(id, { type: "ping", sentMs: 0 });
      effects.push(...story.pass(500));
    }
    expect(effects).toContain("a: revoked s@1");
  });

  test("is free at once if the borrower never got its grant", () => {
    const story = revoking();
    const effects = story.told("a", { type: "revoke_finished", stream: "s", epoch: EPOCH + 1 });
    expect(effects).toEqual(["b: grant s@2"]);
  });
});

test("a silent member is evicted although the others keep the leader busy", () => {
  const story = new Story("s");
  story.join("a", "b");
  let effects: string[] = [];
  for (let ms = 0; ms <= TIMERS.memberTimeoutMs + TIMERS.resendMs; ms += 10) {
    story.told("b", { type: "ping", sentMs: ms });
    effects = [...effects, ...story.pass(10)];
  }
  expect(effects).toContain("b: grant s@1");
  expect(story.told("a", { type: "ping", sentMs: 0 })).toEqual(["a: invalidate"]);
});

test("a borrower that disconnects is answered when its progress is durable, and its streams are free at once", () => {
  const story = new Story("s");
  story.join("a", "b");
  story.progress("a", 5);
  const disconnect: ToLeader = { type: "disconnect", progress: [{ stream: "s", epoch: EPOCH, position: at(9) }] };
  expect(story.told("a", disconnect)).toEqual(["b: grant s@1", "store s"]);
  // A repetition is not answered before the commit either.
  expect(story.told("a", disconnect)).toEqual([]);
  expect(story.step({ type: "stored" })).toContain("a: disconnect_response");
  expect(story.told("a", disconnect).at(-1)).toBe("a: disconnect_response");
});

test("a closed stream that is processed to its end is taken back and not granted again", () => {
  const story = new Story("s");
  story.join("a");
  story.step({ type: "found", streams: [{ path: "s", from: at(0), end: at(7) }] });
  story.progress("a", 7);
  story.pass(TIMERS.progressMs);
  expect(story.step({ type: "stored" })).toEqual(["a: revoked s@0"]);
  expect(story.told("a", { type: "revoke_finished", stream: "s", epoch: EPOCH })).toEqual([]);
  expect(story.pass(TIMERS.resendMs)).toEqual([]);
});

test("a borrower that finds the end of a closed stream, or the stream gone, tells its leader", () => {
  const story = new Story("r", "s");
  story.join("a");
  const found = [
    { stream: "r", epoch: EPOCH, position: at(7), end: at(7) },
    { stream: "s", epoch: EPOCH + 1, position: at(6), isGone: true },
  ];
  story.told("a", { type: "update_progress", progress: found });
  story.pass(TIMERS.progressMs);
  expect([...story.leader.storing!]).toEqual([
    ["r", { at: at(7), home: "a" }],
    ["s", undefined],
  ]);
  expect(story.step({ type: "stored" })).toEqual(["a: revoked r@0", "a: revoked s@1"]);
});

test("a stream that is gone is taken back, and its row is dropped", () => {
  const story = new Story("s");
  story.join("a");
  story.progress("a", 9);
  story.step({ type: "lost", paths: ["s"] });
  expect(story.pass(TIMERS.progressMs)).toEqual(["store s"]);
  expect(story.leader.storing?.get("s")).toBeUndefined();
  expect(story.step({ type: "stored" })).toEqual(["a: revoked s@0"]);
  story.told("a", { type: "revoke_finished", stream: "s", epoch: EPOCH });
  expect(story.leader.streams.size).toBe(0);
});

test("a leader that may have had a predecessor grants nothing before its time", () => {
  const story = new Story("s");
  const leader = newLeader(3, [["s", { at: at(5) }]], 0, 2_000);
  Object.assign(story.leader, leader);
  expect(story.join("a")).toEqual(["a: ping_response"]);
  expect(story.pass(1_999)).toEqual([]);
  expect(story.pass(1)).toHaveLength(1);
});

test("a leader whose epochs are used up ends its term", () => {
  const story = new Story("s");
  story.leader.nextEpoch = 3 * EPOCHS_PER_TERM;
  expect(story.join("a")).toEqual(["a: ping_response", "release epochs"]);
});

test("a leader without members releases its group after a while, and not while one is there", () => {
  const story = new Story("s");
  expect(story.pass(TIMERS.idleMs - 1)).toEqual([]);
  expect(story.pass(TIMERS.resendMs)).toEqual(["release idle"]);
});
