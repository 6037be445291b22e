/** What clients learn of a fault. */
import { expect, it } from "vitest";
import { EngineError } from "../../engine/contract.ts";
import { renderFault } from "./problem.ts";

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
