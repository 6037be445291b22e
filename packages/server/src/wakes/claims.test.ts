/** The rules for the holder of a wake: claiming it, proving that it is held, acknowledging, releasing. */
import { BEGINNING, formatOffset, ZERO } from "@sluice/protocol";
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import {
  FRESH,
  HELD,
  LIMITS,
  linkOf,
  offset,
  position,
  stateOf,
  subscribed,
  TOLD,
  tail,
} from "../../../../test/wakes/subscribed.ts";
import type { Tail, Wake } from "./state.ts";
import { type Ack, ackRule, claimRule, type Proof, releaseRule } from "./wake-rules.ts";

describe("a claim", () => {
  const claim = (view: RuleView, now: number, tails: readonly Tail[]) =>
    view.run(claimRule(view, now, { worker: "me", fresh: FRESH, tails }, LIMITS));
  const lease = { holder: "me", secret: "s2", tokenUntil: 9_010, leaseUntil: 1_010 };
  const held: Wake = { ...HELD, holder: "other" };

  it.each<readonly [string, Wake | undefined, object]>([
    ["takes the wake that workers were told of", TOLD, { id: "w1", generation: 1, trigger: "a", ...lease }],
    [
      "begins a wake itself when workers were not told yet",
      undefined,
      { id: "w2", generation: 1, trigger: "b", ...lease },
    ],
    [
      "begins a wake after one whose lease has ended",
      { ...held, leaseUntil: 10 },
      { id: "w2", generation: 2, trigger: "b", ...lease },
    ],
  ])("%s", (_name, wake, wanted) => {
    const view = subscribed("pull-wake", wake, { failures: 2, status: "failed" });
    expect(claim(view, 10, [tail("a", 5), tail("b", 6)])).toMatchObject({ kind: "claimed", wake: wanted });
    expect(stateOf(view)).toMatchObject({ status: "active", failures: 0, wake: wanted });
    expect(stateOf(view).wake!.attempt).toBeUndefined();
    expect(view.reminder).toBe(1_010);
  });

  it("is refused while another worker holds the wake", () => {
    const view = subscribed("pull-wake", held);
    expect(claim(view, 999, [tail("a", 6)])).toEqual({ kind: "held", holder: "other", generation: 1 });
    expect(view.changes).toEqual([]);
  });

  it("without work ends the wake that workers were told of, so that later work is told again", () => {
    const view = subscribed("pull-wake", TOLD);
    expect(claim(view, 10, [tail("a", 5)])).toEqual({ kind: "idle" });
    expect(stateOf(view)).toMatchObject({ generation: 1 });
    expect(stateOf(view).wake).toBeUndefined();
  });

  it.each([
    ["a webhook's subscription", subscribed("webhook", TOLD), "wrong-type"],
    ["a subscription that does not exist", new RuleView(), "absent"],
  ])("is refused for %s", (_name, view, kind) => {
    expect(claim(view, 10, [tail("a", 6)])).toEqual({ kind });
  });
});

