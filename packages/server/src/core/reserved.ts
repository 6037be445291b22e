/**
 * The path prefixes that belong to the server. Services refuse to create, write or follow such paths; auth, listings and
 * wildcards leave them out. Pure.
 */
import { Refusal } from "./refusal.ts";

export const SESSION_PREFIX = "session:";
const RESERVED = [SESSION_PREFIX, "$", "__ds"];

/** Whether the path is the inbox of a session. */
export function isSessionPath(path: string): boolean {
  return path.startsWith(SESSION_PREFIX);
}

export function isReserved(path: string): boolean {
  for (const prefix of RESERVED) if (path.startsWith(prefix)) return true;
  return false;
}

/** Throws a Refusal if only the server may write to this path. */
export function refuseReserved(path: string): void {
  if (isReserved(path))
    throw new Refusal("reserved-name", `paths starting with ${RESERVED.join(", ")} are reserved; use another path`);
}
