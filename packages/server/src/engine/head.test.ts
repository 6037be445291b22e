/** Effects that no correct caller sends are rejected, so that an engine never stores a log that contradicts itself. */
import { describe, expect, it } from "vitest";
import { type Effect, type Head, NO_HEAD } from "./contract.ts";
import { headAfter } from "./head.ts";

const begin: Effect = { op: "begin", generation: 5, at: { generation: 5, seq: 0 } };
const append: Effect = { op: "append", messages: [{ payload: new Uint8Array(3), at: 1 }] };
const trim = (seq: number): Effect => ({ op: "trim", through: { generation: 5, seq }, bytes: seq * 3 });
const head: Head = headAfter(NO_HEAD, [begin, append, append, trim(1)]);

describe("the head after a commit", () => {
  it("continues the counts of messages and bytes", () => {
    const last = { generation: 5, seq: 3 };
    expect(headAfter(head, [append])).toEqual({ ...head, last, bytes: 9 });
  });

  it("does not change with an empty append, rows or reminders", () => {
    const put: Effect = { op: "put", table: "t", key: "k", value: new Uint8Array(1) };
    expect(headAfter(head, [{ op: "append", messages: [] }, put, { op: "remind", atMs: 1 }])).toEqual(head);
  });

  it("does not go back after a repeated trim", () => {
    expect(headAfter(head, [trim(1), trim(0)])).toEqual(head);
  });

  it("is not computed for a log that was never begun", () => {
    expect(() => headAfter(NO_HEAD, [append])).toThrow("never begun");
  });

  it("is not computed for a used generation, or one below its own start", () => {
    expect(() => headAfter(head, [begin])).toThrow("cannot follow");
    expect(() => headAfter(NO_HEAD, [{ ...begin, at: { generation: 6, seq: 0 } }])).toThrow("cannot follow");
  });

  it("is not computed for a trim beyond the last message", () => {
    expect(() => headAfter(head, [trim(3)])).toThrow("beyond");
  });

  it("is not computed for an effect after a destroy", () => {
    expect(() => headAfter(head, [{ op: "destroy" }, append])).toThrow("last effect");
    expect(headAfter(head, [{ op: "destroy" }])).toEqual(NO_HEAD);
  });
});
