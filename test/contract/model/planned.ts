/** Turns plans into positions, messages and effects with the numbers of the engine under test. */
import { type Position, ZERO } from "@sluice/protocol";
import type { Effect, Head, Message } from "../../../packages/server/src/engine/contract.ts";
import type { MessagePlan, PositionPlan } from "./operations.ts";

export function pick<T>(list: readonly T[], index: number): T | undefined {
  return list.length === 0 ? undefined : list[index % list.length];
}

/** Overwrites the buffers of a resolved commit, as the contract allows a caller to do. */
export function scribble(effects: readonly Effect[]): void {
  for (const effect of effects) {
    if (effect.op === "put") effect.value.fill(0xee);
    if (effect.op === "append") for (const { payload } of effect.messages) payload.fill(0xee);
  }
}

/** The same effect with every generation from the offered one on raised by `by`. */
export function later(effect: Effect, offered: number, by: number): Effect {
  const moved = (generation: number) => (generation >= offered ? generation + by : generation);
  if (effect.op === "begin") {
    return {
      ...effect,
      generation: moved(effect.generation),
      at: { ...effect.at, generation: moved(effect.at.generation) },
    };
  }
  if (effect.op !== "trim") return effect;
  return { ...effect, through: { ...effect.through, generation: moved(effect.through.generation) } };
}

/** The parts of the next head that planning the same commit's further effects needs. */
export function foresee(head: Head, effect: Effect): Head {
  if (effect.op === "begin") return { ...head, generation: effect.generation, last: effect.at, start: effect.at };
  if (effect.op === "append" && effect.messages.length > 0) {
    return { ...head, last: { generation: head.generation, seq: head.last.seq + effect.messages.length } };
  }
  if (effect.op === "trim") return { ...head, start: effect.through };
  return head;
}

export function positionOf({ from, seq }: PositionPlan, { generation }: Head): Position {
  if (from === "zero") return { ...ZERO, seq };
  if (from === "older") return { generation: Math.max(0, generation - 1), seq };
  return { generation: from === "newer" ? generation + 1 : generation, seq };
}

export function messageOf({ size, fill, ...rest }: MessagePlan): Message {
  return { ...rest, payload: filled(size, fill) };
}

export function filled(size: number, fill: number): Uint8Array {
  const bytes = new Uint8Array(size);
  for (let i = 0; i < size; i++) bytes[i] = fill + i * 31;
  return bytes;
}