describe("proof", () => {
  const token = { subscription: "x", incarnation: "i", generation: 1, until: 9_000, secret: "s1" };
  const PROOF: Proof = { token, wakeId: "w1", generation: 1 };
  const acknowledge = (view: RuleView, now: number, proof: Proof, acks: readonly Ack[] = [], isDone = false) => {
    const tails = new Map([["a", position(9)]]);
    return view.run(ackRule(view, now, { proof, pullOnly: false, acks, tails, done: isDone }));
  };

  it.each<readonly [string, Partial<Proof>, number, string]>([
    ["with another wake id is fenced", { wakeId: "w0" }, 10, "fenced"],
    ["with another generation in the body is fenced", { generation: 0 }, 10, "fenced"],
    ["with another generation in the token is fenced", { token: { ...token, generation: 0 } }, 10, "fenced"],
    ["with another secret is fenced", { token: { ...token, secret: "s0" } }, 10, "fenced"],
    ["of another incarnation is fenced", { token: { ...token, incarnation: "j" } }, 10, "fenced"],
    ["is fenced once the lease has ended", {}, 1_000, "fenced"],
    ["with a token whose time is over is refused", { token: { ...token, until: 10 } }, 10, "token-expired"],
    [
      "whose token claims more time than was given is refused",
      { token: { ...token, until: 99_000 } },
      9_000,
      "token-expired",
    ],
  ])("%s", (_name, changed, now, kind) => {
    const view = subscribed("webhook", { ...HELD, leaseUntil: kind === "token-expired" ? 50_000 : 1_000 });
    expect(acknowledge(view, now, { ...PROOF, ...changed })).toEqual({ kind });
    expect(view.changes).toEqual([]);
  });

  it("is fenced while workers have not claimed the wake", () => {
    const view = subscribed("pull-wake", { ...TOLD, secret: undefined });
    expect(acknowledge(view, 10, PROOF)).toEqual({ kind: "fenced" });
  });

  it("for a subscription that does not exist finds nothing", () => {
    expect(acknowledge(new RuleView(), 10, PROOF)).toEqual({ kind: "absent" });
  });

  it("of a webhook is refused where only workers may act", () => {
    const view = subscribed("webhook", HELD);
    const input = { proof: PROOF, pullOnly: true, acks: [], tails: new Map(), done: false };
    expect(view.run(ackRule(view, 10, input))).toEqual({ kind: "wrong-type" });
    expect(view.run(releaseRule(view, 10, PROOF))).toEqual({ kind: "wrong-type" });
  });

  describe("an acknowledgement", () => {
    const bad = (why: string) => ({ kind: "bad-ack", why });
    const acked = { kind: "acked", isReleased: false };
    it.each<readonly [string, readonly Ack[], object, number]>([
      ["moves what is acknowledged", [{ path: "a", offset: offset(7) }], acked, 7],
      ["may repeat what is acknowledged", [{ path: "a", offset: offset(5) }], acked, 5],
      ["may reach the tail", [{ path: "a", offset: offset(9) }], acked, 9],
      [
        "beyond the tail is refused",
        [{ path: "a", offset: offset(10) }],
        bad(`a: the offset lies beyond the tail ${offset(9)}`),
        5,
      ],
      [
        "before what is acknowledged is refused",
        [{ path: "a", offset: offset(4) }],
        bad(`a: the offset lies before ${offset(5)}, which is acknowledged`),
        5,
      ],
      [
        "of the beginning is refused",
        [{ path: "a", offset: BEGINNING }],
        bad(`a: ${BEGINNING} acknowledges nothing; send the offset of a processed message`),
        5,
      ],
      [
        "with something else than an offset is refused",
        [{ path: "a", offset: "x" }],
        bad("a: the offset is not from this server"),
        5,
      ],
      ["of a stream that is not linked is refused", [{ path: "c", offset: offset(1) }], bad("c: is not linked"), 5],
      [
        "of a linked stream without a tail is refused",
        [{ path: "b", offset: offset(6) }],
        bad(`b: the offset lies beyond the tail ${formatOffset(ZERO)}`),
        5,
      ],
      [
        "is taken with all others of the request or not at all",
        [
          { path: "a", offset: offset(7) },
          { path: "c", offset: offset(1) },
        ],
        bad("c: is not linked"),
        5,
      ],
      [
        "may name a stream twice in order",
        [
          { path: "a", offset: offset(6) },
          { path: "a", offset: offset(8) },
        ],
        acked,
        8,
      ],
      [
        "may not name a stream twice out of order",
        [
          { path: "a", offset: offset(8) },
          { path: "a", offset: offset(6) },
        ],
        bad(`a: the offset lies before ${offset(8)}, which is acknowledged`),
        5,
      ],
    ])("%s", (_name, acks, outcome, seq) => {
      const view = subscribed("webhook", HELD);
      expect(acknowledge(view, 10, PROOF, acks)).toEqual(outcome);
      expect(linkOf(view).acked).toBe(offset(seq));
    });

    it("extends the lease and ends attempts and failures", () => {
      const view = subscribed("webhook", TOLD, { failures: 2, status: "failed" });
      acknowledge(view, 500, PROOF);
      expect(stateOf(view)).toMatchObject({ status: "active", failures: 0, wake: { leaseUntil: 1_500 } });
      expect(stateOf(view).wake!.attempt).toBeUndefined();
      expect(view.reminder).toBe(1_500);
    });

    it("that is done ends the wake", () => {
      const view = subscribed("webhook", HELD);
      expect(acknowledge(view, 10, PROOF, [], true)).toEqual({ kind: "acked", isReleased: true });
      expect(stateOf(view).wake).toBeUndefined();
      expect(view.reminder).toBeNull();
    });
  });

  it("lets a worker release the wake unfinished, and only once", () => {
    const view = subscribed("pull-wake", { ...HELD, holder: "me" });
    expect(view.run(releaseRule(view, 10, PROOF))).toEqual({ kind: "released" });
    expect(stateOf(view)).toMatchObject({ generation: 1 });
    expect(stateOf(view).wake).toBeUndefined();
    expect(view.run(releaseRule(view, 10, PROOF))).toEqual({ kind: "fenced" });
  });
});
