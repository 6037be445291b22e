/**
 * The names that belong to the server: paths that start with one of a few prefixes. Services refuse to create, write or follow
 * them; auth, listings and wildcards leave them out. Pure.
 */
const RESERVED = ["session:", "$", "__ds"];

export function isReserved(path: string): boolean {
  for (const prefix of RESERVED) if (path.startsWith(prefix)) return true;
  return false;
}
