/** Names in addresses: stream paths, topics and ids as a URL carries them. */
import { wrong } from "./options.ts";

export const EXPRESSIBLE = "a text that an address can express";

/** The levels of a path, encoded. Throws a TypeError for a path that no address can express. */
export function levelsOf(path: string, what = "the path of a stream"): string {
  const levels = path.split("/");
  if (path === "" || levels.some(isDots)) throw wrong(what, EXPRESSIBLE, path);
  return levels.map(encodeURIComponent).join("/");
}

/** A URL parser treats these levels as a step up or down. */
export function isDots(level: string): boolean {
  return level === "." || level === "..";
}
