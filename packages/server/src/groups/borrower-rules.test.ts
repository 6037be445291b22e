import { describe, expect, test } from "vitest";
import { borrowerDueMs, borrowerStep, holdsUntilMs } from "./borrower-rules.ts";
import { type Borrower, type BorrowerEvent, newBorrower } from "./borrower-state.ts";
import { graceMs, GROUP_TIMERS as TIMERS } from "./defaults.ts";
import type { FromLeader } from "./messages.ts";

const at = (seq: number) => ({ generation: 1, seq });
const leader = { node: "n", term: 3 };
const told = (message: FromLeader, term = 3): BorrowerEvent => ({ type: "told", leader: { node: "n", term }, message });
const grant = (epoch: number, stream = "s"): FromLeader => ({ type: "grant", stream, epoch, position: at(5) });
const progress = (seq: number, isFinal = false, epoch = 7): BorrowerEvent => ({
  type: "on_stream_progress",
  progress: [{ stream: "s", epoch, position: at(seq), isFinal }],
});

/** A borrower and the time, with its effects as short texts. */
class Story {
  now = 0;
  readonly borrower: Borrower = newBorrower("m", 0);

  step(event: BorrowerEvent): string[] {
    return borrowerStep(this.borrower, event, this.now, TIMERS).map((effect) => {
      if (effect.kind === "send") return `send ${effect.message.type}`;
      return "epoch" in effect ? `${effect.kind} ${effect.stream}@${effect.epoch}` : effect.kind;
    });
  }

  connected(): this {
    this.step({ type: "tick" });
    this.step(told({ type: "leader_connect_response" }));
    this.step(told({ type: "ping_response", sentMs: this.now }));
    return this;
  }

  granted(epoch = 7): this {
    this.connected().step(told(grant(epoch)));
    return this;
  }
}

test("a connecting borrower asks for its leader again and again, and pings as soon as it has one", () => {
  const story = new Story();
  expect(story.step({ type: "tick" })).toEqual(["send leader_wanted"]);
  expect(story.step({ type: "tick" })).toEqual([]);
  story.now = borrowerDueMs(story.borrower, TIMERS);
  expect(story.step({ type: "tick" })).toEqual(["send leader_wanted"]);
  expect(story.step(told({ type: "leader_connect_response" }))).toEqual(["connected", "send ping"]);
  expect(story.borrower).toMatchObject({ status: "connected", leader });
});

test.each([
  ["a grant is installed and answered", [], grant(7), ["granted s@7", "send update_progress"]],
  ["a repeated grant is only answered", [told(grant(7))], grant(7), ["send update_progress"]],
  ["an older grant is ignored", [told(grant(7))], grant(6), []],
  [
    "a grant that comes after its end is ignored",
    [told(grant(7)), told({ type: "revoked", stream: "s", epoch: 7, position: at(5) })],
    grant(7),
    [],
  ],
  [
    "a later grant of a stream that it holds makes it start from scratch",
    [told(grant(7))],
    grant(8),
    ["revoked s@7", "destroyed"],
  ],
  ["a revoke is passed on", [told(grant(7))], { type: "revoke", stream: "s", epoch: 7 }, ["revoking s@7"]],
  [
    "a revoke of a lost grant is answered at once",
    [],
    { type: "revoke", stream: "s", epoch: 7 },
    ["send revoke_finished"],
  ],
  ["the grant that comes after its revoke is ignored", [told({ type: "revoke", stream: "s", epoch: 7 })], grant(7), []],
  [
    "revoked ends the stream, with or without a revoke",
    [told(grant(7))],
    { type: "revoked", stream: "s", epoch: 7, position: at(5) },
    ["revoked s@7", "send revoke_finished"],
  ],
  [
    "a repeated revoked is answered again",
    [told(grant(7)), told({ type: "revoked", stream: "s", epoch: 7, position: at(5) })],
    { type: "revoked", stream: "s", epoch: 7, position: at(5) },
    ["send revoke_finished"],
  ],
  [
    "durable progress is told to the session",
    [told(grant(7)), progress(8)],
    { type: "update_progress_response", progress: [{ stream: "s", epoch: 7, position: at(8) }] },
    ["acked s@7"],
  ],
  [
    "durable progress of another grant is ignored",
    [told(grant(7)), progress(8)],
    { type: "update_progress_response", progress: [{ stream: "s", epoch: 6, position: at(8) }] },
    [],
  ],
  ["invalidate makes it start from scratch", [told(grant(7))], { type: "invalidate" }, ["revoked s@7", "destroyed"]],
  [
    "disconnect_response without a disconnect makes it start from scratch",
    [],
    { type: "disconnect_response" },
    ["destroyed"],
  ],
] as const)("%s", (_, before, message, effects) => {
  const story = new Story().connected();
  for (const event of before) story.step(event as BorrowerEvent);
  expect(story.step(told(message as FromLeader))).toEqual(effects);
});

