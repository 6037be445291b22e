/** Promises of ownership and the limiter: one owner at a time, stale owners fenced, and no more hits than a window allows. */
import { expect } from "vitest";
import type { Owner } from "../../../packages/server/src/engine/contract.ts";
import { append, type Behavior, type Fixture, put, stream } from "./fixture.ts";

const [a, b] = [stream("a"), stream("b")];
const TTL_MS = 2_000;
const SHORT_MS = 400;
const HOUR_MS = 3_600_000;
/** The largest error of an engine's time if it is another machine's. */
const ESTIMATE_MS = 200;

export function owners(behavior: Behavior): void {
  behavior("go to the first claimant; later claimants learn the holder and its end", async (on) => {
    const before = on.engine.now();
    await claimed(on, "first");
    const held = await on.engine.claim(a, "second", TTL_MS);
    expect(held).toMatchObject({ kind: "held", node: "first" });
    const { untilMs } = held as { untilMs: number };
    expect(untilMs).toBeGreaterThanOrEqual(before + TTL_MS - ESTIMATE_MS);
    expect(untilMs).toBeLessThanOrEqual(on.engine.now() + TTL_MS + ESTIMATE_MS);
    expect((await on.engine.claim(b, "second", TTL_MS)).kind).toBe("owner");
  });

  behavior("of many claims at once succeed for exactly one node", async (on) => {
    const results = await Promise.all(["1", "2", "3", "4", "5"].map((node) => on.engine.claim(a, node, TTL_MS)));
    expect(results.map(({ kind }) => kind).sort()).toEqual(["held", "held", "held", "held", "owner"]);
  });

  behavior("are renewed by a claim that names them, and stay the same for longer", async (on) => {
    const owner = await claimed(on, "first");
    await on.advance(TTL_MS / 2);
    expect(await on.engine.claim(a, "first", TTL_MS, owner)).toEqual(owner);
    await on.advance(TTL_MS / 2);
    expect((await on.engine.claim(a, "second", TTL_MS)).kind).toBe("held");
    expect((await commitAs(on, owner)).kind).toBe("done");
  });

  behavior("are renewed by no other claim, not even one of their own node", async (on) => {
    const owner = await claimed(on, "first");
    const others = [undefined, { ...owner, epoch: owner.epoch + 1 }, { ...owner, nonce: "other" }];
    for (const held of others) {
      expect(await on.engine.claim(a, "first", TTL_MS, held)).toMatchObject({ kind: "held", node: "first" });
    }
    await on.advance(TTL_MS);
    expect((await commitAs(on, owner)).kind).toBe("fenced");
  });

  behavior("that ended cannot be renewed: the claim gets a new one, or names another holder", async (on) => {
    const owner = await claimed(on, "first");
    await on.advance(TTL_MS);
    const next = await on.engine.claim(a, "first", TTL_MS, owner);
    expect(next.kind).toBe("owner");
    expect(next).not.toEqual(owner);
    expect((await on.engine.claim(a, "first", TTL_MS, owner)).kind).toBe("held");
    expect((await commitAs(on, owner)).kind).toBe("fenced");
  });

  behavior("come and go without changing the entity's rev", async (on) => {
    const { rev } = await on.commit(a, [put("x", "1")]);
    const owner = await claimed(on, "first");
    expect((await on.load(a)).rev).toBe(rev);
    await on.engine.release(a, owner);
    expect((await on.load(a)).rev).toBe(rev);
  });

  behavior("end with their time: another node may claim, as another owner", async (on) => {
    const owner = await claimed(on, "first");
    await on.advance(TTL_MS);
    expect((await commitAs(on, owner)).kind).toBe("fenced");
    const next = await claimed(on, "second");
    expect(next).not.toEqual(owner);
    expect((await commitAs(on, owner)).kind).toBe("fenced");
    expect((await commitAs(on, next)).kind).toBe("done");
  });

  behavior("that ended stay ended, even when the same node claims again", async (on) => {
    const owner = await claimed(on, "first");
    await on.advance(TTL_MS);
    const again = await claimed(on, "first");
    expect([again.epoch, again.nonce]).not.toEqual([owner.epoch, owner.nonce]);
    expect((await commitAs(on, owner)).kind).toBe("fenced");
    expect((await commitAs(on, again)).kind).toBe("done");
  });

  behavior("are released by their owner only", async (on) => {
    const owner = await claimed(on, "first");
    await on.engine.release(a, { ...owner, epoch: owner.epoch + 1 });
    await on.engine.release(a, { ...owner, nonce: "other" });
    await on.engine.release(b, owner);
    expect((await on.engine.claim(a, "second", TTL_MS)).kind).toBe("held");
    await on.engine.release(a, owner);
    expect((await commitAs(on, owner)).kind).toBe("fenced");
    const next = await claimed(on, "second");
    await on.engine.release(a, owner);
    expect((await commitAs(on, next)).kind).toBe("done");
  });

  behavior("are compared by epoch and nonce, both, inside the entity they guard", async (on) => {
    const owner = await claimed(on, "first");
    const nobodys = [
      { ...owner, epoch: owner.epoch + 1 },
      { ...owner, epoch: owner.epoch - 1 },
      { ...owner, nonce: `${owner.nonce}x` },
    ];
    for (const other of nobodys) expect(await commitAs(on, other)).toEqual({ kind: "fenced" });
    expect((await on.engine.commit(b, { rev: 0, owner }, [put("x", "1")])).kind).toBe("fenced");
    expect((await commitAs(on, owner)).kind).toBe("done");
  });

  behavior("whose commit is fenced have written nothing", async (on) => {
    await on.begin(a);
    const owner = await claimed(on, "first");
    await on.engine.release(a, owner);
    const { rev } = await on.load(a);
    const effects = [append("lost"), put("x", "lost"), { op: "remind", atMs: 1 } as const];
    expect(await on.engine.commit(a, { rev, owner, keys: [] }, effects)).toEqual({ kind: "fenced" });
    await on.lives(async () => {
      expect(await on.messages(a)).toEqual([]);
      expect(await on.row(a, "t", "x")).toBeUndefined();
      expect(await on.due()).toEqual([]);
    });
  });

  behavior("are checked by a commit without effects, and before its rev", async (on) => {
    const { rev } = await on.commit(a, [put("x", "1")]);
    const owner = await claimed(on, "first");
    expect((await on.engine.commit(a, { rev, owner }, [])).kind).toBe("done");
    expect((await on.engine.commit(a, { rev: 0, owner }, [])).kind).toBe("conflict");
    await on.engine.release(a, owner);
    expect((await on.engine.commit(a, { rev, owner }, [])).kind).toBe("fenced");
    expect((await on.engine.commit(a, { rev: 0, owner }, [put("x", "2")])).kind).toBe("fenced");
  });

  behavior("do not affect commits that name no owner, and survive the entity's destruction", async (on) => {
    const owner = await claimed(on, "first");
    await on.commit(a, [put("x", "1")]);
    await on.commit(a, [{ op: "destroy" }]);
    expect((await commitAs(on, owner)).kind).toBe("done");
  });

  behavior("of an earlier process are fenced once a later process has granted the claim again", async (on) => {
    const owner = await claimed(on, "first");
    if (!(await on.reopen())) return;
    await on.advance(TTL_MS);
    const next = await claimed(on, "first");
    expect([next.epoch, next.nonce]).not.toEqual([owner.epoch, owner.nonce]);
    expect((await commitAs(on, owner)).kind).toBe("fenced");
    expect((await commitAs(on, next)).kind).toBe("done");
  });

  behavior("allow at most as many hits in a window as its limit, and say when the next one is possible", async (on) => {
    for (const remaining of [2, 1, 0])
      expect(await on.engine.hit("k", 3, TTL_MS)).toEqual({ kind: "allowed", remaining });
    for (let i = 0; i < 3; i++) {
      const limited = await on.engine.hit("k", 3, TTL_MS);
      expect(limited.kind).toBe("limited");
      const { retryAfterMs } = limited as { retryAfterMs: number };
      expect(retryAfterMs).toBeGreaterThan(0);
      expect(retryAfterMs).toBeLessThanOrEqual(TTL_MS);
      if (i === 2) await on.advance(retryAfterMs);
    }
    expect(await on.engine.hit("k", 3, TTL_MS)).toEqual({ kind: "allowed", remaining: 2 });
  });

  behavior("count concurrent hits of one key exactly, and no other key's", async (on) => {
    const hits = await Promise.all(Array.from({ length: 50 }, () => on.engine.hit("k", 20, TTL_MS)));
    expect(hits.filter(({ kind }) => kind === "allowed").length).toBe(20);
    expect(await on.engine.hit("k2", 20, TTL_MS)).toEqual({ kind: "allowed", remaining: 19 });
    expect((await on.engine.hit("none", 0, TTL_MS)).kind).toBe("limited");
  });

  behavior("end claims, windows and reminders on time while the machine's clock is set back by an hour", async (on) => {
    const before = on.engine.now();
    await on.commit(b, [{ op: "remind", atMs: before + SHORT_MS / 2 }]);
    expect((await on.engine.claim(a, "first", SHORT_MS)).kind).toBe("owner");
    expect((await on.engine.hit("k", 1, SHORT_MS)).kind).toBe("allowed");
    on.setClock(-HOUR_MS);
    expect(on.engine.now()).toBeGreaterThanOrEqual(before);
    await on.advance(SHORT_MS);
    expect(on.engine.now()).toBeGreaterThanOrEqual(before + SHORT_MS / 2);
    expect((await on.engine.claim(a, "second", SHORT_MS)).kind).toBe("owner");
    expect((await on.engine.hit("k", 1, SHORT_MS)).kind).toBe("allowed");
    expect(await on.due()).toEqual([b.key]);
  });

  behavior("end neither a claim nor a window early when the machine's clock is set forward by an hour", async (on) => {
    await claimed(on, "first");
    expect((await on.engine.hit("k", 1, TTL_MS)).kind).toBe("allowed");
    on.setClock(HOUR_MS);
    expect((await on.engine.claim(a, "second", TTL_MS)).kind).toBe("held");
    expect((await on.engine.hit("k", 1, TTL_MS)).kind).toBe("limited");
  });

  behavior("find a healthy engine accepting writes", async (on) => {
    expect(on.engine.health()).toBeUndefined();
  });
}

async function claimed(on: Fixture, node: string): Promise<Owner> {
  const result = await on.engine.claim(a, node, TTL_MS);
  expect(result.kind).toBe("owner");
  return result as Owner;
}

async function commitAs(on: Fixture, owner: Owner) {
  const { rev } = await on.load(a);
  return on.engine.commit(a, { rev, owner }, [put("x", "1")]);
}
