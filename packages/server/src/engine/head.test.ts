/** Effects that no correct caller sends are rejected, so that an engine never stores a log that contradicts itself. */
import { describe, expect, it } from "vitest";
import { type Effect, type Head, NO_HEAD } from "./contract.ts";
import { headAfter } from "./head.ts";

const begin: Effect = { op: "begin", generation: 5, at: { generation: 5, seq: 0 } };
const append: Effect = { op: "append", messages: [{ payload: new Uint8Array(3), at: 1 }] };
const trim = (seq: number): Effect => ({ op: "trim", through: { generation: 5, seq }, bytes: seq * 3 });
const head: Head = headAfter(NO_HEAD, [begin, append, append, trim(1)]);

describe("the head after a commit", () => {
  it("counts messages and bytes on from where it was", () => {
    const last = { generation: 5, seq: 3 };
    expect(headAfter(head, [append])).toEqual({ ...head, last, bytes: 9 });
  });

  it("is the same after an append of nothing, and after rows and reminders", () => {
    const put: Effect = { op: "put", table: "t", key: "k", value: new Uint8Array(1) };
    expect(headAfter(head, [{ op: "append", messages: [] }, put, { op: "remind", atMs: 1 }])).toEqual(head);
  });

  it("does not go back when something is trimmed again", () => {
    expect(headAfter(head, [trim(1), trim(0)])).toEqual(head);
  });

  it("is not made of a log that was never begun", () => {
    expect(() => headAfter(NO_HEAD, [append])).toThrow("never begun");
  });

  it("is not made of a generation that was there already, or that its own start is ahead of", () => {
    expect(() => headAfter(head, [begin])).toThrow("cannot follow");
    expect(() => headAfter(NO_HEAD, [{ ...begin, at: { generation: 6, seq: 0 } }])).toThrow("cannot follow");
  });

  it("is not made of a trim beyond the last message", () => {
    expect(() => headAfter(head, [trim(3)])).toThrow("beyond");
  });

  it("is not made of anything that follows a destroy", () => {
    expect(() => headAfter(head, [{ op: "destroy" }, append])).toThrow("last effect");
    expect(headAfter(head, [{ op: "destroy" }])).toEqual(NO_HEAD);
  });
});
