import { expect, test } from "vitest";
import { StoredCache } from "./stored-cache.ts";
import { ABSENT } from "./view.ts";

const VIEW = { ...ABSENT, number: 7, rev: 3 };
const bytes = (length: number) => new Uint8Array(length);

test("a head is known until its entity changes", () => {
  const cache = new StoredCache(10_000);
  cache.keepView("a", VIEW);
  expect(cache.view("a")).toBe(VIEW);
  cache.dropView("a");
  expect(cache.view("a")).toBeUndefined();
});

test("a row is known until it changes, and so is a row that does not exist; other rows stay known", () => {
  const cache = new StoredCache(10_000);
  const row = bytes(10);
  cache.keepRow(7, "meta\0", row);
  cache.keepRow(7, "seq\0", undefined);
  expect([...cache.rowsOf(7)!]).toEqual([
    ["meta\0", row],
    ["seq\0", undefined],
  ]);
  cache.dropRow(7, "meta\0");
  expect([...cache.rowsOf(7)!.keys()]).toEqual(["seq\0"]);
  cache.dropRow(7, "seq\0");
  expect(cache.rowsOf(7)).toBeUndefined();
});

test("the rows of a destroyed incarnation are dropped, those of others stay", () => {
  const cache = new StoredCache(10_000);
  for (const number of [7, 8]) cache.keepRow(number, "meta\0", bytes(10));
  cache.dropRows(7);
  expect([7, 8].map((number) => cache.rowsOf(number)?.size)).toEqual([undefined, 1]);
});

test("a large row is not kept", () => {
  const cache = new StoredCache(100_000);
  cache.keepRow(7, "meta\0", bytes(5_000));
  expect(cache.rowsOf(7)).toBeUndefined();
});

test("the cache starts over when it is full, and what was dropped leaves room", () => {
  const cache = new StoredCache(2_000);
  for (let i = 0; i < 100; i++) {
    cache.keepRow(i, "meta\0", bytes(500));
    cache.dropRow(i, "meta\0");
    cache.keepView(`${i}`, VIEW);
    cache.dropView(`${i}`);
    cache.keepRow(i, "a\0", bytes(500));
    cache.dropRows(i);
  }
  cache.keepView("kept", VIEW);
  expect(cache.view("kept")).toBe(VIEW);
  for (let i = 0; i < 3; i++) cache.keepRow(i, "meta\0", bytes(500));
  expect(cache.view("kept")).toBeUndefined();
  expect([0, 1, 2].filter((i) => cache.rowsOf(i) !== undefined)).toEqual([2]);
});
