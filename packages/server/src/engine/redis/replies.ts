/** From the functions' replies to what the contract speaks of. */
import type { Position } from "@sluice/protocol";
import type { Head, LoggedMessage, Message, Page, Rev, Snapshot } from "../contract.ts";
import type { Reply } from "./operation.ts";

export interface State {
  readonly rev: Rev;
  readonly head: Head;
}

/** The eleven numbers that a head is shown as. */
export function stateOf(words: unknown): State {
  const numbers = String(words).split(" ").map(Number);
  const at = (i: number): Position => ({ generation: numbers[i]!, seq: numbers[i + 1]! });
  const head = {
    generation: numbers[1]!,
    last: at(2),
    bytes: numbers[4]!,
    at: numbers[5]!,
    start: at(6),
    startBytes: numbers[8]!,
  };
  return { rev: numbers[0]!, head: numbers[9] === 0 ? head : { ...head, survived: at(9) } };
}

/** { kind, replid, time, head, nextGeneration, suspect, rows } */
export function snapshotOf(reply: Reply): Snapshot {
  const rows = reply[6] as readonly (Buffer | null)[];
  return { ...stateOf(reply[3]), nextGeneration: Number(reply[4]), rows: rows.map((value) => value ?? undefined) };
}

/** Whether another master wrote the head than the one that shows it. */
export function isSuspect(reply: Reply): boolean {
  return reply[5] === 1;
}

/** { page, replid, time, head, 0, suspect, entries, more } */
export function pageOf(reply: Reply): Page {
  const entries = reply[6] as readonly [Buffer, readonly Buffer[]][];
  return { messages: entries.map(messageOf), head: stateOf(reply[3]).head, atTail: reply[7] === 0 };
}

/** The rev in a head as it is stored; null is the head of an entity that does not exist. */
export function revIn(head: Buffer | null): string {
  return head === null ? "0" : head.toString("latin1", 0, head.indexOf(" "));
}

function messageOf([id, fields]: readonly [Buffer, readonly Buffer[]]): LoggedMessage {
  const message: { -readonly [K in keyof Message]: Message[K] } & { position: Position } = {
    position: positionOf(id),
    payload: fields[1]!,
    at: Number(fields[3]),
  };
  for (let i = 4; i < fields.length; i += 2) {
    const value = String(fields[i + 1]);
    const name = String(fields[i]);
    if (name === "i") message.id = value;
    else if (name === "k") message.key = value;
    else message.attributes = JSON.parse(value);
  }
  return message;
}

function positionOf(id: Buffer): Position {
  const dash = id.indexOf(0x2d);
  return { generation: Number(id.toString("latin1", 0, dash)), seq: Number(id.toString("latin1", dash + 1)) };
}