test("a message of an earlier leader is ignored, and one of a later leader makes it start from scratch", () => {
  const story = new Story().granted();
  expect(story.step(told({ type: "invalidate" }, 2))).toEqual([]);
  expect(story.step(told({ type: "ping_response", sentMs: 0 }, 4))).toEqual(["revoked s@7", "destroyed"]);
  expect(story.borrower.status).toBe("destroyed");
  expect(story.step(told(grant(9)))).toEqual([]);
});

test("a borrower whose pings are not answered delivers nothing any more, and starts from scratch", () => {
  const story = new Story().granted();
  const untilMs = holdsUntilMs(story.borrower, TIMERS);
  expect(untilMs).toBe(graceMs(TIMERS));
  // Other messages of the leader say nothing about now.
  story.now = untilMs - 1;
  story.step({ type: "tick" });
  story.step(told(grant(7)));
  expect(holdsUntilMs(story.borrower, TIMERS)).toBe(untilMs);
  story.now = untilMs;
  expect(story.step({ type: "tick" })).toEqual(["revoked s@7", "destroyed"]);
});

test("a borrower that was late itself asks again before it gives up, and delivers nothing meanwhile", () => {
  const story = new Story().granted();
  story.now = holdsUntilMs(story.borrower, TIMERS) + 3_000;
  expect(story.step({ type: "tick" })).toEqual(["send ping"]);
  expect(holdsUntilMs(story.borrower, TIMERS)).toBeLessThan(story.now);
  const { now } = story;
  story.now += TIMERS.pingMs;
  expect(story.step({ type: "tick" })).toEqual(["send ping"]);
  // The answer to the first of them comes, or none does.
  const answered = new Story().granted();
  Object.assign(answered.borrower, { ...story.borrower, streams: answered.borrower.streams });
  answered.now = story.now;
  expect(answered.step(told({ type: "ping_response", sentMs: now }))).toEqual(["resumed"]);
  story.now = now + TIMERS.pingTimeoutMs - 1;
  story.step({ type: "tick" });
  expect(borrowerDueMs(story.borrower, TIMERS)).toBe(story.now + 1);
  story.now++;
  expect(story.step({ type: "tick" })).toEqual(["revoked s@7", "destroyed"]);
});

test("progress that is not confirmed is sent again, and nothing is sent once it is", () => {
  const story = new Story().granted();
  expect(story.step(progress(8))).toEqual(["send update_progress"]);
  story.now += TIMERS.resendMs;
  expect(story.step({ type: "tick" })).toContain("send update_progress");
  story.step(told({ type: "update_progress_response", progress: [{ stream: "s", epoch: 7, position: at(8) }] }));
  for (let i = 0; i < 2; i++) {
    story.now += TIMERS.resendMs;
    story.step(told({ type: "ping_response", sentMs: story.now }));
    expect(story.step({ type: "tick" })).not.toContain("send update_progress");
  }
});

