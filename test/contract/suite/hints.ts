/**
 * Promises of the hints: watchers are woken once a commit is visible; reminders come due, and stay until a commit changes them.
 */
import { expect } from "vitest";
import type { Effect, Entity } from "../../../packages/server/src/engine/contract.ts";
import { type Behavior, type Fixture, put, stream } from "./fixture.ts";

const [a, b, c] = [stream("a"), stream("b"), stream("c")];

export function hints(behavior: Behavior): void {
  behavior("wake a watcher after a commit by any caller, once the commit is visible", async (on) => {
    let rev = (await on.load(a)).rev;
    for (let i = 0; i < 3; i++) {
      let seen: string | undefined;
      const woken = new Promise<void>((resolve, reject) => {
        const unwatch = on.engine.watch(a, () => {
          unwatch();
          on.row(a, "t", "x").then((value) => {
            seen = value;
            resolve();
          }, reject);
        });
      });
      ({ rev } = await on.commit(a, [put("x", String(i))], { rev }));
      await woken;
      expect(seen).toBe(String(i));
    }
  });

  behavior("wake every watcher of an entity, also after its destruction and before its creation", async (on) => {
    for (const effect of [put("x", "1"), { op: "destroy" } as const, put("x", "2")]) {
      const all = Promise.all([woken(on, a), woken(on, a), woken(on, a)]);
      await on.commit(a, [effect]);
      await all;
    }
  });

  behavior("call a watcher outside of the commit: it may read and commit itself", async (on) => {
    let inside = false;
    const both = new Promise<void>((resolve, reject) => {
      const unwatch = on.engine.watch(a, () => {
        unwatch();
        expect(inside).toBe(false);
        committed(on, put("y", "by the watcher")).then(() => resolve(), reject);
      });
    });
    const { rev } = await on.load(a);
    inside = true;
    const committing = on.engine.commit(a, { rev }, [put("x", "1")]);
    inside = false;
    await committing;
    await committed(on, put("x", "1"));
    await both;
    expect(await on.row(a, "t", "y")).toBe("by the watcher");
  });

  behavior("stop for a watcher that has unwatched, and for no other", async (on) => {
    let calls = 0;
    let heard = () => {};
    const wake = () => {
      calls++;
      heard();
    };
    const unwatch = on.engine.watch(a, wake);
    const unwatchAgain = on.engine.watch(a, wake);
    unwatch();
    unwatch();
    const stillWatched = new Promise<void>((resolve) => {
      heard = resolve;
    });
    await on.commit(a, [put("x", "1")]);
    await stillWatched;
    unwatchAgain();
    const before = calls;
    const other = woken(on, a);
    await on.commit(a, [put("x", "2")]);
    await other;
    expect(calls).toBe(before);
  });

  behavior("name an entity as due from its time on, until a commit changes its reminder", async (on) => {
    const now = on.engine.now();
    await on.commit(a, [{ op: "remind", atMs: now + 2_000 }]);
    expect(await on.due()).toEqual([]);
    await on.advance(2_000);
    await on.lives(async () => expect(await on.due()).toEqual([a.key]));
    await on.commit(a, [put("x", "1")]);
    await on.lives(async () => expect(await on.due()).toEqual([a.key]));
    await on.commit(a, [{ op: "remind", atMs: now + 600_000 }]);
    await on.lives(async () => expect(await on.due()).toEqual([]));
  });

  behavior("keep one reminder per entity: the newest replaces the earlier one, null removes it", async (on) => {
    const now = on.engine.now();
    await on.commit(a, [{ op: "remind", atMs: now + 600_000 }]);
    await on.commit(a, [{ op: "remind", atMs: now - 1 }]);
    await on.commit(b, [{ op: "remind", atMs: now - 1 }]);
    await on.commit(c, [{ op: "remind", atMs: now - 2 }]);
    await on.commit(c, [
      { op: "remind", atMs: now - 1 },
      { op: "remind", atMs: null },
    ]);
    await on.lives(async () => expect((await on.due()).sort()).toEqual([a.key, b.key]));
    await on.commit(a, [{ op: "remind", atMs: null }]);
    await on.lives(async () => expect(await on.due()).toEqual([b.key]));
    await on.commit(b, [{ op: "destroy" }]);
    await on.lives(async () => expect(await on.due()).toEqual([]));
  });

  behavior("name the oldest reminder of a shard first, up to the limit", async (on) => {
    const now = on.engine.now();
    const times = new Map<string, number>();
    for (let i = 0; i < 40; i++) {
      const e = stream(`s${i}`);
      times.set(e.key, now - 1 - ((i * 37) % 40) * 1_000);
      await on.commit(e, [{ op: "remind", atMs: times.get(e.key)! }]);
    }
    await on.lives(async () => {
      expect((await on.due()).sort()).toEqual([...times.keys()].sort());
      for (let shard = 0; shard < on.engine.shards; shard++) {
        const all = await on.engine.due(shard, 1_000);
        const reminded = all.map(({ key }) => times.get(key)!);
        expect(reminded).toEqual([...reminded].sort((x, y) => x - y));
        expect(await on.engine.due(shard, 3)).toEqual(all.slice(0, 3));
      }
    });
  });

  behavior("name due entities with project, kind, id and key", async (on) => {
    const e: Entity = stream("with/slashes é");
    await on.commit(e, [{ op: "remind", atMs: 1 }]);
    await on.lives(async () => {
      const found: Entity[] = [];
      for (let shard = 0; shard < on.engine.shards; shard++) found.push(...(await on.engine.due(shard, 10)));
      expect(found).toEqual([e]);
    });
  });
}

/** A commit whose spurious wakes do not matter, because a watcher may be woken without a change at any time. */
async function committed(on: Fixture, effect: Effect): Promise<void> {
  for (let attempts = 0; ; attempts++) {
    expect(attempts).toBeLessThan(100);
    const { rev } = await on.load(a);
    if ((await on.engine.commit(a, { rev }, [effect])).kind === "done") return;
  }
}

function woken(on: Fixture, e: Entity): Promise<void> {
  return new Promise((resolve) => {
    const unwatch = on.engine.watch(e, () => {
      unwatch();
      resolve();
    });
  });
}
