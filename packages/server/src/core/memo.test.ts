import { expect, test } from "vitest";
import { memoOfNames, memoOfTexts } from "./memo.ts";

/** A memo of lengths, and the texts that it had to compute. */
function fixture() {
  const computed: string[] = [];
  const lengthOf = memoOfTexts((text) => {
    computed.push(text);
    if (text === "bad") throw new Error("refused");
    return { length: text.length };
  });
  return { lengthOf, computed };
}

test("an equal text gets the same result, and another text gets its own", () => {
  const { lengthOf, computed } = fixture();
  const first = lengthOf("abc");
  expect(lengthOf(["a", "bc"].join(""))).toBe(first);
  expect(lengthOf("abcd")).toEqual({ length: 4 });
  expect(computed).toEqual(["abc", "abcd"]);
});

test("a failure is not remembered", () => {
  const { lengthOf, computed } = fixture();
  expect(() => lengthOf("bad")).toThrow("refused");
  expect(() => lengthOf("bad")).toThrow("refused");
  expect(computed).toEqual(["bad", "bad"]);
});

test("long texts are computed each time and displace none, and many texts displace old ones", () => {
  const { lengthOf, computed } = fixture();
  const long = "x".repeat(10_000);
  lengthOf("a");
  for (let i = 0; i < 3_000; i++) lengthOf(long);
  lengthOf("a");
  expect(computed.filter((text) => text === "a")).toHaveLength(1);
  expect(computed.filter((text) => text === long)).toHaveLength(3_000);
  for (let i = 0; i < 3_000; i++) lengthOf(`text ${i}`);
  lengthOf("a");
  expect(computed.filter((text) => text === "a")).toHaveLength(2);
});

test("a name is known again in its project, and is another name in another project", () => {
  const placeOf = memoOfNames((project, name) => ({ project, name }));
  const first = placeOf("a", "orders");
  expect(placeOf("a", ["ord", "ers"].join(""))).toBe(first);
  for (const project of ["b", "a", "b"]) expect(placeOf(project, "orders")).toEqual({ project, name: "orders" });
  expect(placeOf("a", "invoices")).toEqual({ project: "a", name: "invoices" });
});