describe("unsubscribing", () => {
  test("without a leader ends at once", () => {
    const story = new Story();
    expect(story.step({ type: "on_unsubscribe" })).toEqual(["send disconnect", "destroyed"]);
  });

  test("waits for the session, then for the answer, and sends again meanwhile", () => {
    const story = new Story().granted();
    expect(story.step({ type: "on_unsubscribe" })).toEqual(["revoking s@7"]);
    expect(story.step(told(grant(9, "other")))).toEqual([]);
    expect(story.step(progress(8, true))).toEqual(["send disconnect"]);
    story.now += TIMERS.resendMs;
    expect(story.step({ type: "tick" })).toContain("send disconnect");
    expect(story.step(told({ type: "disconnect_response" }))).toEqual(["acked s@7", "revoked s@7", "destroyed"]);
  });

  test("waits until one message can list the progress that is not confirmed", () => {
    const story = new Story().connected();
    const streams = Array.from({ length: 30 }, (_, i) => `s${i}`);
    for (const stream of streams) story.step(told(grant(7, stream)));
    story.step({ type: "on_unsubscribe" });
    const finals = streams.map((stream) => ({ stream, epoch: 7, position: at(8), isFinal: true }));
    expect(story.step({ type: "on_stream_progress", progress: finals })).toEqual(["send update_progress"]);
    const stored = finals.slice(0, 10).map(({ stream, epoch, position }) => ({ stream, epoch, position }));
    expect(story.step(told({ type: "update_progress_response", progress: stored }))).toContain("send disconnect");
  });

  test("ends with what was processed when the time is up", () => {
    const story = new Story().granted();
    story.step({ type: "on_unsubscribe" });
    story.step(progress(6));
    story.now += TIMERS.unsubscribeMs;
    expect(story.step({ type: "tick" })).toEqual(["send disconnect", "revoked s@7", "destroyed"]);
  });

  test("is not restarted by invalidate", () => {
    const story = new Story().granted();
    story.step({ type: "on_unsubscribe" });
    const effects = borrowerStep(story.borrower, told({ type: "invalidate" }), story.now, TIMERS);
    expect(effects.at(-1)).toEqual({ kind: "destroyed", isRestart: false });
  });
});

test("a lost connection reports what was processed and ends", () => {
  const story = new Story().granted();
  story.step(progress(8));
  const [sent] = borrowerStep(story.borrower, { type: "on_disconnect" }, story.now, TIMERS);
  expect(sent).toEqual({
    kind: "send",
    leader,
    message: { type: "disconnect", progress: [{ stream: "s", epoch: 7, position: at(8) }] },
  });
});

describe("of a queue", () => {
  const leased = { stream: "q", position: at(3), lease: 50, attempt: 1 };
  const lease = (batch: number, sinceMs = 0): FromLeader => ({
    type: "lease",
    batch,
    leases: [{ ...leased, lease: 50 + batch }],
    sinceMs,
    leaseMs: 1_000,
  });

  test("a batch of leases is taken once, however often and late it comes, and always confirmed", () => {
    const story = new Story().connected();
    expect(story.step(told(lease(2)))).toEqual(["send leased", "leased"]);
    expect(story.step(told(lease(1)))).toEqual(["send leased", "leased"]);
    for (const batch of [1, 2]) expect(story.step(told(lease(batch)))).toEqual(["send leased"]);
    expect(story.borrower.batches).toEqual({ through: 2, later: new Set() });
  });

  test("a lease ends by the clock of the borrower, from the ping that came before it", () => {
    const story = new Story().connected();
    const effects = borrowerStep(story.borrower, told(lease(1, 400)), 900, TIMERS);
    expect(effects[1]).toMatchObject({ kind: "leased", untilMs: 1_400, lease: 51 });
  });

  test("a settlement is sent until it is answered, once per lease", () => {
    const story = new Story().connected();
    story.step(told(lease(1)));
    const settle: BorrowerEvent = {
      type: "on_settle",
      settlements: [{ stream: "q", position: at(3), lease: 51, verdict: "ack" }],
    };
    expect(story.step(settle)).toEqual(["send settle"]);
    expect(story.step(settle)).toEqual([]);
    story.now += TIMERS.resendMs;
    expect(story.step({ type: "tick" })).toContain("send settle");
    const settled: FromLeader = { type: "settled", leases: [{ lease: 51, isGone: false }] };
    expect(story.step(told(settled))).toEqual(["settled"]);
    expect(story.step(told(settled))).toEqual([]);
  });

  test("a borrower that unsubscribes leaves when its leases are settled", () => {
    const story = new Story().connected();
    story.step(told(lease(1)));
    expect(story.step({ type: "on_unsubscribe" })).toEqual([]);
    expect(story.step(told(lease(2)))).toEqual([]);
    story.step({ type: "on_settle", settlements: [{ stream: "q", position: at(3), lease: 51, verdict: "ack" }] });
    const settled: FromLeader = { type: "settled", leases: [{ lease: 51, isGone: false }] };
    expect(story.step(told(settled))).toEqual(["settled", "send disconnect"]);
  });
});
