import type { ErrorCode } from "@sluice/protocol";
import { expect, it } from "vitest";
import { Refusal } from "../../core/refusal.ts";
import { renderRefusal } from "./problem.ts";

it.each<[string, ErrorCode, number | undefined, string | undefined]>([
  ["a client is never told to come back too early", "rate-limited", 1_001, "2"],
  ["a whole second stays one", "rate-limited", 1_000, "1"],
  ["a moment that has passed already counts as a second", "keys-unavailable", -5, "1"],
  ["an outage of unknown length is one second", "unavailable", undefined, "1"],
  ["a refusal that no retry can change names no time", "forbidden", undefined, undefined],
])("Retry-After: %s", (_, code, retryAfterMs, seconds) => {
  const { headers } = renderRefusal(new Refusal(code, "no", retryAfterMs === undefined ? {} : { retryAfterMs }));
  const at = headers.indexOf("Retry-After");
  expect(at < 0 ? undefined : headers[at + 1]).toBe(seconds);
});
