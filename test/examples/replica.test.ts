import fc from "fast-check";
import { expect, test } from "vitest";
import { changeOf } from "../../examples/collab-doc/page/change.ts";
import { type Operation, Replica } from "../../examples/collab-doc/replica.ts";

/** A step of one of three sites: it types or removes at a place, sends its oldest edit to the log, or reads the next one of the log. */
const step = fc.record({
  site: fc.nat(2),
  kind: fc.constantFrom("type", "remove", "send", "read", "read"),
  place: fc.nat(30),
  text: fc.string({ minLength: 1, maxLength: 4, unit: fc.constantFrom("a", "b", "🌊") }),
});

test("an edit is shown where it was made, and replicas that have read the whole log show the same text", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const log: Operation[] = [];
      const sites = ["x", "y", "z"].map((name) => ({ replica: new Replica(name), unsent: [] as Operation[], read: 0 }));
      for (const { site, kind, place, text } of steps) {
        const own = sites[site]!;
        const { replica, unsent } = own;
        const letters = [...replica.letters()].filter(({ isDeleted }) => !isDeleted);
        const at = Math.min(place, letters.length);
        const { text: before } = replica;
        if (kind === "type") {
          unsent.push(replica.insert(text, letters[at - 1]?.id));
          expect(replica.text).toBe(before.slice(0, at) + text + before.slice(at));
        }
        if (kind === "remove") {
          unsent.push(replica.delete(letters.slice(at, at + 3).map(({ id }) => id)));
          expect(replica.text).toBe(before.slice(0, at) + before.slice(at + 3));
        }
        if (kind === "send" && unsent.length > 0) log.push(unsent.shift()!);
        if (kind === "read" && own.read < log.length) replica.apply(log[own.read++]!);
      }
      for (const { unsent } of sites) log.push(...unsent);
      for (const { replica, read } of sites) for (const operation of log.slice(read)) replica.apply(operation);
      const late = new Replica("late");
      // An edit that was sent twice changes nothing.
      for (const operation of log) for (const again of [operation, operation]) late.apply(again);
      for (const { replica } of sites) expect(replica.text).toBe(late.text);
    }),
    { numRuns: 200 },
  );
});

test("text typed at one place by two sites is not mixed letter by letter", () => {
  const [x, y] = [new Replica("x"), new Replica("y")];
  const [one, two] = [x.insert("one", undefined), y.insert("two", undefined)];
  x.apply(two);
  y.apply(one);
  expect([x.text, y.text]).toEqual(["twoone", "twoone"]);
});

test("the change of a text field turns the text before into the text after, and never cuts a character", () => {
  const text = fc.string({ maxLength: 8, unit: fc.constantFrom("a", "b", "🌊", "🌋") });
  fc.assert(
    fc.property(text, text, text, text, (head, removed, typed, tail) => {
      const [before, after] = [head + removed + tail, head + typed + tail];
      const change = changeOf(before, after, (head + typed).length);
      expect(before.slice(0, change.from) + change.text + before.slice(change.to)).toBe(after);
      // Half a character does not survive UTF-8.
      for (const part of [change.text, before.slice(change.from, change.to)]) {
        expect(Buffer.from(part).toString()).toBe(part);
      }
    }),
  );
  expect(changeOf("aaa", "aaaa", 2)).toEqual({ from: 1, to: 1, text: "a" });
});
