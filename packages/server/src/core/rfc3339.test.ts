import { expect, it } from "vitest";
import { parseTime } from "./rfc3339.ts";

it.each<[string, string | undefined]>([
  ["2030-01-31T12:00:00Z", "2030-01-31T12:00:00.000Z"],
  ["2030-01-31T12:00:00.5+02:00", "2030-01-31T10:00:00.500Z"],
  ["2096-02-29T23:59:59-01:00", "2096-03-01T00:59:59.000Z"],
  ["2099-12-31T00:00:00+14:00", "2099-12-30T10:00:00.000Z"],
  ["2099-02-29T00:00:00Z", undefined],
  ["2099-02-30T00:00:00Z", undefined],
  ["2099-04-31T00:00:00+02:00", undefined],
  ["2099-01-32T00:00:00Z", undefined],
  ["2099-00-01T00:00:00Z", undefined],
  ["2099-01-01T24:00:00Z", undefined],
  ["2099-01-01T23:60:00Z", undefined],
  ["2099-01-01T00:00:00", undefined],
  ["2099-01-01", undefined],
  ["soon", undefined],
])("the time %s is %s", (text, time) => {
  const at = parseTime(text);
  expect(at === undefined ? undefined : new Date(at).toISOString()).toBe(time);
});
