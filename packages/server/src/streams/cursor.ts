/**
 * The cursor that keeps caches from answering a live reader twice with the same response: the number of 20-second
 * intervals since a fixed day. Called by the tail routes.
 *
 * Invariants: a client that sends the current cursor or a later one gets a later one.
 */
const EPOCH_MS = Date.UTC(2024, 9, 9);
const INTERVAL_MS = 20_000;
const MAX_JITTER_MS = 3_600_000;

export function currentCursor(now: number): number {
  return Math.floor((now - EPOCH_MS) / INTERVAL_MS);
}

/** `random` in [0, 1) spreads clients that collide. */
export function nextCursor(sent: string | undefined, now: number, random: number): number {
  const current = currentCursor(now);
  const seen = sent !== undefined && /^\d{1,15}$/.test(sent) ? Number(sent) : -1;
  if (seen < current) return current;
  return seen + 1 + Math.floor((random * MAX_JITTER_MS) / INTERVAL_MS);
}
