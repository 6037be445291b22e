import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { assign, type Borrower, type Placed } from "./assignment.ts";

const free = (path: string, home?: string): Placed => ({ path, home, isFree: true });
const held = (path: string, holder: string): Placed => ({ path, holder, home: holder, isFree: false });
const leaving = (path: string): Placed => ({ path, isFree: false });
const b = (id: string, member = id): Borrower => ({ id, member });

test.each([
  ["no borrower", [free("a")], [], { revoke: [], grant: [] }],
  ["no stream", [], [b("x")], { revoke: [], grant: [] }],
  [
    "free streams in turn",
    [free("a"), free("b"), free("c")],
    [b("x"), b("y")],
    {
      revoke: [],
      grant: [
        { path: "a", borrower: "x" },
        { path: "b", borrower: "y" },
        { path: "c", borrower: "x" },
      ],
    },
  ],
  ["a newcomer", [held("a", "x"), held("b", "x")], [b("x"), b("y")], { revoke: ["b"], grant: [] }],
  ["more borrowers than streams", [held("a", "x")], [b("w"), b("x"), b("y")], { revoke: [], grant: [] }],
  [
    "a stream that is on its way to a borrower that lacks one",
    [held("a", "x"), leaving("b")],
    [b("x"), b("y")],
    { revoke: [], grant: [] },
  ],
  [
    "a member that returns",
    [held("a", "x1"), free("b", "y"), free("c", "z")],
    [b("x1", "x"), b("z2", "z"), b("y2", "y")],
    {
      revoke: [],
      grant: [
        { path: "b", borrower: "y2" },
        { path: "c", borrower: "z2" },
      ],
    },
  ],
  [
    "a member that returns to more than its share",
    [free("a", "x"), free("b", "x")],
    [b("x1", "x"), b("y1", "y")],
    {
      revoke: [],
      grant: [
        { path: "a", borrower: "x1" },
        { path: "b", borrower: "y1" },
      ],
    },
  ],
] as const)("with %s", (_, streams, borrowers, moves) => {
  expect(assign(streams, borrowers)).toEqual(moves);
});

describe("with any streams and borrowers", () => {
  const ids = ["u", "v", "w", "x", "y"];
  const stream = (paths: readonly string[]) => paths.map((path, i) => ({ path, pick: i }));
  const setup = fc
    .record({
      borrowers: fc.subarray(ids, { minLength: 1 }),
      picks: fc.array(fc.nat({ max: 6 }), { maxLength: 40 }),
    })
    .map(({ borrowers, picks }) => {
      const streams = stream(picks.map((_, i) => `s${i}`)).map(({ path, pick }): Placed => {
        const choice = picks[pick]!;
        if (choice === 6) return leaving(path);
        const holder = choice < borrowers.length ? borrowers[choice]! : undefined;
        return holder === undefined ? free(path, ids[choice]) : held(path, holder);
      });
      return { streams, borrowers: borrowers.map((id) => b(id)) };
    });

  /** Applies the moves until nothing moves any more; returns the holders and the number of revoked streams. */
  function settle(streams: readonly Placed[], borrowers: readonly Borrower[]) {
    let now = streams.map((one) => ({ ...one, isFree: one.holder === undefined }));
    let revoked = 0;
    for (let round = 0; round < 5; round++) {
      const { revoke, grant } = assign(now, borrowers);
      revoked += revoke.length;
      const granted = new Map(grant.map(({ path, borrower }) => [path, borrower]));
      now = now.map((one) => {
        if (revoke.includes(one.path)) return { ...one, holder: undefined, isFree: true };
        const holder = granted.get(one.path);
        return holder === undefined ? one : { ...one, holder, isFree: false };
      });
    }
    return { now, revoked };
  }

  test("all streams are held in the end, and no borrower holds more than one above another", () => {
    fc.assert(
      fc.property(setup, ({ streams, borrowers }) => {
        const { now } = settle(streams, borrowers);
        const counts = borrowers.map(({ id }) => now.filter(({ holder }) => holder === id).length);
        expect(now.every(({ holder }) => holder !== undefined)).toBe(true);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      }),
    );
  });

  test("the fewest streams move", () => {
    fc.assert(
      fc.property(setup, ({ streams, borrowers }) => {
        const counts = borrowers
          .map(({ id }) => streams.filter(({ holder }) => holder === id).length)
          .sort((x, y) => y - x);
        const least = Math.floor(streams.length / borrowers.length);
        const more = streams.length % borrowers.length;
        const minimum = counts.reduce((sum, count, i) => sum + Math.max(0, count - least - (i < more ? 1 : 0)), 0);
        expect(settle(streams, borrowers).revoked).toBe(minimum);
      }),
    );
  });

  test("the order of the lists does not matter", () => {
    fc.assert(
      fc.property(setup, ({ streams, borrowers }) => {
        const sorted = ({ revoke, grant }: ReturnType<typeof assign>) => [[...revoke].sort(), grant];
        const reversed = assign([...streams].reverse(), [...borrowers].reverse());
        expect(sorted(reversed)).toEqual(sorted(assign(streams, borrowers)));
      }),
    );
  });
});
