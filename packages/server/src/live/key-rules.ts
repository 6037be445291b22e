/**
 * The keys that sign session tokens. One entity per project, kind "token-keys"; `Tokens` submits the rule when it mints.
 *
 *     keys  ""   the retired keys whose tokens may still be alive, then the key in use
 *
 * Invariants: a key stays for as long as a token that it signed can live. Projects share no keys.
 */
import { type Entity, entity } from "../engine/contract.ts";
import { put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { jsonTable } from "../engine/table.ts";

export interface TokenKey {
  readonly id: string;
  /** Base64url. */
  readonly secret: string;
  readonly createdAt: number;
  readonly retiredAt?: number | undefined;
}

export interface KeyLimits {
  /** A key that has signed for this long is replaced. */
  readonly keyMs: number;
  /** How long a token lives. */
  readonly tokenMs: number;
}

export const keysTable = jsonTable<readonly TokenKey[]>("keys");
export const KEYS_ROW = keysTable.at("");

export function keysEntity(project: string): Entity {
  return entity(project, "token-keys", "session");
}

/** The key that signs now. `fresh` takes over if there is no key, or the present one is too old. */
export function keyRule(
  view: View,
  now: number,
  fresh: Pick<TokenKey, "id" | "secret">,
  { keyMs, tokenMs }: KeyLimits,
): Decision<TokenKey> {
  const keys = view.get(keysTable, "") ?? [];
  const current = keys.find(({ retiredAt }) => retiredAt === undefined);
  if (current !== undefined && now - current.createdAt < keyMs) return { outcome: current };
  const key: TokenKey = { ...fresh, createdAt: now };
  const retired = keys.map((one) => (one.retiredAt === undefined ? { ...one, retiredAt: now } : one));
  // Twice the life of a token, because the clocks of nodes may differ.
  const kept = retired.filter(({ retiredAt }) => now < retiredAt! + 2 * tokenMs);
  return { outcome: key, changes: [put(keysTable, "", [...kept, key])] };
}
