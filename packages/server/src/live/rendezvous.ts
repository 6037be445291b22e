/**
 * Rendezvous hashing: which of several hubs a session belongs to, as a pure function for a router in front. Sluice itself does
 * not need it, because a hub serves every tab that connects to it.
 *
 * Invariants: every router that knows the same hubs chooses the same one, in whatever order it lists them. A hub that joins takes
 * over about one session in n, and a hub that leaves gives up only its own sessions.
 */

/** Undefined if there is no hub. */
export function hubFor(sessionId: string, hubs: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestWeight = -1;
  for (const hub of hubs) {
    const weight = weightOf(`${hub}\n${sessionId}`);
    // Equal weights are decided by name, so that the order of the list does not matter.
    if (weight > bestWeight || (weight === bestWeight && best !== undefined && hub > best)) {
      best = hub;
      bestWeight = weight;
    }
  }
  return best;
}

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** FNV-1a over the UTF-16 units, then the finalizer of MurmurHash3, because FNV alone spreads similar texts poorly. */
function weightOf(text: string): number {
  let hash = FNV_OFFSET;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), FNV_PRIME);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
