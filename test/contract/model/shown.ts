/** The driver's report of an engine's answers: short enough for a counterexample, and without the engine's own numbers. */
import type { Position } from "@sluice/protocol";
import { expect } from "vitest";
import type { Head, Page } from "../../../packages/server/src/engine/contract.ts";

/** Short enough to be read in a counterexample, yet different for different bytes. */
export function shownBytes(value: Uint8Array): string {
  if (value.length <= 16) return Buffer.from(value).toString("hex");
  let sum = 0;
  for (const byte of value) sum = (Math.imul(sum, 31) + byte) | 0;
  return `${value.length} bytes, sum ${sum}`;
}

export function shownRows(rows: readonly { readonly key: string; readonly value: Uint8Array }[]) {
  return rows.map(({ key, value }) => [key, shownBytes(value)]);
}

export function shownHead(head: Head) {
  const { last, start, bytes, startBytes, at } = head;
  const shown = ({ generation, seq }: Position) => {
    const age = generation === head.generation ? "own" : generation < head.generation ? "older" : "newer";
    return `${age} ${seq}`;
  };
  return { begun: head.generation > 0, last: shown(last), start: shown(start), bytes, startBytes, at };
}

export function shownPage({ messages, head, atTail }: Page) {
  const shown = messages.map(({ position, payload, at, id, key, attributes }) => {
    expect(position.generation).toBe(head.generation);
    return {
      seq: position.seq,
      payload: shownBytes(payload),
      at,
      id,
      key,
      attributes: Object.entries(attributes ?? {}),
    };
  });
  return { messages: shown, head: shownHead(head), atTail };
}
