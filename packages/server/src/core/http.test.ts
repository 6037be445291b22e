import { expect, test } from "vitest";
import { type HttpRequest, perHeaders, queryValue, queryValues } from "./http.ts";
import { Refusal } from "./refusal.ts";

const request = (host: string, headerSet?: object): HttpRequest => ({
  method: "GET",
  path: "/",
  search: "",
  origin: "",
  header: () => host,
  headerSet,
  body: () => ({ kind: "too-large" }),
  onGone: () => {},
});

test("what follows from headers is read once for requests with the same ones, and each time for all others", () => {
  let reads = 0;
  const hostOf = perHeaders((of) => {
    reads++;
    return { host: of.header("host") };
  });
  const set = {};
  expect([hostOf(request("a", set)), hostOf(request("a", set))]).toEqual([{ host: "a" }, { host: "a" }]);
  expect(reads).toBe(1);
  expect(hostOf(request("b", {}))).toEqual({ host: "b" });
  expect([hostOf(request("c")), hostOf(request("d"))]).toEqual([{ host: "c" }, { host: "d" }]);
  expect(reads).toBe(4);
});

test("headers that are refused are refused again", () => {
  const refuse = perHeaders(() => {
    throw new Refusal("bad-header", "no");
  });
  const set = {};
  for (let i = 0; i < 2; i++) expect(() => refuse(request("a", set))).toThrow("no");
});

test.each<[string, string, string[]]>([
  ["", "a", []],
  ["a=1", "a", ["1"]],
  ["a", "a", [""]],
  ["ab=1&a=2&a=3", "a", ["2", "3"]],
  ["%61=1", "a", ["1"]],
  ["a=b+c%20d", "a", ["b c d"]],
  ["a=%", "a", ["%"]],
  ["b=a", "a", []],
])("the query %j has the values of %s", (search, name, values) => {
  expect(queryValues(search, name)).toEqual(values);
  if (values.length < 2) expect(queryValue(search, name)).toBe(values[0]);
  else expect(() => queryValue(search, name)).toThrow("is given 2 times");
});
