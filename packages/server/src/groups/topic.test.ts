import { expect, test } from "vitest";
import { filterOf, groupId, groupOfId, parseTopic } from "./topic.ts";

test.each([
  ["$share/billing/orders/#", { mode: "share", group: "billing", filter: "orders/#" }],
  ["$shared/billing/orders/#", { mode: "share", group: "billing", filter: "orders/#" }],
  ["$queue/g/a", { mode: "queue", group: "g", filter: "a" }],
  ["$queue/g/+/b/#", { mode: "queue", group: "g", filter: "+/b/#" }],
  ["$share/g/#", { mode: "share", group: "g", filter: "#" }],
])("%s names a group, which its id names too", (topic, expected) => {
  const name = parseTopic(topic);
  expect(name).toEqual(expected);
  expect(groupOfId(groupId(name))).toEqual(expected);
});

test.each([
  "orders/#",
  "$other/g/a",
  "constructor/g/a",
  "$share",
  "$share/g",
  "$share//a",
  "$share/g/",
  "$share/+/a",
  "$share/g/a#",
  "$share/g/#/a",
  "$queue/g/a+/b",
  `$queue/${"g".repeat(257)}/a`,
  `$queue/g/${"a".repeat(1_025)}`,
  "$queue/g/\ud800",
])("%s names no group", (topic) => {
  expect(() => parseTopic(topic)).toThrow(expect.objectContaining({ code: "bad-request" }));
});

test.each(["$share/g/$share/x", "$share/g/session:1", "$queue/g/__ds/+", "$queue/g/t/$shard/+"])(
  "%s names streams that no group consumes",
  (topic) => {
    expect(() => parseTopic(topic)).toThrow(expect.objectContaining({ code: "reserved-name" }));
  },
);

test("the filter of a group is parsed into its levels", () => {
  expect(filterOf({ filter: "a/+/#" }).levels).toEqual(["a", "+", "#"]);
});
