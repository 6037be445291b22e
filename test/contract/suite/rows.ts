/** Promises of rows: values exactly as put, and pages in the order of the keys' UTF-8 bytes. */
import { expect } from "vitest";
import { entity } from "../../../packages/server/src/engine/contract.ts";
import { AWKWARD_KEYS, type Behavior, bytewise, drop, put, stream } from "./fixture.ts";

const a = stream("a");

export function rows(behavior: Behavior): void {
  behavior("are put, replaced and dropped", async (on) => {
    await on.commit(a, [put("x", "1"), put("y", "1"), put("z", "1")]);
    await on.commit(a, [put("x", "2"), drop("y"), drop("was never there")]);
    await on.lives(async () => {
      const found = await on.engine.rows(a, "t", "", 10);
      expect(found.map(({ key, value }) => [key, Buffer.from(value).toString()])).toEqual([
        ["x", "2"],
        ["z", "1"],
      ]);
      expect(await on.row(a, "t", "y")).toBeUndefined();
    });
  });

  behavior("are loaded in the order of the keys, missing ones as undefined, repeated ones twice", async (on) => {
    await on.commit(a, [put("x", "1"), put("y", "2"), put("x", "3", "u")]);
    const keys = ["y", "none", "x", "y"].map((key) => ({ table: "t", key }));
    await on.lives(async () => {
      const { rows: found } = await on.load(a, [...keys, { table: "u", key: "x" }, { table: "none", key: "x" }]);
      expect(found.map((value) => value && Buffer.from(value).toString())).toEqual([
        "2",
        undefined,
        "1",
        "2",
        "3",
        undefined,
      ]);
    });
  });

  behavior("keep every byte of a value, and empty and large values", async (on) => {
    const every = Uint8Array.from({ length: 256 }, (_, i) => i);
    const large = Uint8Array.from({ length: 1 << 20 }, (_, i) => i * 7);
    const values = { every, empty: new Uint8Array(0), large, view: large.subarray(1_000, 1_100) };
    await on.commit(
      a,
      Object.entries(values).map(([key, value]) => ({ op: "put", table: "t", key, value })),
    );
    await on.lives(async () => {
      for (const [key, value] of Object.entries(values)) {
        const [found] = (await on.load(a, [{ table: "t", key }])).rows;
        expect([key, found && Buffer.compare(found, value)]).toEqual([key, 0]);
      }
    });
  });

  behavior("come in the order of their keys' UTF-8 bytes", async (on) => {
    await on.commit(
      a,
      AWKWARD_KEYS.map((key) => put(key, key)),
    );
    await on.lives(async () => {
      expect(await on.rowKeys(a, "t")).toEqual(bytewise(AWKWARD_KEYS));
      for (const key of AWKWARD_KEYS) expect(await on.row(a, "t", key)).toBe(key);
    });
  });

  behavior("are paged: after a key, present or not, up to the limit", async (on) => {
    await on.commit(
      a,
      AWKWARD_KEYS.map((key) => put(key, key)),
    );
    const sorted = bytewise(AWKWARD_KEYS);
    await on.lives(async () => {
      for (const after of [...sorted, "aa", "\uFFFD", "\u{10FFFF}", "b"]) {
        const expected = bytewise([...new Set([...sorted, after])]);
        const following = expected.slice(expected.indexOf(after) + 1);
        const found = await on.engine.rows(a, "t", after, 3);
        expect([after, found.map(({ key }) => key)]).toEqual([after, following.slice(0, 3)]);
      }
      expect(await on.rowKeys(a, "t", 1)).toEqual(sorted);
    });
  });

  behavior("under the empty key are loaded, and come before every page", async (on) => {
    await on.commit(a, [put("", "root"), put("x", "1")]);
    await on.lives(async () => {
      expect(await on.row(a, "t", "")).toBe("root");
      expect((await on.engine.rows(a, "t", "", 10)).map(({ key }) => key)).toEqual(["x"]);
    });
  });

  behavior("of one table or entity never appear in another, however alike the names are", async (on) => {
    const places = [
      { e: stream("a"), table: "t" },
      { e: stream("a"), table: "tt" },
      { e: stream("a"), table: "t/k" },
      { e: stream("a/t"), table: "k" },
      { e: stream("a/t"), table: "t" },
      { e: entity("p", "stream2", "a"), table: "t" },
      { e: entity("p2", "stream", "a"), table: "t" },
    ];
    for (const [i, { e, table }] of places.entries())
      await on.commit(e, [put("k", String(i), table), put(`k${i}`, "", table)]);
    await on.lives(async () => {
      for (const [i, { e, table }] of places.entries()) {
        expect(await on.row(e, table, "k")).toBe(String(i));
        expect(await on.rowKeys(e, table)).toEqual(["k", `k${i}`]);
      }
    });
  });

  behavior("have keys of hundreds of bytes under ids of 1,024", async (on) => {
    const e = stream(`${"é".repeat(511)}xy`);
    const keys = ["k".repeat(255), `${"k".repeat(255)}a`, `${"k".repeat(255)}b`];
    await on.begin(e);
    await on.append(e, "message");
    await on.commit(
      e,
      keys.map((key) => put(key, key)),
    );
    await on.lives(async () => {
      expect(await on.rowKeys(e, "t")).toEqual(keys);
      expect(await on.payloads(e)).toEqual(["message"]);
      expect(await on.ids("p", "stream")).toEqual([e.id]);
    });
  });

  behavior("of a table with thousands are all there, in order", async (on) => {
    const keys = Array.from({ length: 3_000 }, (_, i) => `row-${(i * 7) % 3_000}`);
    for (let i = 0; i < keys.length; i += 500)
      await on.commit(
        a,
        keys.slice(i, i + 500).map((key) => put(key, key)),
      );
    await on.commit(
      a,
      keys.filter((_, i) => i % 3 === 0).map((key) => drop(key)),
    );
    const left = bytewise(keys.filter((_, i) => i % 3 !== 0));
    await on.lives(async () => expect(await on.rowKeys(a, "t", 700)).toEqual(left));
  });
}
