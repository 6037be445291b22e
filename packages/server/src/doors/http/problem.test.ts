/** What clients learn of a refusal or a fault. */
import type { ErrorCode } from "@sluice/protocol";
import { expect, it } from "vitest";
import { Refusal } from "../../core/refusal.ts";
import { EngineError } from "../../engine/contract.ts";
import { renderFault, renderRefusal } from "./problem.ts";

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

it.each(["storage-failed", "storage-full", "overloaded", "unavailable", "data-damaged"] as const)(
  "a client is told of a fault of the engine (%s) without the paths that the operator reads",
  (code) => {
    const fault = new EngineError(code, "The disk failed (EIO).", "EIO: i/o error, write '/srv/sluice/journal/1.seg'");
    const { body } = renderFault(fault, () => {});
    expect(JSON.parse(String(body))).toMatchObject({ code, detail: "The disk failed (EIO)." });
    expect(body).not.toContain("/srv");
  },
);

it("a client is told nothing of a fault that the server does not know", () => {
  const reported: unknown[] = [];
  const fault = new Error("EACCES: permission denied, open '/srv/sluice/key.pem'");
  const { status, body } = renderFault(fault, (unexpected) => reported.push(unexpected));
  expect([status, reported]).toEqual([500, [fault]]);
  expect(body).not.toContain("/srv");
});
