/** Promises of the directory: the existing ids, by project and kind, in the order of their UTF-8 bytes, page by page. */
import { expect } from "vitest";
import { entity } from "../../../packages/server/src/engine/contract.ts";
import { AWKWARD_KEYS, append, type Behavior, bytewise, done, put, stream } from "./fixture.ts";

export function directories(behavior: Behavior): void {
  behavior("lists every entity from its creation, by any effect, until its destruction", async (on) => {
    await on.commit(stream("rows"), [put("x", "1")]);
    await on.begin(stream("log"));
    await on.commit(stream("reminder"), [{ op: "remind", atMs: 1 }]);
    await on.commit(stream("gone"), [put("x", "1")]);
    await on.commit(stream("gone"), [{ op: "destroy" }]);
    await on.commit(stream("never"), [put("x", "1"), { op: "destroy" }]);
    await on.engine.claim(stream("claimed only"), "n", 1_000);
    await on.lives(async () => expect(await on.ids("p", "stream")).toEqual(["log", "reminder", "rows"]));
    await on.commit(stream("gone"), [put("x", "2")]);
    await on.lives(async () => expect(await on.ids("p", "stream")).toEqual(["gone", "log", "reminder", "rows"]));
  });

  behavior("lists in the order of the ids' UTF-8 bytes, whatever the page size", async (on) => {
    for (const id of AWKWARD_KEYS) await on.commit(stream(id), [put("x", id)]);
    const sorted = bytewise(AWKWARD_KEYS);
    await on.lives(async () => {
      for (const pageSize of [1, 2, 5, sorted.length, 100]) {
        expect(await on.ids("p", "stream", "", pageSize)).toEqual(sorted);
      }
    });
  });

  behavior("continues after an id, present or not", async (on) => {
    for (const id of AWKWARD_KEYS) await on.commit(stream(id), [put("x", id)]);
    const sorted = bytewise(AWKWARD_KEYS);
    await on.lives(async () => {
      for (const after of [...sorted, "aa", "\uFFFD", "\u{10FFFF}", "b"]) {
        const all = bytewise([...new Set([...sorted, after])]);
        const { ids } = await on.engine.list("p", "stream", "", after, 3);
        expect([after, ids]).toEqual([after, all.slice(all.indexOf(after) + 1).slice(0, 3)]);
      }
    });
  });

  behavior("lists a prefix, page by page, and marks the last page", async (on) => {
    const ids = ["a", "a/", "a/1", "a/2", "a/\u{1F600}", "a0", "b/1", "\u{1F600}/1", "\uFF5E/1"];
    for (const id of ids) await on.commit(stream(id), [put("x", id)]);
    await on.lives(async () => {
      for (const prefix of ["a", "a/", "a/1", "b", "\u{1F600}", "\uFF5E", "nothing", "a/3"]) {
        const expected = bytewise(ids.filter((id) => id.startsWith(prefix)));
        for (const pageSize of [1, 2, 100]) expect(await on.ids("p", "stream", prefix, pageSize)).toEqual(expected);
      }
      expect(await on.engine.list("p", "stream", "a/", "a/1", 1)).toEqual({ ids: ["a/2"], next: "a/2" });
      expect(await on.engine.list("p", "stream", "a/", "Z", 1)).toEqual({ ids: ["a/"], next: "a/" });
      expect(await on.engine.list("p", "stream", "a/", "b", 5)).toEqual({ ids: [], next: undefined });
      expect((await on.engine.list("p", "stream", "a/", "a/2", 5)).next).toBeUndefined();
    });
  });

  behavior("keeps projects and kinds apart", async (on) => {
    const places = [
      ["p", "stream"],
      ["p", "streams"],
      ["p", "strea"],
      ["p2", "stream"],
      ["P", "stream"],
      ["p-", "stream"],
    ];
    for (const [project, kind] of places)
      await on.commit(entity(project!, kind!, `${project}.${kind}`), [put("x", "1")]);
    await on.lives(async () => {
      for (const [project, kind] of places) expect(await on.ids(project!, kind!)).toEqual([`${project}.${kind}`]);
      expect(await on.ids("p", "none")).toEqual([]);
      expect(await on.ids("none", "stream")).toEqual([]);
    });
  });

  behavior("names the projects that have an entity of a kind, each once", async (on) => {
    expect(await on.engine.projects("stream")).toEqual([]);
    const ids = ["one", "two"];
    for (const project of ["q", "p", "p2"])
      for (const id of ids) await on.commit(entity(project, "stream", id), [put("x", "1")]);
    await on.commit(entity("other", "session", "one"), [put("x", "1")]);
    await on.lives(async () => expect([...(await on.engine.projects("stream"))].sort()).toEqual(["p", "p2", "q"]));
    for (const id of ids) await on.commit(entity("p", "stream", id), [{ op: "destroy" }]);
    await on.commit(entity("q", "stream", "one"), [{ op: "destroy" }]);
    await on.lives(async () => {
      expect([...(await on.engine.projects("stream"))].sort()).toEqual(["p2", "q"]);
      expect(await on.engine.projects("session")).toEqual(["other"]);
    });
  });

  behavior("holds thousands of entities, written concurrently, each with its own log and rows", async (on) => {
    const ids = Array.from({ length: 2_000 }, (_, i) => `many/${(i * 17) % 2_000}`);
    await Promise.all(
      ids.map(async (id) => {
        const { rev, nextGeneration: generation } = await on.load(stream(id));
        const begin = { op: "begin", generation, at: { generation, seq: 0 } } as const;
        done(await on.engine.commit(stream(id), { rev }, [begin, append(`log of ${id}`), put("x", `row of ${id}`)]));
      }),
    );
    await on.lives(async () => {
      expect(await on.ids("p", "stream", "many/", 300)).toEqual(bytewise(ids));
      for (const id of ids.filter((_, i) => i % 50 === 0)) {
        expect(await on.payloads(stream(id))).toEqual([`log of ${id}`]);
        expect(await on.row(stream(id), "t", "x")).toBe(`row of ${id}`);
      }
    });
  });
}
