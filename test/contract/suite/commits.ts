/** Promises of a commit: all or nothing, only onto the rev it names, durable when it resolves, and revs that never return. */
import { expect } from "vitest";
import type { Conflict, Effect } from "../../../packages/server/src/engine/contract.ts";
import { NO_HEAD } from "../../../packages/server/src/engine/contract.ts";
import {
  append,
  type Behavior,
  bytes,
  done,
  drop,
  expectConflict,
  expectSame,
  type Fixture,
  put,
  stream,
  text,
} from "./fixture.ts";

const a = stream("a");
const keys = [
  { table: "t", key: "x" },
  { table: "t", key: "y" },
];

export function commits(behavior: Behavior): void {
  behavior("has not been made yet: the entity does not exist, its rev is 0 and its head is empty", async (on) => {
    const snapshot = await on.load(a, keys);
    expect(snapshot.rev).toBe(0);
    expect(snapshot.head).toEqual(NO_HEAD);
    expect(snapshot.rows).toEqual([undefined, undefined]);
    expect(snapshot.nextGeneration).toBeGreaterThan(0);
    expect(await on.engine.read(a, NO_HEAD.last, 100)).toEqual({ messages: [], head: NO_HEAD, atTail: true });
  });

  behavior("applies all of its effects, and they survive a restart", async (on) => {
    const { nextGeneration: generation } = await on.load(a);
    const at = { generation, seq: 0 };
    const everything: Effect[] = [
      { op: "begin", generation, at },
      append("one", "two"),
      put("x", "1"),
      put("y", "2"),
      { op: "remind", atMs: on.engine.now() },
    ];
    const { rev, head } = await on.commit(a, everything);
    expect(rev).not.toBe(0);
    await on.lives(async () => {
      const snapshot = await on.load(a, keys);
      expect(snapshot.rev).not.toBe(0);
      expect(snapshot.head).toEqual(head);
      expect(snapshot.rows.map((value) => value && text(value))).toEqual(["1", "2"]);
      expect(await on.payloads(a)).toEqual(["one", "two"]);
      expect(await on.due()).toEqual([a.key]);
      expect(await on.ids("p", "stream")).toEqual(["a"]);
    });
  });

  behavior("applies its effects in their order", async (on) => {
    const generation = await on.begin(a);
    const one = { generation, seq: 1 };
    await on.commit(a, [put("x", "old"), drop("x"), put("x", "new"), put("y", "gone"), drop("y")]);
    await on.commit(a, [append("one"), { op: "trim", through: one, bytes: 3 }, append("two")]);
    await on.lives(async () => {
      expect([await on.row(a, "t", "x"), await on.row(a, "t", "y")]).toEqual(["new", undefined]);
      expect(await on.payloads(a)).toEqual(["two"]);
    });
  });

  behavior("onto an old rev changes nothing and returns the new state, with the keys it named", async (on) => {
    const { rev: old } = await on.commit(a, [put("x", "1")]);
    await on.commit(a, [put("x", "2"), put("z", "3")]);
    const before = await on.load(a, keys);
    const effects: Effect[] = [put("x", "lost"), put("y", "lost"), { op: "remind", atMs: 0 }];
    const result = await on.engine.commit(a, { rev: old, keys }, effects);
    expectConflict(result, before);
    await on.lives(async () => {
      expect([await on.row(a, "t", "x"), await on.row(a, "t", "y")]).toEqual(["2", undefined]);
      expect(await on.due()).toEqual([]);
    });
  });

  behavior("onto an entity that does not exist, or no longer, is a conflict", async (on) => {
    const { rev } = await on.commit(a, [put("x", "1")]);
    const existing = await on.engine.commit(a, { rev: 0, keys }, [put("x", "2")]);
    expectConflict(existing, await on.load(a, keys));
    await on.commit(a, [{ op: "destroy" }]);
    const destroyed = await on.engine.commit(a, { rev, keys }, [put("x", "2")]);
    expectConflict(destroyed, await on.load(a, keys));
    expect((destroyed as Conflict).snapshot.rev).toBe(0);
    expect(await on.ids("p", "stream")).toEqual([]);
  });

  behavior("without effects checks the rev and creates nothing", async (on) => {
    expect(await on.engine.commit(a, { rev: 0 }, [])).toEqual({ kind: "done", rev: 0, head: NO_HEAD });
    expect(await on.ids("p", "stream")).toEqual([]);
    const { rev } = await on.commit(a, [put("x", "1")]);
    expect((await on.engine.commit(a, { rev }, [])).kind).toBe("done");
    expect((await on.engine.commit(a, { rev: 0, keys: [] }, [])).kind).toBe("conflict");
    expect(await on.row(a, "t", "x")).toBe("1");
  });

  behavior(
    "gets a rev that was never given before, not even to another incarnation or by another process",
    async (on) => {
      const given: number[] = [];
      for (let life = 0; life < 2; life++) {
        for (let incarnation = 0; incarnation < 3; incarnation++) {
          await on.begin(a);
          given.push((await on.load(a)).rev);
          for (let i = 0; i < 3; i++) given.push((await on.append(a, "x")).rev);
          given.push((await on.commit(a, [put("x", "1")])).rev);
          expect((await on.commit(a, [{ op: "destroy" }])).rev).toBe(0);
        }
        await on.reopen();
      }
      expect(new Set(given).size).toBe(given.length);
      expect(given).not.toContain(0);
    },
  );

  behavior("leaves the rev that it returned, which stays until the next commit", async (on) => {
    const { rev } = await on.commit(a, [put("x", "1")]);
    await on.commit(stream("b"), [put("x", "1")]);
    expect((await on.load(a)).rev).toBe(rev);
    expect((await on.load(a, keys)).rev).toBe(rev);
    await on.commit(a, [put("x", "2")]);
    expect((await on.load(a)).rev).not.toBe(rev);
  });

  behavior("never resolves in the turn of its call", async (on) => {
    let resolved = false;
    const committing = on.engine.commit(a, { rev: 0 }, [put("x", "1")]).then(() => {
      resolved = true;
    });
    expect(resolved).toBe(false);
    await committing;
  });

  behavior("is visible wholly or not at all while it is in flight", async (on) => {
    await on.begin(a);
    for (let round = 1; round <= 20; round++) {
      const value = String(round);
      const old = await on.load(a, keys);
      const committing = on.engine.commit(a, { rev: old.rev }, [put("x", value), append(value), put("y", value)]);
      const seen = await on.load(a, keys);
      if (seen.rev === old.rev) expectSame(seen, old);
      else {
        expect(seen.rows.map((row) => row && text(row))).toEqual([value, value]);
        expect(seen.head.last.seq).toBe(round);
      }
      await committing;
      expect((await on.load(a, keys)).rows.map((row) => row && text(row))).toEqual([value, value]);
      expect((await on.payloads(a)).length).toBe(round);
    }
  });

  behavior(
    "by many callers at the same rev succeeds for exactly one; the others conflict with its state",
    async (on) => {
      const rivals = Array.from({ length: 8 }, (_, i) => String(i));
      const commit = (value: string) => on.engine.commit(a, { rev: 0, keys }, [put("x", value), put("y", value)]);
      const results = await Promise.all(rivals.map(commit));
      const winners = results.flatMap((result, i) => (result.kind === "done" ? [rivals[i]] : []));
      expect(winners.length).toBe(1);
      const now = await on.load(a, keys);
      expect(now.rows.map((row) => row && text(row))).toEqual([winners[0], winners[0]]);
      for (const result of results) if (result.kind !== "done") expectConflict(result, now);
    },
  );

  behavior(
    "by one of two interleaved writers succeeds after it runs again on the state in the conflict",
    async (on) => {
      await Promise.all([countTo(on, 25), countTo(on, 25)]);
      await on.lives(async () => expect(await on.row(a, "t", "x")).toBe("50"));
    },
  );

  behavior("keeps a copy, so the caller may reuse its buffers afterwards", async (on) => {
    await on.begin(a);
    const [payload, value] = [bytes("payload"), bytes("value")];
    await on.commit(a, [append(payload), { op: "put", table: "t", key: "x", value }]);
    payload.fill(0);
    value.fill(0);
    await on.lives(async () => {
      expect(await on.payloads(a)).toEqual(["payload"]);
      expect(await on.row(a, "t", "x")).toBe("value");
    });
  });

  behavior("to one entity changes no other entity", async (on) => {
    const b = stream("b");
    await on.begin(a);
    await on.begin(b);
    await on.append(a, "of a");
    await on.commit(b, [append("of b"), put("x", "of b")]);
    await on.commit(a, [{ op: "destroy" }]);
    await on.lives(async () => {
      expect(await on.payloads(b)).toEqual(["of b"]);
      expect(await on.row(b, "t", "x")).toBe("of b");
      expect((await on.load(a, keys)).rev).toBe(0);
    });
  });

  behavior("that destroys leaves no head, rows, log, reminder or listing, and returns rev 0", async (on) => {
    await on.begin(a);
    await on.commit(a, [append("one"), put("x", "1"), { op: "remind", atMs: on.engine.now() }]);
    const destroyed = await on.commit(a, [append("two"), put("y", "2"), { op: "destroy" }]);
    expect(destroyed).toEqual({ kind: "done", rev: 0, head: NO_HEAD });
    await on.lives(async () => {
      expect(await on.load(a, keys)).toMatchObject({ rev: 0, head: NO_HEAD, rows: [undefined, undefined] });
      expect(await on.messages(a)).toEqual([]);
      expect(await on.rowKeys(a, "t")).toEqual([]);
      expect(await on.due()).toEqual([]);
      expect(await on.ids("p", "stream")).toEqual([]);
    });
  });

  behavior("that creates the entity anew finds nothing of the earlier incarnation", async (on) => {
    await on.begin(a);
    await on.commit(a, [append("old"), put("x", "old"), { op: "remind", atMs: on.engine.now() }]);
    await on.commit(a, [{ op: "destroy" }]);
    await on.begin(a);
    await on.commit(a, [append("new"), put("y", "new")]);
    await on.lives(async () => {
      expect(await on.payloads(a)).toEqual(["new"]);
      expect(await on.rowKeys(a, "t")).toEqual(["y"]);
      expect(await on.due()).toEqual([]);
    });
  });
}

/** One of several writers: adds 1 to a row until it has done so `times` times. */
async function countTo(on: Fixture, times: number): Promise<void> {
  let snapshot = await on.load(a, keys);
  for (let left = times, attempts = 0; left > 0; attempts++) {
    expect(attempts).toBeLessThan(1_000);
    const [value] = snapshot.rows;
    const next = String(Number(value ? text(value) : "0") + 1);
    const result = await on.engine.commit(a, { rev: snapshot.rev, keys }, [put("x", next)]);
    if (result.kind === "conflict") snapshot = result.snapshot;
    else {
      snapshot = { ...snapshot, rev: done(result).rev, rows: [bytes(next), undefined] };
      left--;
    }
  }
}
