/**
 * The real world: the machine's clock, timers, randomness and cryptography. `compose` passes it to every part.
 *
 * Invariants: no other code uses them, so that the same code runs in a seeded simulation.
 */
import { createHmac, randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";
import type { Cancel, World } from "./core/world.ts";

/** A longer delay overflows the timer, which would then fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

export function realWorld(): World {
  return {
    now: Date.now,
    monotonicMs: () => performance.now(),
    after,
    soon: (task) => void setImmediate(task),
    random: Math.random,
    randomBytes: (count) => new Uint8Array(randomBytes(count)),
  };
}

/** The signature of tokens. It follows from its input alone, so a simulation uses it too. */
export function hmacSha256(key: Uint8Array, message: Uint8Array): Uint8Array {
  return new Uint8Array(createHmac("sha256", key).update(message).digest());
}

function after(ms: number, task: () => void): Cancel {
  let timer: NodeJS.Timeout;
  const wait = (leftMs: number): void => {
    const delayMs = Math.min(leftMs, MAX_DELAY_MS);
    timer = setTimeout(() => (delayMs < leftMs ? wait(leftMs - delayMs) : task()), delayMs);
  };
  wait(ms);
  return () => clearTimeout(timer);
}
